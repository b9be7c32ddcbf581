/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/journal.c - see journal.h. */
#include "core/engine/journal.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINE ((size_t)JB_JSON_MAX_BYTES)
#define READ_BYTES (1u << 20)

struct jb_journal {
    int fd, dirty, broken;
    char *path;
    uint64_t count, size;
    jb_buf line; /* reused by every append */
    double t;    /* of that line */
    jb_journal_witness witness;
    void *witness_ctx;
};

static int io_error(jb_error *err, const char *what, const char *path)
{
    int e = errno;
    jb_err(err, JB_EIO, "journal %s: %s: %s", path, what, strerror(e));
    if (e == ENOSPC || e == EDQUOT)
        jb_err_hint(err, "the disk is full; the journal is intact: free space, then `jaxbench resume`");
    else if (e == EROFS || e == EACCES || e == EPERM)
        jb_err_hint(err, "the run folder must be writable; the journal is intact");
    return JB_EIO;
}

/* ---- reading ------------------------------------------------------------------ */

typedef struct reader {
    const char *path;
    jb_journal_visit visit;
    void *ctx;
    uint64_t lines, offset; /* whole lines and their bytes */
} reader;

static int read_line(reader *r, const char *text, size_t len, jb_error *err)
{
    cJSON *event = jb_json_parse(text, len, err);
    uint64_t seq = r->lines + 1;
    int rc = 0;
    if (!event) {
        rc = err && err->code == JB_ENOMEM ? JB_ENOMEM : JB_EPARSE;
        jb_err_context(err, "journal %s, line %llu", r->path, (unsigned long long)seq);
        jb_err_hint(err, "only a torn last line can be repaired; restore the file, or start a new run");
        if (err) err->code = rc;
    } else if (jb_json_i64(event, "seq", -1) != (int64_t)seq) {
        rc = jb_err(err, JB_EPARSE, "journal %s, line %llu: seq is %lld, expected %llu", r->path, (unsigned long long)seq,
                    (long long)jb_json_i64(event, "seq", -1), (unsigned long long)seq);
        jb_err_hint(err, "lines were removed or put in; restore the file, or start a new run");
    } else if (!jb_json_str(event, "kind", NULL)) {
        rc = jb_err(err, JB_EPARSE, "journal %s, line %llu: the event has no kind", r->path, (unsigned long long)seq);
    } else if (r->visit) {
        jb_span span = { r->offset, (uint32_t)len, (uint32_t)seq };
        rc = r->visit(r->ctx, event, span, err);
    }
    cJSON_Delete(event);
    if (rc == 0) {
        r->lines++;
        r->offset += len + 1;
    }
    return rc;
}

/* All whole lines of fd; *torn_out gets the bytes after the last newline. */
static int read_all(int fd, reader *r, uint64_t *torn_out, jb_error *err)
{
    jb_buf b = JB_BUF_INIT(MAX_LINE + READ_BYTES + 1);
    int rc = 0;
    size_t searched = 0;
    for (;;) {
        char *room = jb_buf_reserve(&b, READ_BYTES);
        if (!room) {
            rc = jb_err(err, b.status == JB_ENOMEM ? JB_ENOMEM : JB_EPARSE,
                        "journal %s, line %llu: longer than %zu bytes or out of memory", r->path,
                        (unsigned long long)r->lines + 1, MAX_LINE);
            break;
        }
        ssize_t n = read(fd, room, READ_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) { rc = io_error(err, "reading", r->path); break; }
        if (n == 0) break;
        jb_buf_commit(&b, (size_t)n);
        size_t start = 0;
        char *lf;
        while (rc == 0 && (lf = memchr(b.ptr + searched, '\n', b.len - searched)) != NULL) {
            size_t end = (size_t)(lf - b.ptr);
            rc = read_line(r, b.ptr + start, end - start, err);
            start = searched = end + 1;
        }
        if (rc != 0) break;
        jb_buf_consume(&b, start);
        searched = b.len;
    }
    if (torn_out) *torn_out = b.len;
    jb_buf_free(&b);
    return rc;
}

/* Is byte `offset` where a line begins? */
static int begins_line(int fd, uint64_t offset)
{
    char before = 0;
    return offset == 0 || (pread(fd, &before, 1, (off_t)(offset - 1)) == 1 && before == '\n');
}

int jb_journal_read(const char *path, jb_journal_visit visit, void *ctx, uint64_t *torn_out, jb_error *err)
{
    return jb_journal_read_from(path, 0, 0, visit, ctx, torn_out, err);
}

int jb_journal_read_from(const char *path, uint64_t offset, uint64_t seq, jb_journal_visit visit, void *ctx, uint64_t *torn_out, jb_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT) {
            jb_err(err, JB_ENOTFOUND, "journal %s does not exist", path);
            jb_err_hint(err, "give the folder of a run, e.g. runs/<date>-<name>-<hash>");
            return JB_ENOTFOUND;
        }
        return io_error(err, "opening", path);
    }
    reader r = { .path = path, .visit = visit, .ctx = ctx, .lines = seq, .offset = offset };
    int rc = 0;
    if (!begins_line(fd, offset)) rc = jb_err(err, JB_ESTATE, "journal %s: no line begins at byte %llu", path, (unsigned long long)offset);
    else if (lseek(fd, (off_t)offset, SEEK_SET) < 0) rc = io_error(err, "seeking in", path);
    if (rc == 0) rc = read_all(fd, &r, torn_out, err);
    close(fd);
    return rc;
}

/* ---- writing ------------------------------------------------------------------ */

int jb_journal_open(const char *path, jb_journal_visit visit, void *ctx, uint64_t *torn_out, jb_journal **out, jb_error *err)
{
    int rc = 0;
    uint64_t torn = 0;
    jb_journal *j = jb_alloc(sizeof *j);
    if (!j) return jb_err(err, JB_ENOMEM, "journal %s: out of memory", path);
    j->fd = -1;
    j->line = (jb_buf)JB_BUF_INIT(MAX_LINE + 1);
    j->path = jb_strdup(path);
    if (!j->path) { rc = jb_err(err, JB_ENOMEM, "journal %s: out of memory", path); goto out; }
    j->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (j->fd < 0) { rc = io_error(err, "opening", path); goto out; }
    reader r = { .path = path, .visit = visit, .ctx = ctx };
    rc = read_all(j->fd, &r, &torn, err);
    if (rc != 0) goto out;
    j->count = r.lines;
    j->size = r.offset;
    if (torn && (ftruncate(j->fd, (off_t)j->size) != 0 || fsync(j->fd) != 0)) rc = io_error(err, "removing its torn last line", path);
out:
    if (rc != 0) {
        jb_journal_close(j);
        return rc;
    }
    if (torn_out) *torn_out = torn;
    *out = j;
    return 0;
}

void jb_journal_close(jb_journal *j)
{
    if (!j) return;
    if (j->fd >= 0) {
        jb_journal_sync(j, NULL);
        close(j->fd);
    }
    jb_buf_free(&j->line);
    jb_free(j->path);
    jb_free(j);
}

static double wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)(t.tv_nsec / 1000000) / 1e3;
}

/* {"seq":N,"t":T,"kind":K, then what `body` prints after its brace. */
static int compose(jb_journal *j, const char *kind, const cJSON *body)
{
    jb_buf text = JB_BUF_INIT(MAX_LINE);
    jb_buf_reset(&j->line);
    j->t = wall_time();
    jb_buf_printf(&j->line, "{\"seq\":%llu,\"t\":%.3f,\"kind\":\"%s\"", (unsigned long long)j->count + 1, j->t, kind);
    int rc = body && body->child ? jb_json_print(body, &text) : 0;
    if (rc == 0 && text.len > 1) {
        jb_buf_puts(&j->line, ",");
        jb_buf_append(&j->line, text.ptr + 1, text.len - 1);
    } else {
        jb_buf_puts(&j->line, "}");
    }
    jb_buf_puts(&j->line, "\n");
    jb_buf_free(&text);
    return rc ? rc : j->line.status;
}

int jb_journal_append(jb_journal *j, const char *kind, const cJSON *body, jb_span *span_out, jb_error *err)
{
    if (j->broken) return jb_err(err, JB_EIO, "journal %s: an earlier write failed and could not be undone", j->path);
    int rc = compose(j, kind, body);
    if (rc != 0) return jb_err(err, rc, "journal %s: an event of kind %s is too long or memory is out", j->path, kind);
    size_t done = 0;
    while (done < j->line.len) {
        ssize_t n = write(j->fd, j->line.ptr + done, j->line.len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            if (n == 0) errno = ENOSPC;
            rc = io_error(err, "writing", j->path);
            /* Cut the part that got through; if even that fails, never write again. */
            if (done && ftruncate(j->fd, (off_t)j->size) != 0) j->broken = 1;
            return rc;
        }
        done += (size_t)n;
    }
    if (span_out) *span_out = (jb_span){ j->size, (uint32_t)(j->line.len - 1), (uint32_t)(j->count + 1) };
    j->size += j->line.len;
    j->count++;
    j->dirty = 1;
    if (j->witness) j->witness(j->witness_ctx, kind, body, j->count, j->t);
    return 0;
}

void jb_journal_observe(jb_journal *j, jb_journal_witness witness, void *ctx)
{
    j->witness = witness;
    j->witness_ctx = ctx;
}

int jb_journal_sync(jb_journal *j, jb_error *err)
{
    if (!j->dirty) return 0;
    if (fdatasync(j->fd) != 0) return io_error(err, "syncing", j->path);
    j->dirty = 0;
    return 0;
}

uint64_t jb_journal_count(const jb_journal *j) { return j->count; }
uint64_t jb_journal_size(const jb_journal *j) { return j->size; }

cJSON *jb_journal_get(const jb_journal *j, jb_span span, jb_error *err)
{
    cJSON *event = NULL;
    char *text = jb_alloc((size_t)span.length + 1);
    if (!text) {
        jb_err(err, JB_ENOMEM, "journal %s: out of memory", j->path);
        return NULL;
    }
    size_t done = 0;
    while (done < span.length) {
        ssize_t n = pread(j->fd, text + done, span.length - done, (off_t)(span.offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            if (n == 0) errno = EIO;
            io_error(err, "reading back", j->path);
            goto out;
        }
        done += (size_t)n;
    }
    event = jb_json_parse(text, span.length, err);
    if (!event) jb_err_context(err, "journal %s, line %u", j->path, span.seq);
out:
    jb_free(text);
    return event;
}
