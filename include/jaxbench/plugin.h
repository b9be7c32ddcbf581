/* SPDX-License-Identifier: Apache-2.0 */
/* jaxbench/plugin.h - the manifest of a plugin and the services of its host.
 *
 *     jb_plugin_v1 --> jb_plugin --> components[] --> jb_component --> ops (per kind)
 *
 * A plugin file holds one or more components; each is of one kind:
 *     jb.method/1    method.h     how an agent searches
 *     jb.backend/1   backend.h    who writes the code
 *     jb.checker/1   checker.h    what counts as correct
 *     jb.timer/1     timer.h      what counts as fast
 *     jb.executor/1  executor.h   where candidates are traced, compiled and run
 *
 * The host loads a file with RTLD_NOW | RTLD_LOCAL and never closes it.
 */
#ifndef JAXBENCH_PLUGIN_H
#define JAXBENCH_PLUGIN_H

#include <jaxbench/abi.h>

#define JB_KIND_METHOD "jb.method/1"
#define JB_KIND_BACKEND "jb.backend/1"
#define JB_KIND_CHECKER "jb.checker/1"
#define JB_KIND_TIMER "jb.timer/1"
#define JB_KIND_EXECUTOR "jb.executor/1"

/* Properties of a component. */
#define JB_COMP_SERIAL 1u        /* one instance at a time in a process */
#define JB_COMP_REENTRANT 2u     /* one instance may be called from several threads */
#define JB_COMP_DETERMINISTIC 4u /* same inputs and seed, same outputs */
#define JB_COMP_NEEDS_NET 8u     /* asks the core for HTTP */
#define JB_COMP_NO_MODEL 16u     /* backend: no model writes its replies; reports say so */
#define JB_COMP_NO_BACKEND 32u   /* method: asks no backend */

/* A part of a plugin.  All strings are NUL-terminated and live for ever. */
typedef struct jb_component {
    uint32_t struct_size;
    uint32_t flags;       /* JB_COMP_* */
    const char *kind;     /* JB_KIND_* */
    const char *name;     /* [a-z0-9_]+, what a study's `use:` says */
    const char *summary;  /* one line */
    const char *help;     /* a paragraph or more of plain text; may be NULL */
    const jb_option *options; /* option_count rows, each option_size bytes apart */
    uint32_t option_count;
    uint32_t option_size; /* sizeof(jb_option) as the plugin saw it */
    uint32_t config_size; /* bytes of the config struct the options write into */
    uint32_t reserved;
    const void *ops;      /* the kind's table: jb_method_ops, jb_backend_ops, ... */
} jb_component;

/* What the host offers.  `service` returns the table of the named service or
 * NULL when this host (or this kind of component) has none; the plugin then
 * degrades or refuses with JB_EABI.  Tables live as long as the instance.
 * Every service function takes the jb_host it was obtained from.  [any] */
typedef struct jb_host {
    uint32_t struct_size;
    uint16_t abi_major, abi_minor;
    void *ctx; /* the host's own */
    const void *(*service)(const struct jb_host *host, const char *id);
} jb_host;

/* The manifest.  Its first eight bytes are frozen for ever. */
typedef struct jb_plugin {
    uint32_t struct_size;
    uint16_t abi_major, abi_minor; /* what the plugin was compiled against */
    const char *id;      /* reverse-DNS or short name, unique */
    const char *version; /* semantic version */
    const char *summary;
    const char *license; /* SPDX expression */
    const char *homepage;/* may be NULL */
    const jb_component *const *components; /* NULL-terminated */
    /* Optional.  open runs once before the first component is created; it does
     * no I/O.  close runs at process exit, if ever.  [main] */
    int (*open)(const jb_host *host, jb_error *err);
    void (*close)(void);
} jb_plugin;

/* What a plugin's source defines; the macro keeps the symbol name in one place:
 *     JB_PLUGIN = { .struct_size = sizeof(jb_plugin), ... };            */
#define JB_PLUGIN_SYMBOL "jb_plugin_v1"
#ifdef __cplusplus
#define JB_PLUGIN extern "C" JB_EXPORT const jb_plugin jb_plugin_v1; const jb_plugin jb_plugin_v1
#else
#define JB_PLUGIN extern JB_EXPORT const jb_plugin jb_plugin_v1; const jb_plugin jb_plugin_v1
#endif

/* ---- services of every host ------------------------------------------- */

/* log/1: structured lines of the run's log, never a result.  [any] */
#define JB_SERVICE_LOG "log/1"
#define JB_LOG_DEBUG 1u
#define JB_LOG_INFO 2u
#define JB_LOG_WARN 3u
typedef struct jb_log_service {
    uint32_t struct_size;
    uint32_t reserved;
    void (*log)(const jb_host *host, uint32_t level, jb_view text);
} jb_log_service;

/* arena/1: scratch memory that the host drops when the current call returns
 * (method: handler; backend: encode/decode/complete; checker: trial/verdict;
 * timer: measure).  alloc returns NULL when memory is out or the cap of
 * 256 MiB is reached; memory is zeroed and 64-byte aligned.  [instance] */
#define JB_SERVICE_ARENA "arena/1"
typedef struct jb_arena_service {
    uint32_t struct_size;
    uint32_t reserved;
    void *(*alloc)(const jb_host *host, uint64_t bytes);
} jb_arena_service;

/* rng/1: counter-based random numbers, a pure function of (study seed, cell,
 * stream, counter): no state, so a draw never depends on the order of threads
 * or on resume.  Philox4x32-10 (Salmon et al., SC'11).  [any] */
#define JB_SERVICE_RNG "rng/1"
typedef struct jb_rng_service {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t (*u64)(const jb_host *host, uint64_t stream, uint64_t counter);
    double (*uniform)(const jb_host *host, uint64_t stream, uint64_t counter); /* [0,1), 53 bits */
} jb_rng_service;

#endif
