/* SPDX-License-Identifier: Apache-2.0 */
/* harness/probe.c - see probe.h. */
#include "harness/probe.h"

#include "core/base/error.h"
#include "harness/child.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define READY_S 180
#define CHILD_S 120

/* Wait for a message of the zygote, draining `c` meanwhile. */
static int await(int sock, jb_child *c, uint32_t op, int64_t deadline_ns, char *text, size_t cap)
{
    for (;;) {
        jb_zmsg m;
        int rc = jb_zygote_recv(sock, &m, text, cap);
        if (rc < 0) return JB_EIO;
        if (rc == 1 && m.op == op) return 0;
        if (rc == 1) continue;
        int64_t left = deadline_ns - jb_clock_ns();
        if (left <= 0) return JB_ETIMEOUT;
        struct pollfd p[4] = { { .fd = sock, .events = POLLIN },
                               { .fd = c != NULL ? c->ctl : -1, .events = POLLIN },
                               { .fd = c != NULL ? c->log : -1, .events = POLLIN },
                               { .fd = c != NULL ? c->status : -1, .events = POLLIN } };
        if (poll(p, 4, (int)(left / 1000000) + 1) < 0 && errno != EINTR) return JB_EIO;
        if (c != NULL) jb_child_pump(c);
    }
}

/* Run one child to its end; at the limit it is killed and awaited. */
static jb_child *run_child(int sock, uint64_t id, uint32_t kind, const jb_limits *limits, jb_error *err)
{
    char text[64];
    cJSON *meta = cJSON_CreateObject();
    int request = jb_kid_pack(meta, NULL, 0, err);
    cJSON_Delete(meta);
    jb_child *c = jb_child_spawn(sock, id, kind, limits, 0, (int64_t)CHILD_S * 1000000000, request, err);
    if (c == NULL) return NULL;
    if (await(sock, c, JB_ZOP_ENDED, c->deadline_ns, text, sizeof text) == JB_ETIMEOUT) {
        jb_zmsg m = { .op = JB_ZOP_KILL, .id = id };
        c->timed_out = 1;
        (void)jb_zygote_send(sock, &m, NULL, 0);
        (void)await(sock, c, JB_ZOP_ENDED, jb_clock_ns() + 10000000000, text, sizeof text);
    }
    jb_child_finish(c);
    return c;
}

static void add_isolation(cJSON *o, const jb_child *c)
{
    const char *missing = jb_isolation_missing(&c->walls);
    cJSON_AddItemToObject(o, "isolation", jb_isolation_json(&c->walls));
    if (missing != NULL)
        jb_json_set_str(o, "isolation_missing", missing);
    else
        cJSON_AddNullToObject(o, "isolation_missing");
}

static void add_selftest(cJSON *o, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "selftest");
    char end[300];
    if (said != NULL) {
        cJSON_AddItemToObject(o, "selftest", cJSON_Duplicate(said, 1));
        return;
    }
    cJSON *t = jb_json_add_obj(o, "selftest");
    const char *own = jb_json_str(jb_json_obj(c->result, "child"), "reason", NULL);
    jb_json_set_str(t, "interpret", "unknown");
    jb_json_set_bool(t, "tpu_compile", 0);
    jb_json_set_str(t, "error", own != NULL ? own : jb_child_end(c, end, sizeof end));
    jb_buf words = JB_BUF_INIT(4096);
    if (jb_capture_tail(&c->log_text, 2000, &words) == 0) jb_json_set_view(t, "log", jb_buf_view(&words));
    jb_buf_free(&words);
}

cJSON *jb_probe(int sock, jb_error *err)
{
    static char text[JB_ZYGOTE_TEXT];
    const jb_limits tracer = { .profile = JB_PROFILE_TRACER, .uid = 200000000u, .as_bytes = (int64_t)8 << 30, .cpu_s = 60,
                               .processes = 256, .files = 256, .file_bytes = 1 << 20 };
    const jb_limits judge = { .profile = JB_PROFILE_JUDGE, .uid = 200000000u, .files = 512, .tmp_bytes = (int64_t)1 << 30 };
    int rc = await(sock, NULL, JB_ZOP_READY, jb_clock_ns() + (int64_t)READY_S * 1000000000, text, sizeof text);
    if (rc == JB_ETIMEOUT) jb_err(err, rc, "the zygote did not come up within %d s; its own words are on stderr", READY_S);
    else if (rc != 0) jb_err(err, rc, "the zygote ended before it was ready; its own words are on stderr");
    if (rc != 0) return NULL;
    cJSON *o = jb_json_parse(text, strlen(text), err);
    jb_child *c = o != NULL ? run_child(sock, 1, JB_KID_PROBE, &tracer, err) : NULL;
    if (c != NULL) add_isolation(o, c);
    jb_child_free(c);
    c = o != NULL ? run_child(sock, 2, JB_KID_SELFTEST, &judge, err) : NULL;
    if (c != NULL) add_selftest(o, c);
    jb_child_free(c);
    return o;
}
