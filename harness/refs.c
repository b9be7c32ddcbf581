/* SPDX-License-Identifier: Apache-2.0 */
/* harness/refs.c - see refs.h. */
#include "harness/refs.h"

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "JBREF1\0\0"
#define ALIGN 4096u
#define MAX_HEADER ((uint64_t)1 << 20)
#define MAX_ARRAYS 256

const char *const jb_ref_group_names[JB_REF_GROUPS] = { "input", "r_jit", "r_op", "h" };

static uint32_t group_of(const char *name)
{
    for (uint32_t i = 0; i < JB_REF_GROUPS; i++)
        if (strcmp(name, jb_ref_group_names[i]) == 0) return i;
    return JB_REF_GROUPS;
}

static uint32_t dtype_of(const char *name)
{
    for (uint32_t d = JB_DT_BOOL; d <= JB_DT_F64; d++)
        if (strcmp(name, jb_dtype_name(d)) == 0) return d;
    return 0;
}

/* One row of "arrays" into a tensor; checks everything against the file's size. */
static int read_array(const cJSON *row, const jb_ref_file *f, jb_tensor *t)
{
    const cJSON *dims = jb_json_obj(row, "dims"), *dim;
    int64_t offset = jb_json_i64(row, "offset", -1), bytes = jb_json_i64(row, "bytes", -1);
    memset(t, 0, sizeof *t);
    t->struct_size = sizeof *t;
    t->dtype = dtype_of(jb_json_str(row, "dtype", ""));
    t->count = 1;
    if (t->dtype == 0 || !cJSON_IsArray(dims)) return JB_EPARSE;
    cJSON_ArrayForEach(dim, dims) {
        if (!cJSON_IsNumber(dim) || dim->valuedouble < 0 || dim->valuedouble > 0x1p40 || t->rank == JB_MAX_RANK) return JB_EPARSE;
        int64_t n = (int64_t)dim->valuedouble;
        t->dims[t->rank++] = n;
        if (n != 0 && t->count > INT64_MAX / 16 / n) return JB_EPARSE;
        t->count *= n;
    }
    if (bytes != t->count * (int64_t)jb_dtype_size(t->dtype)) return JB_EPARSE;
    if (offset < 0 || offset % ALIGN != 0 || (uint64_t)offset > f->size || (uint64_t)bytes > f->size - (uint64_t)offset) return JB_EPARSE;
    t->data = bytes > 0 ? (const char *)f->map + offset : NULL;
    return 0;
}

static int read_header(const cJSON *head, jb_ref_file *f)
{
    const cJSON *rows = jb_json_obj(head, "arrays"), *row;
    if (!cJSON_IsArray(rows) || cJSON_GetArraySize(rows) > MAX_ARRAYS || jb_json_i64(head, "schema", 0) != 1) return JB_EPARSE;
    cJSON_ArrayForEach(row, rows) {
        uint32_t g = group_of(jb_json_str(row, "group", ""));
        if (g == JB_REF_GROUPS) return JB_EPARSE;
        f->count[g]++;
    }
    for (uint32_t g = 0; g < JB_REF_GROUPS; g++) {
        if (f->count[g] == 0) continue;
        f->tensors[g] = jb_alloc_array(f->count[g], sizeof *f->tensors[g]);
        if (f->tensors[g] == NULL) return JB_ENOMEM;
    }
    cJSON_ArrayForEach(row, rows) {
        uint32_t g = group_of(jb_json_str(row, "group", ""));
        int64_t index = jb_json_i64(row, "index", -1);
        if (index < 0 || index >= (int64_t)f->count[g] || f->tensors[g][index].struct_size != 0) return JB_EPARSE;
        int rc = read_array(row, f, &f->tensors[g][index]);
        if (rc != 0) return rc;
    }
    return 0;
}

int jb_ref_open(const char *path, jb_ref_file *out, jb_error *err)
{
    struct stat st;
    cJSON *head = NULL;
    int rc = JB_EPARSE, fd = open(path, O_RDONLY | O_CLOEXEC);
    memset(out, 0, sizeof *out);
    if (fd < 0) return jb_err(err, errno == ENOENT ? JB_ENOTFOUND : JB_EIO, "opening the reference file %s: %s", path, strerror(errno));
    if (fstat(fd, &st) == 0 && st.st_size >= 16) {
        out->size = (size_t)st.st_size;
        out->map = mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (out->map == MAP_FAILED) out->map = NULL;
    }
    close(fd);
    if (out->map != NULL && memcmp(out->map, MAGIC, 8) == 0) {
        uint64_t n = 0;
        memcpy(&n, (const char *)out->map + 8, 8);
        if (n <= MAX_HEADER && n <= out->size - 16) head = jb_json_parse((const char *)out->map + 16, (size_t)n, NULL);
        if (head != NULL) rc = read_header(head, out);
    }
    cJSON_Delete(head);
    if (rc != 0) {
        jb_ref_close(out);
        return jb_err(err, rc, rc == JB_ENOMEM ? "no memory for the reference file %s" : "the reference file %s is damaged", path);
    }
    return 0;
}

void jb_ref_close(jb_ref_file *f)
{
    for (uint32_t g = 0; g < JB_REF_GROUPS; g++) jb_free(f->tensors[g]);
    if (f->map != NULL) munmap(f->map, f->size);
    memset(f, 0, sizeof *f);
}

uint32_t jb_ref_groups(const char *path)
{
    jb_ref_file f;
    uint32_t bits = 0;
    if (jb_ref_open(path, &f, NULL) != 0) return 0;
    for (uint32_t g = 0; g < JB_REF_GROUPS; g++)
        if (f.count[g] > 0) bits |= 1u << g;
    jb_ref_close(&f);
    return bits;
}

int jb_ref_key(const cJSON *request, const char *harness, const char *jax, char out[65])
{
    static const char *const texts[] = { "kind", "shape", "distribution", "key", "platform" };
    jb_hasher *h = jb_hasher_new();
    char number[64];
    if (h == NULL) return JB_ENOMEM;
    const char *version = jb_json_str(jb_json_obj(request, "workload"), "version", "");
    jb_hasher_field(h, "version", version, strlen(version));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *v = jb_json_str(request, texts[i], "");
        jb_hasher_field(h, texts[i], v, strlen(v));
    }
    snprintf(number, sizeof number, "%lld", (long long)jb_json_i64(request, "draw", 0));
    jb_hasher_field(h, "draw", number, strlen(number));
    snprintf(number, sizeof number, "%.17g", jb_json_num(request, "scale", 1.0));
    jb_hasher_field(h, "scale", number, strlen(number));
    jb_hasher_field(h, "harness", harness, strlen(harness));
    jb_hasher_field(h, "jax", jax, strlen(jax));
    jb_hasher_done(h, out);
    return 0;
}

/* ---- the folder's size cap --------------------------------------------- */

typedef struct entry {
    char *path;
    int64_t bytes, mtime;
} entry;

static int older_first(const void *a, const void *b)
{
    int64_t x = ((const entry *)a)->mtime, y = ((const entry *)b)->mtime;
    return x < y ? -1 : x > y;
}

void jb_ref_evict(const char *dir, int64_t cap_bytes)
{
    DIR *d = opendir(dir);
    entry *rows = NULL;
    size_t count = 0;
    int64_t total = 0, now = (int64_t)time(NULL);
    if (d == NULL) return;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        struct stat st;
        if (e->d_name[0] == '.' && (e->d_name[1] == '\0' || e->d_name[1] == '.')) continue;
        char *path = jb_asprintf("%s/%s", dir, e->d_name);
        entry *grown = path != NULL && lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? jb_realloc(rows, (count + 1) * sizeof *rows) : NULL;
        if (grown == NULL) {
            jb_free(path);
            continue;
        }
        rows = grown;
        int temporary = e->d_name[0] == '.';
        if (temporary && now - (int64_t)st.st_mtime < 3600) {
            jb_free(path);
            continue;
        }
        rows[count++] = (entry){ .path = path, .bytes = st.st_size, .mtime = temporary ? 0 : (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 };
        total += st.st_size;
    }
    closedir(d);
    if (count > 0) qsort(rows, count, sizeof *rows, older_first);
    for (size_t i = 0; i < count; i++) {
        if ((total > cap_bytes || rows[i].mtime == 0) && unlink(rows[i].path) == 0) total -= rows[i].bytes;
        jb_free(rows[i].path);
    }
    jb_free(rows);
}

void jb_ref_touch(const char *path) { (void)utimensat(AT_FDCWD, path, NULL, 0); }
