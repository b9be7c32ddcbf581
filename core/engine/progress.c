/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/progress.c - see progress.h. */
#include "core/engine/progress.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_NS 200000000 /* 5 a second */

struct jb_progress {
    FILE *stream;
    int live, drawn;
    int64_t total, done, replayed;
    int64_t begin_ns, drawn_ns;
    char last[192]; /* "8p/iid/scripted s0 #2 wrong" */
    char spent[96];
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

jb_progress *jb_progress_new(FILE *stream, int live, int64_t total)
{
    jb_progress *p = jb_alloc(sizeof *p);
    if (!p) return NULL;
    p->stream = stream;
    p->live = live;
    p->total = total;
    p->begin_ns = now_ns();
    return p;
}

static void clear(jb_progress *p)
{
    if (!p->drawn) return;
    fputs("\r\x1b[K", p->stream); /* ours, on a terminal only */
    p->drawn = 0;
}

void jb_progress_free(jb_progress *p)
{
    if (!p) return;
    clear(p);
    fflush(p->stream);
    jb_free(p);
}

static void counter(const jb_progress *p, jb_buf *b)
{
    if (p->total >= 0) {
        int width = 1;
        for (int64_t n = p->total; n >= 10; n /= 10) width++;
        jb_buf_printf(b, "[%*lld/%lld]", width, (long long)p->done, (long long)p->total);
    } else {
        jb_buf_printf(b, "[%lld]", (long long)p->done);
    }
}

static void escaped(jb_buf *b, const char *s)
{
    if (s) jb_text_escape(b, s, strlen(s), 0);
}

static void put_line(jb_progress *p, jb_buf *b)
{
    clear(p);
    if (b->ptr && b->status == 0) fprintf(p->stream, "%s\n", b->ptr);
    fflush(p->stream);
    jb_buf_free(b);
}

void jb_progress_candidate(jb_progress *p, const char *label, uint64_t ordinal, const char *outcome, const char *reason, int duplicate)
{
    if (!p) return;
    p->done++;
    jb_buf b = JB_BUF_INIT(4096), what = JB_BUF_INIT(2048);
    escaped(&what, label);
    jb_buf_printf(&what, " #%llu %s", (unsigned long long)ordinal, outcome);
    if (what.ptr) snprintf(p->last, sizeof p->last, "%s", what.ptr);
    counter(p, &b);
    jb_buf_puts(&b, " ");
    jb_buf_append(&b, what.ptr, what.len);
    if (duplicate) jb_buf_puts(&b, ", duplicate");
    if (reason && reason[0]) {
        jb_buf_puts(&b, " (");
        escaped(&b, reason);
        jb_buf_puts(&b, ")");
    }
    jb_buf_free(&what);
    put_line(p, &b);
}

void jb_progress_replayed(jb_progress *p, int64_t count)
{
    if (!p) return;
    p->done += count;
    p->replayed += count;
}

void jb_progress_note(jb_progress *p, const char *text)
{
    if (!p) return;
    jb_buf b = JB_BUF_INIT(4096);
    escaped(&b, text);
    put_line(p, &b);
}

void jb_progress_spent(jb_progress *p, const char *text)
{
    if (p) snprintf(p->spent, sizeof p->spent, "%s", text);
}

static int terminal_width(FILE *stream)
{
    struct winsize w;
    int fd = fileno(stream);
    return fd >= 0 && ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
}

void jb_progress_tick(jb_progress *p, size_t active, size_t waiting)
{
    if (!p || !p->live) return;
    int64_t now = now_ns();
    if (p->drawn && now - p->drawn_ns < REDRAW_NS) return;
    jb_buf b = JB_BUF_INIT(1024);
    counter(p, &b);
    jb_buf_printf(&b, " %zu running, %zu waiting", active, waiting);
    if (p->spent[0]) jb_buf_printf(&b, ", %s", p->spent);
    int64_t fresh = p->done - p->replayed;
    if (p->total > p->done && fresh > 0) {
        char eta[32];
        double each = (double)(now - p->begin_ns) / 1e9 / (double)fresh;
        jb_buf_printf(&b, ", eta %s", jb_text_seconds(eta, sizeof eta, each * (double)(p->total - p->done)));
    }
    if (p->last[0]) jb_buf_printf(&b, "  %s", p->last);
    if (b.ptr) {
        size_t width = (size_t)terminal_width(p->stream) - 1, n = b.len < width ? b.len : width;
        while (n > 0 && n < b.len && ((unsigned char)b.ptr[n] & 0xC0) == 0x80) n--;
        clear(p);
        fwrite(b.ptr, 1, n, p->stream);
        fflush(p->stream);
        p->drawn = 1;
        p->drawn_ns = now;
    }
    jb_buf_free(&b);
}
