/* SPDX-License-Identifier: Apache-2.0 */
/* jaxbench/abi.h - the ground every other header stands on: visibility, views,
 * status codes, the caller-allocated error, and the rule by which structs grow.
 *
 * The ABI in five sentences.
 *   1. A plugin is a shared object that exports one *data* symbol,
 *      `jb_plugin_v1` (plugin.h); reading it runs no plugin code.
 *   2. Every struct that crosses the boundary begins with `struct_size`, the
 *      size its writer was compiled with, and grows only at its end; a reader
 *      asks JB_HAS() before it touches a field, and an absent field has the
 *      default its comment names.  A change of *meaning* is a new kind id.
 *   3. Nothing allocated on one side is freed on the other.
 *   4. Functions return 0 or a negative jb_status and then have filled the
 *      caller's jb_error; what a candidate does wrong is a result, not an error.
 *   5. Only fixed-width integers, doubles, pointers and (ptr,len) views cross;
 *      no enum, bool, bit-field, long, FILE* or errno.
 *
 * Thread tags.  [main]: called on the thread that loaded the plugin, one call
 * at a time.  [instance]: never two calls at once on one instance, though
 * instances may run on different threads.  [any]: any thread, concurrently.
 *
 * C11; also valid C++17.  Includes nothing but the C standard library.
 */
#ifndef JAXBENCH_ABI_H
#define JAXBENCH_ABI_H

#include <stddef.h>
#include <stdint.h>

#define JB_ABI_MAJOR 1u /* part of the symbol name: jb_plugin_v1 */
#define JB_ABI_MINOR 1u /* counts appended fields, kinds and services; docs/abi.md lists them */

#if defined(__GNUC__) || defined(__clang__)
#define JB_EXPORT __attribute__((visibility("default")))
#define JB_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define JB_EXPORT
#define JB_PRINTF(fmt, args)
#endif

/* True when the struct `p` points to, as its writer compiled it, reaches to
 * the end of `field`.  `p->struct_size` must be readable. */
#define JB_HAS(p, type, field) \
    ((p)->struct_size >= (uint32_t)(offsetof(type, field) + sizeof(((type *)0)->field)))

/* A view of `len` bytes of UTF-8 or binary data; not NUL-terminated.  The
 * holder of the view never frees it.  {NULL, 0} is the empty view. */
typedef struct jb_view {
    const char *ptr;
    uint64_t len;
} jb_view;

/* Negative return values.  Stable for ever; new ones are appended. */
#define JB_OK 0
#define JB_EINVAL (-1)    /* an argument or option is out of its range */
#define JB_ENOMEM (-2)    /* out of memory */
#define JB_ENOTFOUND (-3) /* a named thing does not exist */
#define JB_EEXIST (-4)    /* a named thing exists already */
#define JB_EIO (-5)       /* the operating system refused a read, write or spawn */
#define JB_EPARSE (-6)    /* malformed input; the error carries file and line */
#define JB_EABI (-7)      /* incompatible plugin, or a service it needs is absent */
#define JB_ESTATE (-8)    /* called at the wrong time, e.g. a submit outside a handler */
#define JB_EBUDGET (-9)   /* the ledger does not admit the operation */
#define JB_ECANCELLED (-10)
#define JB_ETIMEOUT (-11)
#define JB_EPROTO (-12)   /* a peer process broke the frame protocol */
#define JB_EUNSUPPORTED (-13)
#define JB_EPERM (-14)    /* refused by policy, e.g. isolation: required */
#define JB_EINTERNAL (-15)/* a bug in jaxbench or in the plugin */

/* Flags of jb_error. */
#define JB_ERR_RETRYABLE 1u /* the same call may succeed later */
#define JB_ERR_USER 2u      /* the user can mend it (input, configuration) */
#define JB_ERR_BUG 4u       /* nobody but a developer can */

/* One error, allocated by the caller (on the stack), filled once where the
 * cause is known; callers going up may prefix context.  Works without memory
 * and needs no destructor.  `message` says what failed, what was expected and
 * what was seen; `hint` says what to do next and may be empty; `where` is
 * "file:line" or "" .  All three are NUL-terminated, cut to fit. */
typedef struct jb_error {
    uint32_t struct_size;
    int32_t code;   /* a JB_E* status, or JB_OK when empty */
    uint32_t flags; /* JB_ERR_* */
    uint32_t reserved;
    char message[512];
    char hint[256];
    char where[128];
} jb_error;

/* Value types of options and how their text is written. */
#define JB_OPT_BOOL 1u     /* true | false */
#define JB_OPT_INT 2u      /* decimal int64_t */
#define JB_OPT_FLOAT 3u    /* finite double, e.g. 1e-2 */
#define JB_OPT_STRING 4u   /* UTF-8, stored as const char*, NUL-terminated */
#define JB_OPT_ENUM 5u     /* one of `choices`; stored as const char* */
#define JB_OPT_DURATION 6u /* 250ms | 30s | 5m | 2h; stored as int64_t nanoseconds */
#define JB_OPT_SIZE 7u     /* 4096 | 64KiB | 2GiB; stored as int64_t bytes */
#define JB_OPT_PATH 8u     /* a file name; stored as const char* */

#define JB_OPTF_REQUIRED 1u
#define JB_OPTF_SECRET 2u   /* never printed, never stored; names an environment variable */
#define JB_OPTF_ADVANCED 4u /* left out of the short help */

/* One row of an option table: everything --help, YAML validation, the JSON
 * schema and the documentation need to know.  The value is stored in the
 * component's config struct at `offset`: int64_t for BOOL, INT, DURATION and
 * SIZE, double for FLOAT, const char* otherwise (NULL when unset; the string
 * lives as long as the config). */
typedef struct jb_option {
    uint32_t struct_size;
    uint32_t type;           /* JB_OPT_* */
    uint32_t flags;          /* JB_OPTF_* */
    uint32_t offset;         /* offsetof(config struct, field) */
    const char *name;        /* snake_case */
    const char *def;         /* default as text; NULL: unset */
    double min, max;         /* inclusive range of INT and FLOAT; 0,0: unbounded */
    const char *const *choices; /* NULL-terminated, for ENUM; else NULL */
    const char *unit;        /* "samples", "ns", ... or NULL */
    const char *help;        /* one sentence */
} jb_option;

#endif
