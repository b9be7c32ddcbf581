/* SPDX-License-Identifier: Apache-2.0 */
/* harness/refs.c - see refs.h. */
#include "harness/refs.h"

#include "core/base/error.h"
#include "core/base/fs.h"
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

/* The hash of a file: its header without the hash, and every byte from the first
 * array to the end. */
static int hash_of(const cJSON *head, const jb_ref_file *f, uint64_t first, char out[JB_HASH_HEX])
{
    cJSON *bare = cJSON_Duplicate(head, 1);
    jb_buf text = JB_BUF_INIT(MAX_HEADER);
    cJSON_DeleteItemFromObjectCaseSensitive(bare, "sha256");
    int rc = bare != NULL ? jb_json_print_canonical(bare, &text) : JB_ENOMEM;
    jb_hasher *h = rc == 0 ? jb_hasher_new() : NULL;
    if (rc == 0 && h == NULL) rc = JB_ENOMEM;
    if (rc == 0) {
        jb_hasher_field(h, "header", text.ptr, text.len);
        jb_hasher_field(h, "arrays", (const char *)f->map + first, f->size - (size_t)first);
        jb_hasher_done(h, out);
    }
    jb_buf_free(&text);
    cJSON_Delete(bare);
    return rc;
}

/* Where the header ends at the latest: at the first array, or at the end. */
static uint64_t first_array(const cJSON *head, const jb_ref_file *f)
{
    const cJSON *row;
    uint64_t first = f->size;
    cJSON_ArrayForEach(row, jb_json_obj(head, "arrays")) {
        uint64_t offset = (uint64_t)jb_json_i64(row, "offset", 0);
        if (offset < first) first = offset;
    }
    return first;
}

static int damaged(const char *path, int rc, jb_error *err)
{
    return jb_err(err, rc, rc == JB_ENOMEM ? "no memory for the reference file %s" : "the reference file %s is damaged", path);
}

/* Map `fd` and read its header into *head_out (the caller's) and `f`. */
static int map_file(int fd, const char *path, jb_ref_file *f, cJSON **head_out, jb_error *err)
{
    struct stat st;
    cJSON *head = NULL;
    int rc = JB_EPARSE;
    if (fstat(fd, &st) == 0 && st.st_size >= 16) {
        f->size = (size_t)st.st_size;
        f->map = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (f->map == MAP_FAILED) f->map = NULL;
    }
    if (f->map != NULL && memcmp(f->map, MAGIC, 8) == 0) {
        uint64_t n = 0;
        memcpy(&n, (const char *)f->map + 8, 8);
        if (n <= MAX_HEADER && n <= f->size - 16) head = jb_json_parse((const char *)f->map + 16, (size_t)n, NULL);
        if (head != NULL) rc = read_header(head, f);
        if (rc == 0 && n + 16 > first_array(head, f)) rc = JB_EPARSE; /* an array over the header */
    }
    if (rc == 0) {
        *head_out = head;
        return 0;
    }
    cJSON_Delete(head);
    jb_ref_close(f);
    return damaged(path, rc, err);
}

/* `whole`: read all of it and compare with the hash. */
static int open_file(const char *path, int whole, jb_ref_file *out, jb_error *err)
{
    cJSON *head = NULL;
    char sum[JB_HASH_HEX] = "";
    memset(out, 0, sizeof *out);
    int fd = jb_fs_open(path, O_RDONLY | O_NOFOLLOW, err);
    if (fd < 0) return fd;
    int rc = map_file(fd, path, out, &head, err);
    close(fd);
    if (rc != 0) return rc;
    const char *said = jb_json_str(head, "sha256", "");
    if (strlen(said) != JB_HASH_HEX - 1) {
        rc = jb_err(err, JB_EPARSE, "the reference file %s is damaged: it was never sealed", path);
    } else if (whole) {
        rc = hash_of(head, out, first_array(head, out), sum);
        if (rc != 0) damaged(path, rc, err);
        else if (strcmp(sum, said) != 0) rc = jb_err(err, JB_EPARSE, "the reference file %s is damaged: its bytes do not have the hash in its header", path);
    }
    cJSON_Delete(head);
    if (rc != 0) jb_ref_close(out);
    return rc;
}

int jb_ref_open(const char *path, jb_ref_file *out, jb_error *err) { return open_file(path, 1, out, err); }

static int write_all(int fd, const char *bytes, size_t count, off_t at)
{
    while (count > 0) {
        ssize_t n = pwrite(fd, bytes, count, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return JB_EIO;
        bytes += n;
        count -= (size_t)n;
        at += n;
    }
    return 0;
}

/* fsync reports what a full disk swallowed. */
static int to_disk(int fd, const char *path, jb_error *err)
{
    return fsync(fd) == 0 ? 0 : jb_err(err, JB_EIO, "the reference file %s can't be written: %s", path, strerror(errno));
}

int jb_ref_seal(const char *path, jb_error *err)
{
    jb_ref_file f;
    cJSON *head = NULL;
    jb_buf text = JB_BUF_INIT(MAX_HEADER);
    char sum[JB_HASH_HEX], lead[16];
    memset(&f, 0, sizeof f);
    int fd = jb_fs_open(path, O_RDWR | O_NOFOLLOW, err);
    if (fd < 0) return fd;
    int rc = map_file(fd, path, &f, &head, err);
    if (rc == 0) {
        uint64_t first = first_array(head, &f);
        cJSON_DeleteItemFromObjectCaseSensitive(head, "sha256");
        rc = hash_of(head, &f, first, sum);
        if (rc == 0) rc = jb_json_set_str(head, "sha256", sum);
        if (rc == 0) rc = jb_json_print(head, &text);
        if (rc == 0 && text.len + 16 > first) rc = JB_EPARSE; /* printed without spaces, it is shorter than it was */
        if (rc != 0) damaged(path, rc, err);
    }
    if (rc == 0) {
        uint64_t n = text.len;
        memcpy(lead, MAGIC, 8);
        memcpy(lead + 8, &n, 8);
        rc = write_all(fd, text.ptr, text.len, 16);
        if (rc == 0) rc = write_all(fd, lead, sizeof lead, 0);
        if (rc != 0) jb_err(err, rc, "the reference file %s can't be written: %s", path, strerror(errno));
    }
    if (rc == 0) rc = to_disk(fd, path, err);
    jb_buf_free(&text);
    cJSON_Delete(head);
    jb_ref_close(&f);
    close(fd);
    return rc;
}

int jb_ref_sync(const char *path, jb_error *err)
{
    int fd = jb_fs_open(path, O_RDWR | O_NOFOLLOW, err);
    if (fd < 0) return fd;
    int rc = to_disk(fd, path, err);
    close(fd);
    return rc;
}

int jb_ref_is_file(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
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
    if (open_file(path, 0, &f, NULL) != 0) return 0;
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
