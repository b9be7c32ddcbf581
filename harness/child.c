/* SPDX-License-Identifier: Apache-2.0 */
/* harness/child.c - see child.h. */
#include "harness/child.h"

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int64_t jb_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void shut(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void nonblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

jb_child *jb_child_spawn(int zygote, uint64_t id, uint32_t kind, const jb_limits *limits, int required, int64_t limit_ns,
                         int request, jb_error *err)
{
    int ctl[2] = { -1, -1 }, log[2] = { -1, -1 }, status[2] = { -1, -1 }, notes = -1, ok = 0;
    jb_child *c = jb_alloc(sizeof *c);
    if (c == NULL || request < 0) {
        if (c == NULL) jb_err(err, JB_ENOMEM, "no memory for a child");
        goto out;
    }
    c->ctl = c->log = c->status = c->notes = -1;
    c->err = (jb_error)JB_ERROR_INIT;
    notes = memfd_create("jaxbench-notes", MFD_CLOEXEC);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ctl) != 0 || pipe2(log, O_CLOEXEC) != 0 || pipe2(status, O_CLOEXEC) != 0 ||
        notes < 0 || ftruncate(notes, JB_NOTES_BYTES) != 0) {
        jb_err(err, JB_EIO, "pipes for a child: %s", strerror(errno));
        goto out;
    }
    jb_zmsg m = { .op = JB_ZOP_SPAWN, .kind = kind, .id = id, .required = (uint32_t)required, .limits = *limits };
    int fds[JB_FD_COUNT] = { [JB_FD_CTL] = ctl[1], [JB_FD_LOG] = log[1], [JB_FD_STATUS] = status[1], [JB_FD_REQUEST] = request, [JB_FD_NOTES] = notes };
    if (jb_zygote_send(zygote, &m, fds, JB_FD_COUNT) != 0) {
        jb_err(err, JB_EIO, "asking the zygote for a child: %s", strerror(errno));
        goto out;
    }
    c->id = id;
    c->kind = kind;
    c->started_ns = jb_clock_ns();
    c->limit_ns = limit_ns;
    c->deadline_ns = c->started_ns + limit_ns;
    c->ctl = ctl[0];
    c->log = log[0];
    c->status = status[0];
    c->notes = notes;
    ctl[0] = log[0] = status[0] = notes = -1;
    nonblock(c->ctl);
    nonblock(c->log);
    nonblock(c->status);
    jb_frame_reader_init(&c->reader, JB_CHILD_MODULE_MAX);
    ok = 1;
out:
    for (int i = 0; i < 2; i++) {
        shut(&ctl[i]);
        shut(&log[i]);
        shut(&status[i]);
    }
    shut(&notes);
    shut(&request);
    if (!ok) {
        jb_free(c);
        c = NULL;
    }
    return c;
}

/* ---- frames ------------------------------------------------------------ */

static void broken(jb_child *c, const char *fmt, ...) JB_PRINTF(2, 3);
static void broken(jb_child *c, const char *fmt, ...)
{
    if (c->broken) return; /* the first cause counts */
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->broken = jb_err(&c->err, JB_EPROTO, "%s", text);
}

static void on_module(jb_child *c, const jb_frame *f)
{
    jb_view name, bytes;
    if (jb_frame_module(f, &name, &bytes) != 0) {
        broken(c, "a module frame whose name does not fit in it");
        return;
    }
    for (size_t i = 0; i < c->module_count; i++) {
        jb_module *m = &c->modules[i];
        if (strlen(m->name) != name.len || memcmp(m->name, name.ptr, (size_t)name.len) != 0) continue;
        if (m->bytes != NULL) {
            broken(c, "module %s was sent twice", m->name);
            return;
        }
        m->bytes = jb_alloc((size_t)bytes.len + 1);
        if (m->bytes == NULL) {
            broken(c, "no memory for module %s", m->name);
            return;
        }
        if (bytes.len > 0) memcpy(m->bytes, bytes.ptr, (size_t)bytes.len);
        m->len = (size_t)bytes.len;
        if (jb_hash_bytes(m->bytes, m->len, m->sha256) != 0) broken(c, "module %s could not be hashed", m->name);
        return;
    }
    jb_buf shown = JB_BUF_INIT(256);
    jb_text_escape(&shown, name.ptr, name.len < 48 ? (size_t)name.len : 48, 0);
    broken(c, "a module that was not asked for: \"%s\"", shown.ptr != NULL ? shown.ptr : "");
    jb_buf_free(&shown);
}

static void on_json(jb_child *c, const jb_frame *f, cJSON **slot, int once)
{
    jb_error err = JB_ERROR_INIT;
    if (f->len > JB_CHILD_RESULT_MAX) {
        broken(c, "a result of %zu bytes; at most %llu are accepted", f->len, JB_CHILD_RESULT_MAX);
        return;
    }
    if (once && *slot != NULL) {
        broken(c, "two results were sent");
        return;
    }
    cJSON *o = jb_json_parse((const char *)f->body, f->len, &err);
    if (!cJSON_IsObject(o)) {
        broken(c, "a result that is no JSON object: %s", err.message);
        cJSON_Delete(o);
        return;
    }
    cJSON_Delete(*slot);
    *slot = o;
}

static void on_frame(jb_child *c, const jb_frame *f)
{
    c->received += f->len;
    if (c->received > JB_CHILD_TOTAL_MAX) {
        broken(c, "more than %llu MiB of frames", JB_CHILD_TOTAL_MAX >> 20);
    } else if (f->type == JB_FRAME_MODULE && c->module_count > 0) {
        on_module(c, f);
    } else if (f->type == JB_FRAME_RESULT) {
        on_json(c, f, &c->result, 1);
    } else if (f->type == JB_FRAME_PROGRESS && c->kind != JB_KID_TRACER) {
        on_json(c, f, &c->progress, 0);
        int64_t now = jb_clock_ns();
        if (c->checker_ns != 0) c->deadline_ns += now - c->checker_ns;
        c->checker_ns = cJSON_HasObjectItem(c->progress, "checker") ? now : 0;
    } else {
        broken(c, "a frame of type %u, which a %s does not send", f->type, jb_kid_name(c->kind));
    }
}

static void pump_frames(jb_child *c)
{
    /* Bounded: the loop comes back, and others have their turn. */
    for (int i = 0; i < 64 && c->ctl >= 0; i++) {
        jb_frame f;
        jb_error err = JB_ERROR_INIT;
        int rc = jb_frame_read(&c->reader, c->ctl, &f, &err);
        if (rc == JB_FRAME_AGAIN) return;
        if (rc != JB_FRAME_GOT) {
            if (rc < 0) broken(c, "%s", err.message);
            shut(&c->ctl);
            return;
        }
        if (!c->broken) on_frame(c, &f);
        jb_frame_free(&f);
        if (c->broken) shut(&c->ctl);
    }
}

static void pump_status(jb_child *c)
{
    jb_status_line line;
    while (c->status >= 0) {
        ssize_t n = read(c->status, &line, sizeof line);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n != (ssize_t)sizeof line) {
            shut(&c->status);
            return;
        }
        line.text[sizeof line.text - 1] = '\0';
        if (line.tag == JB_STATUS_WALLS || line.tag == JB_STATUS_REFUSED) {
            c->walls = line.isolation;
            c->have_walls = 1;
        }
        if (line.tag == JB_STATUS_REFUSED) {
            c->refused = 1;
            jb_err(&c->err, JB_EPERM, "isolation is required and the layer %s is missing", line.text);
        } else if (line.tag == JB_STATUS_ERROR) {
            jb_err(&c->err, JB_EIO, "%s", line.text);
        } else if (line.tag == JB_STATUS_WAIT && !c->have_wait) {
            c->wait_status = line.wait_status;
            c->have_wait = 1;
        }
    }
}

void jb_child_pump(jb_child *c)
{
    if (c->log >= 0 && jb_capture_drain(&c->log_text, c->log)) shut(&c->log);
    pump_frames(c);
    pump_status(c);
}

void jb_child_finish(jb_child *c)
{
    /* Everything that held the other ends is dead, so this comes to an end; the
     * bound is for a kernel without pid namespaces, where something may live on. */
    for (int i = 0; i < 4096 && (c->log >= 0 || c->ctl >= 0); i++) {
        int log = c->log, ctl = c->ctl;
        uint64_t total = c->log_text.total, got = c->received + c->reader.got + c->reader.head_len;
        jb_child_pump(c);
        if (log == c->log && ctl == c->ctl && total == c->log_text.total && got == c->received + c->reader.got + c->reader.head_len) break;
    }
    pump_status(c);
    shut(&c->log);
    shut(&c->ctl);
    shut(&c->status);
    c->ended = 1;
}

void jb_child_free(jb_child *c)
{
    if (c == NULL) return;
    shut(&c->log);
    shut(&c->ctl);
    shut(&c->status);
    shut(&c->notes);
    jb_frame_reader_free(&c->reader);
    cJSON_Delete(c->result);
    cJSON_Delete(c->progress);
    jb_free(c);
}

/* ---- how it ended ------------------------------------------------------ */

int jb_child_crashed(const jb_child *c)
{
    return c->have_wait && WIFSIGNALED(c->wait_status) && !c->timed_out && !c->cancelled;
}

int jb_child_struck(const jb_child *c)
{
    if (c->timed_out || c->cancelled || c->refused) return 0;
    if (c->have_wait) return WIFSIGNALED(c->wait_status) && WTERMSIG(c->wait_status) == SIGKILL;
    return c->err.code == 0; /* an error of the set-up is a status too */
}

int64_t jb_child_due_ns(const jb_child *c)
{
    return c->checker_ns != 0 ? c->checker_ns + c->limit_ns : c->deadline_ns;
}

int jb_child_in_checker(const jb_child *c, char *buf, size_t n, const char **call)
{
    if (c->checker_ns == 0) return 0;
    const char *plugin = jb_json_str(c->progress, "plugin", "");
    snprintf(buf, n, "checker %.100s of gate set %.100s%s%.100s%s", jb_json_str(c->progress, "checker", "?"), jb_json_str(c->progress, "gates", "?"),
             plugin[0] != '\0' ? " (plugin " : "", plugin, plugin[0] != '\0' ? ")" : "");
    *call = jb_json_str(c->progress, "call", "?");
    return 1;
}

const char *jb_child_end(const jb_child *c, char *buf, size_t n)
{
    static const struct { int signal; const char *name; } names[] = {
        { SIGSEGV, "SIGSEGV" }, { SIGABRT, "SIGABRT" }, { SIGBUS, "SIGBUS" }, { SIGFPE, "SIGFPE" }, { SIGILL, "SIGILL" },
        { SIGTRAP, "SIGTRAP" }, { SIGSYS, "SIGSYS" },   { SIGTERM, "SIGTERM" }, { SIGINT, "SIGINT" },
    };
    if (c->timed_out)
        snprintf(buf, n, "was stopped at its limit of %.6g s", (double)c->limit_ns / 1e9);
    else if (c->cancelled)
        snprintf(buf, n, "was cancelled");
    else if (!c->have_wait)
        snprintf(buf, n, "%s", c->err.message[0] != '\0' ? c->err.message : "ended without a status");
    else if (WIFEXITED(c->wait_status))
        snprintf(buf, n, "exited with %d", WEXITSTATUS(c->wait_status));
    else if (WTERMSIG(c->wait_status) == SIGKILL)
        snprintf(buf, n, "was killed by the kernel (SIGKILL): out of memory, most likely");
    else if (WTERMSIG(c->wait_status) == SIGXCPU)
        snprintf(buf, n, "was killed by SIGXCPU: CPU time limit");
    else if (WTERMSIG(c->wait_status) == SIGXFSZ)
        snprintf(buf, n, "was killed by SIGXFSZ: file size limit");
    else {
        snprintf(buf, n, "was killed by signal %d", WTERMSIG(c->wait_status));
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (names[i].signal == WTERMSIG(c->wait_status)) snprintf(buf, n, "was killed by %s", names[i].name);
    }
    return buf;
}

void jb_child_flags(const jb_child *c, cJSON *array)
{
    static const char *const words[JB_NOTE_COUNT] = { "network", "file", "process", "library" };
    jb_notes notes;
    if (c->notes < 0 || pread(c->notes, &notes, sizeof notes, 0) != (ssize_t)sizeof notes) return;
    for (int i = 0; i < (int)JB_NOTE_COUNT; i++) {
        if (notes.seen[i] == 0) continue;
        jb_buf flag = JB_BUF_INIT(1024);
        jb_buf_printf(&flag, "denied: %s", words[i]);
        size_t n = strnlen(notes.detail[i], sizeof notes.detail[i]);
        if (n > 0) {
            jb_buf_puts(&flag, " (");
            jb_text_escape(&flag, notes.detail[i], n, 0);
            jb_buf_puts(&flag, ")");
        }
        if (flag.status == 0) cJSON_AddItemToArray(array, cJSON_CreateString(flag.ptr));
        jb_buf_free(&flag);
    }
}
