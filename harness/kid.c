/* SPDX-License-Identifier: Apache-2.0 */
/* harness/kid.c - packing, unpacking and answering a child's request; see kid.h. */
#include "harness/kid.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "harness/frameio.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *jb_kid_name(uint32_t kind)
{
    static const char *const names[] = { "none",
#define X(id, name) name,
                                         JB_KIDS(X)
#undef X
    };
    return kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}

int jb_kid_result(int ctl, const cJSON *result)
{
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    int rc = jb_json_print(result, &text);
    jb_view part = jb_buf_view(&text);
    if (rc == 0) rc = jb_frame_send(ctl, JB_FRAME_RESULT, &part, 1);
    jb_buf_free(&text);
    return rc;
}

int jb_kid_fail(int ctl, const char *status, const char *reason, const char *error)
{
    cJSON *o = cJSON_CreateObject(), *child = jb_json_add_obj(o, "child");
    jb_json_set_str(child, "status", status);
    jb_json_set_str(child, "reason", reason);
    if (error != NULL) jb_json_set_str(child, "error", error);
    int rc = jb_kid_result(ctl, o);
    cJSON_Delete(o);
    return rc;
}

int jb_kid_pack(const cJSON *meta, const jb_blob *blobs, size_t count, jb_error *err)
{
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    int fd = memfd_create("jaxbench-request", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc = fd < 0 ? JB_EIO : jb_json_print(meta, &text);
    if (rc == 0) {
        jb_view part = jb_buf_view(&text);
        rc = jb_frame_send(fd, JB_FRAME_RESULT, &part, 1);
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        uint8_t n[4];
        jb_put_le32(n, (uint32_t)blobs[i].name.len);
        jb_view parts[3] = { { (const char *)n, 4 }, blobs[i].name, blobs[i].bytes };
        rc = jb_frame_send(fd, JB_FRAME_MODULE, parts, 3);
    }
    jb_buf_free(&text);
    if (rc != 0) {
        jb_err(err, rc, "packing the request of a child: %s", fd < 0 || rc == JB_EIO ? strerror(errno) : jb_err_name(rc));
        if (fd >= 0) close(fd);
        return -1;
    }
    return fd;
}

/* The next frame of the mapping, as a view. */
static int next(const uint8_t **p, const uint8_t *end, uint32_t *type, jb_frame *f)
{
    uint64_t n = 0;
    if ((size_t)(end - *p) < JB_FRAME_HEADER) return JB_EPROTO;
    if (jb_frame_decode(*p, JB_FRAME_MAX, type, &n) != 0) return JB_EPROTO;
    *p += JB_FRAME_HEADER;
    if (n > (uint64_t)(end - *p)) return JB_EPROTO;
    f->type = *type;
    f->len = (size_t)n;
    union { const uint8_t *c; uint8_t *m; } body = { .c = *p };
    f->body = body.m;
    *p += n;
    return 0;
}

int jb_kid_unpack(int fd, jb_kid_input *in, jb_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size <= 0) return jb_err(err, JB_EPROTO, "a child got an empty request");
    const uint8_t *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return jb_err(err, JB_EIO, "mapping a child's request: %s", strerror(errno));
    const uint8_t *end = p + st.st_size;
    uint32_t type = 0;
    jb_frame f;
    if (next(&p, end, &type, &f) != 0 || type != JB_FRAME_RESULT) return jb_err(err, JB_EPROTO, "a child's request has no meta frame");
    in->meta = jb_json_parse((const char *)f.body, f.len, err);
    if (in->meta == NULL) return err != NULL && err->code != 0 ? err->code : JB_EPROTO;
    in->blobs = jb_alloc_array(JB_KID_MAX_BLOBS, sizeof *in->blobs);
    if (in->blobs == NULL) return jb_err(err, JB_ENOMEM, "no memory for a child's request");
    while (p < end) {
        if (next(&p, end, &type, &f) != 0 || type != JB_FRAME_MODULE || in->blob_count == JB_KID_MAX_BLOBS)
            return jb_err(err, JB_EPROTO, "a child's request is malformed");
        jb_blob *b = &in->blobs[in->blob_count++];
        if (jb_frame_module(&f, &b->name, &b->bytes) != 0) return jb_err(err, JB_EPROTO, "a child's request holds a malformed blob");
    }
    return 0;
}

const jb_blob *jb_kid_blob(const jb_kid_input *in, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < in->blob_count; i++)
        if (in->blobs[i].name.len == n && memcmp(in->blobs[i].name.ptr, name, n) == 0) return &in->blobs[i];
    return NULL;
}
