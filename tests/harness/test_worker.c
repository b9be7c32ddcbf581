/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's loop and the life of a job, with children that are C functions
 * behind the real zygote, walls and pipes.  A candidate's "source" is a word that
 * says how its children shall misbehave; its modules carry the word on. */
#include "tests/harness/fake.h"

#include "core/base/fs.h"
#include "harness/refs.h"
#include "harness/worker.h"

#include <dirent.h>
#include <sys/stat.h>

static jb_sandbox_paths paths;

/* ---- the children ------------------------------------------------------- */

static int say_json(int ctl, const char *text)
{
    jb_view part = { text, strlen(text) };
    return jb_frame_send(ctl, JB_FRAME_RESULT, &part, 1);
}

static void send_module(int ctl, const char *name, const char *bytes)
{
    uint8_t n[4];
    jb_put_le32(n, (uint32_t)strlen(name));
    jb_view parts[3] = { { (const char *)n, 4 }, { name, strlen(name) }, { bytes, strlen(bytes) } };
    /* No ck_assert in a child: Check's own pipe had the number of our socket. */
    if (jb_frame_send(ctl, JB_FRAME_MODULE, parts, 3) != 0) _exit(9);
}

static int is(const char *word, const char *what) { return strcmp(word, what) == 0; }

static void announce(int ctl, const char *call)
{
    char text[256];
    snprintf(text, sizeof text, "{\"trial\":0,\"doing\":\"checker\",\"checker\":\"mine\",\"plugin\":\"org.mine\",\"gates\":\"g\",\"call\":\"%s\"}", call != NULL ? call : "");
    jb_view part = { call != NULL ? text : "{\"trial\":0,\"doing\":\"judge\"}", 0 };
    part.len = strlen(part.ptr);
    (void)jb_frame_send(ctl, JB_FRAME_PROGRESS, &part, 1);
}

static void crash(void)
{
    volatile int *null = NULL;
    signal(SIGSEGV, SIG_DFL);
    *null = 1;
}

static void hang(void)
{
    for (;;) sleep(1);
}

static int tracer(jb_kid_input *in, const char *word)
{
    static const char ok[] = "{\"trace\":{\"status\":\"ok\",\"seconds\":0.25},\"export\":{\"status\":\"ok\"}}";
    char *job = cJSON_PrintUnformatted(in->meta);
    printf("%s", job); /* what it was told, for the test to read in the log */
    fflush(stdout);
    if (is(word, "exit")) _exit(0);
    if (is(word, "segv")) crash();
    if (is(word, "loop")) hang();
    if (is(word, "sigkill")) raise(SIGKILL);
    if (is(word, "slow")) sleep(2);
    if (is(word, "infra")) return say_json(in->ctl, "{\"trace\":{\"status\":\"infra\",\"outcome\":\"infra\",\"reason\":\"the machine!\"}}");
    if (is(word, "exception")) return jb_kid_fail(in->ctl, "infra", "ValueError: no", "Traceback");
    if (is(word, "unasked")) send_module(in->ctl, "huge/cpu", word);
    if (is(word, "late-exit")) {
        say_json(in->ctl, ok);
        _exit(3);
    }
    if (!is(word, "only-full")) {
        send_module(in->ctl, "tiny/cpu", word);
        send_module(in->ctl, "tiny/tpu", word);
    }
    if (is(word, "twice")) send_module(in->ctl, "tiny/cpu", word);
    if (!is(word, "no-full")) send_module(in->ctl, "full/tpu", word);
    return say_json(in->ctl, ok);
}

static int inspector(jb_kid_input *in, const char *word)
{
    if (is(word, "inspect-crash")) crash();
    if (is(word, "inspect-hang")) hang();
    if (is(word, "inspect-exception")) return jb_kid_fail(in->ctl, "exception", "KeyError: 'x'", "Traceback");
    if (is(word, "refused")) return say_json(in->ctl, "{\"inspect\":{\"status\":\"fail\",\"outcome\":\"suspicious\",\"reason\":\"a callback\"}}");
    return say_json(in->ctl, "{\"inspect\":{\"status\":\"ok\",\"findings\":[],\"coverage\":{\"status\":\"complete\"}}}");
}

static int compiler(jb_kid_input *in, const char *word)
{
    if (is(word, "compile-crash")) crash();
    if (is(word, "compile-hang")) hang();
    if (is(word, "compile-error")) return say_json(in->ctl, "{\"compile\":{\"status\":\"fail\",\"outcome\":\"compile-error\",\"reason\":\"VMEM\",\"error\":\"words\"}}");
    return say_json(in->ctl, "{\"compile\":{\"status\":\"ok\",\"target\":\"TPU v6 lite\"}}");
}

static int executor(jb_kid_input *in, const char *word)
{
    int verify = is(jb_json_str(in->meta, "mode", ""), "verify");
    const cJSON *first = cJSON_GetArrayItem(jb_json_obj(in->meta, "refs"), 0);
    if (is(word, "exec-crash")) crash();
    if (is(word, "exec-hang")) hang();
    if (strncmp(word, "checker-", 8) == 0 && !verify) {
        if (is(word, "checker-late") || is(word, "checker-late-hang")) usleep(1500000);
        announce(in->ctl, is(word, "checker-verdict-crash") ? "verdict" : "trial");
        if (is(word, "checker-crash") || is(word, "checker-verdict-crash")) crash();
        if (is(word, "checker-exit")) _exit(0);
        if (is(word, "checker-hang")) hang();
        if (is(word, "checker-late") || is(word, "checker-late-hang")) usleep(2200000);
        announce(in->ctl, NULL);
        if (is(word, "checker-then-crash")) crash();
        if (is(word, "checker-late-hang")) hang();
    }
    if (is(word, "exec-broken-checker")) return say_json(in->ctl, "{\"check\":{\"status\":\"infra\",\"outcome\":\"infra\",\"reason\":\"checker x broke\"},\"gates\":{}}");
    if (verify) return say_json(in->ctl, "{\"verify\":{\"status\":\"ok\"}}");
    if (!cJSON_IsString(first) || first->valuestring[0] == '\0') return jb_kid_fail(in->ctl, "infra", "no reference path", NULL);
    if (is(word, "wrong")) return say_json(in->ctl, "{\"check\":{\"status\":\"ok\",\"trials\":1},\"gates\":{\"g\":{\"verdict\":\"fail\",\"rows\":[]}}}");
    return say_json(in->ctl, "{\"check\":{\"status\":\"ok\",\"trials\":1},\"gates\":{\"g\":{\"verdict\":\"pass\",\"rows\":[]}}}");
}

/* A reference file with the inputs and r_jit, or a baseline. */
static int make_reference(jb_kid_input *in)
{
    static const char header[] = "{\"schema\":1,\"arrays\":[{\"group\":\"input\",\"index\":0,\"dtype\":\"float32\",\"dims\":[1],\"offset\":4096,\"bytes\":4},"
                                 "{\"group\":\"r_jit\",\"index\":0,\"dtype\":\"float32\",\"dims\":[1],\"offset\":8192,\"bytes\":4}],\"seconds\":0}";
    static char bytes[12288];
    const cJSON *request = jb_json_obj(in->meta, "request");
    const char *out = jb_json_str(in->meta, "out", ""), *distribution = jb_json_str(request, "distribution", "");
    uint64_t n = sizeof header - 1;
    memcpy(bytes, "JBREF1\0\0", 8);
    memcpy(bytes + 8, &n, 8);
    memcpy(bytes + 16, header, n);
    /* Every call leaves a mark, so that a test can count them. */
    char *dir = jb_fs_dirname(out), *log = jb_fs_join(dir, "../calls");
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dprintf(fd, "%s %s\n", jb_json_str(request, "kind", "?"), distribution);
    usleep(200000);
    struct stat st;
    if (is(distribution, "struck") && fstat(fd, &st) == 0 && st.st_size < 16) raise(SIGKILL); /* the first call only */
    if (is(distribution, "full")) return say_json(in->ctl, "{\"reference\":{\"status\":\"fail\",\"reason\":\"OSError: [Errno 28] No space left on device\",\"error\":\"Traceback\\nOSError: [Errno 28] No space left on device\\n\"}}");
    if (is(distribution, "broken")) return say_json(in->ctl, "{\"reference\":{\"status\":\"fail\",\"reason\":\"can't widen\"}}");
    if (is(distribution, "damaged")) n = 1;
    if (n == 1) memcpy(bytes, "JUNK", 4);
    int base = is(jb_json_str(request, "kind", ""), "base");
    /* The baseline's word is the workload's name, so that it can misbehave too. */
    const char *word = jb_json_str(jb_json_obj(request, "workload"), "name", "");
    if (jb_fs_write_atomic(out, base ? word : bytes, base ? strlen(word) : sizeof bytes, NULL) != 0) return 1;
    if (!base && n != 1 && jb_ref_seal(out, NULL) != 0) return 1;
    return say_json(in->ctl, "{\"reference\":{\"status\":\"ok\",\"seconds\":0.2}}");
}

/* Which word does a child act on?  The module's, or the source's. */
static const char *word_of(const jb_kid_input *in)
{
    const jb_blob *b = in->blob_count > 0 ? &in->blobs[0] : NULL;
    return b != NULL ? jb_strndup(b->bytes.ptr, (size_t)b->bytes.len) : "";
}

static int run(void *self, jb_kid_input *in)
{
    (void)self;
    const char *word = word_of(in);
    int rc = 0;
    switch (in->kind) {
    case JB_KID_TRACER: rc = tracer(in, word); break;
    case JB_KID_INSPECTOR: rc = inspector(in, word); break;
    case JB_KID_COMPILER: rc = compiler(in, word); break;
    case JB_KID_REFERENCE: rc = make_reference(in); break;
    case JB_KID_EXECUTOR: rc = executor(in, word); break;
    case JB_KID_TIMER: rc = say_json(in->ctl, "{\"time\":{\"status\":\"ok\"},\"timing\":{\"status\":\"n/a\",\"interpreted\":true}}"); break;
    case JB_KID_SELFTEST: rc = say_json(in->ctl, "{\"selftest\":{\"interpret\":\"ok\"}}"); break;
    default: break;
    }
    return rc == 0 ? 0 : 1;
}

static int prepare(void *self, jb_kid_input *in, jb_error *err)
{
    (void)self;
    jb_plan plan;
    jb_ref_file file;
    const cJSON *first = cJSON_GetArrayItem(jb_json_obj(in->meta, "refs"), 0);
    if (in->kind == JB_KID_EXECUTOR && cJSON_IsString(first) && jb_ref_open(first->valuestring, &file, err) != 0) {
        cJSON *o = cJSON_CreateObject(), *c = jb_json_add_obj(o, "child");
        jb_json_set_str(c, "status", "reference");
        jb_json_set_str(c, "reason", err->message);
        jb_json_set_i64(c, "trial", 0);
        (void)jb_kid_result(in->ctl, o);
        return -1;
    }
    if (in->kind != JB_KID_PLAN) return 0;
    if (jb_plan_build(jb_json_obj(in->meta, "job"), &plan, err) != 0) return -1;
    if (plan.row_count > 0 && is(plan.rows[0].use, "nosuch")) return jb_err(err, JB_ENOTFOUND, "no checker nosuch");
    if (plan.row_count > 0 && is(plan.rows[0].use, "dies")) {
        announce(in->ctl, "create");
        crash();
    }
    cJSON *o = cJSON_CreateObject(), *groups = jb_json_add_arr(jb_json_add_obj(o, "plan"), "groups");
    for (uint32_t i = 0; i < plan.trial_count; i++) cJSON_AddItemToArray(groups, cJSON_CreateNumber(3));
    return jb_kid_result(in->ctl, o);
}

static char *ready(void *self)
{
    (void)self;
    return jb_strdup("{\"schema\":1,\"jax\":\"0\",\"harness\":\"h\",\"modules\":{\"tracer\":\"ok\"}}");
}

static const jb_kid_ops ops = { .paths = &paths, .ready = ready, .prepare = prepare, .run = run };

/* ---- the worker under test ---------------------------------------------- */

static char cache[64];
static fake_zygote zygote;
static pid_t worker;
static int sock;
static jb_frame_reader reader;
static int slots = 2;
static int64_t memory = 0;

static void start(void)
{
    int pair[2];
    zygote = fake_start(&ops, 0); /* before there is a socket it could keep open */
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    worker = fork();
    if (worker == 0) {
        close(pair[0]);
        jb_worker_options o = { .fd = pair[1], .zygote = zygote.sock, .slots = slots, .memory_bytes = memory, .cache = cache, .plugins = "" };
        _exit(jb_worker_run(&o));
    }
    close(zygote.sock); /* the worker's alone */
    close(pair[1]);
    sock = pair[0];
    jb_frame_reader_init(&reader, JB_FRAME_MAX);
}

static void set_up(void)
{
    jb_json_setup();
    strcpy(cache, "/tmp/jb-worker-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(cache));
    ck_assert_int_eq(jb_sandbox_paths_init(&paths, NULL, 0), 0);
    slots = 2;
    memory = 0;
    start();
}

static int stop(void)
{
    int status = -1;
    if (sock >= 0) close(sock);
    sock = -1;
    ck_assert_int_eq(waitpid(worker, &status, 0), worker);
    ck_assert_int_eq(waitpid(zygote.pid, NULL, 0), zygote.pid);
    jb_frame_reader_free(&reader);
    return status;
}

static void tear_down(void)
{
    int status = stop();
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the worker ended with status %d", status);
    jb_fs_remove_tree(cache, NULL);
    jb_sandbox_paths_free(&paths);
}

static void restart(int new_slots, int64_t new_memory)
{
    stop();
    slots = new_slots;
    memory = new_memory;
    start();
}

#define SHAPE "{\"config\":{},\"inputs\":[{\"dtype\":\"float32\",\"dims\":[1]}],\"outputs\":[{\"dtype\":\"float32\",\"dims\":[1]}]}"
static const char SPEC[] =
    "{\"schema\":1,\"workload\":{\"id\":\"8p\",\"name\":\"gemm\",\"dir\":\"/SECRET-dir\",\"slice_axes\":1,\"versions\":{\"published\":\"p\",\"repaired\":\"r\"},"
    "\"shapes\":{\"full\":" SHAPE ",\"tiny\":" SHAPE "},\"scales\":{}},\"check_shapes\":[\"tiny\"],\"timed_shape\":\"full\",\"last_stage\":\"time\","
    "\"skip\":[],\"phase\":\"loop\",\"gates\":[{\"name\":\"g\",\"variant\":\"repaired\",\"rows\":[{\"use\":\"SECRET-checker\",\"over\":{\"shapes\":[\"tiny\"],"
    "\"draws\":{\"own\":1}}}]}],\"timers\":[{\"use\":\"wall\",\"options\":{}}],\"keys\":{\"loop\":\"SECRET-loop\",\"final\":\"SECRET-final\"},"
    "\"limits\":{\"trace_s\":1.5,\"inspect_s\":1.5,\"compile_s\":1.5,\"check_s\":1.5,\"reference_s\":20,\"memory_mb\":4096},\"isolation\":\"best-effort\",\"store\":\"\"}";

static cJSON *spec(void)
{
    cJSON *o = jb_json_parse(SPEC, strlen(SPEC), NULL);
    ck_assert_ptr_nonnull(o);
    return o;
}

static void send_job(uint64_t id, const cJSON *job, const char *source)
{
    char *text = cJSON_PrintUnformatted(job);
    uint8_t head[12];
    jb_put_le64(head, id);
    jb_put_le32(head + 8, (uint32_t)strlen(text));
    jb_view parts[3] = { { (const char *)head, 12 }, { text, strlen(text) }, { source, strlen(source) } };
    ck_assert_int_eq(jb_frame_send(sock, JB_FRAME_JOB, parts, 3), 0);
    cJSON_free(text);
}

/* The next frame of a type; its JSON, and the job it is about. */
static cJSON *receive(uint32_t type, uint64_t *job)
{
    for (;;) {
        jb_frame f;
        jb_error err = JB_ERROR_INIT;
        int rc = jb_frame_read(&reader, sock, &f, &err);
        ck_assert_msg(rc == JB_FRAME_GOT, "reading a frame: %d %s", rc, err.message);
        size_t skip = f.type == JB_FRAME_READY ? 0 : 8;
        if (job != NULL && skip != 0) *job = jb_le64(f.body);
        cJSON *o = f.type == type ? jb_json_parse((const char *)f.body + skip, f.len - skip, &err) : NULL;
        int wanted = f.type == type;
        jb_frame_free(&f);
        if (!wanted) continue;
        ck_assert_msg(o != NULL, "%s", err.message);
        return o;
    }
}

static const cJSON *stage_of(const cJSON *record, const char *stage) { return jb_json_obj(jb_json_obj(record, "stages"), stage); }

static cJSON *judge(const cJSON *job, const char *source)
{
    uint64_t id = 0;
    send_job(7, job, source);
    cJSON *r = receive(JB_FRAME_DONE, &id);
    ck_assert_uint_eq(id, 7);
    return r;
}

static int calls(void)
{
    jb_buf text = JB_BUF_INIT(65536);
    char *path = jb_fs_join(cache, "calls");
    int n = 0;
    if (jb_fs_read(path, 65536, &text, NULL) == 0)
        for (size_t i = 0; i < text.len; i++) n += text.ptr[i] == '\n';
    jb_buf_free(&text);
    jb_free(path);
    return n;
}

/* ---- one job ------------------------------------------------------------ */

/* source, the stage it ends in, status, outcome, words of the reason */
static const struct { const char *source, *stage, *status, *outcome, *words; } ENDS[] = {
    { "exit", "trace", "fail", "trace-error", "exited with 0 before the trace was complete" },
    { "segv", "trace", "crash", "trace-error", "SIGSEGV" },
    { "loop", "trace", "timeout", "timeout", "limit of 1.5 s" },
    { "infra", "trace", "fail", "trace-error", "the machine!" },
    { "exception", "trace", "fail", "trace-error", "ValueError: no" },
    { "unasked", "trace", "fail", "trace-error", "not asked for: \"huge/cpu\"" },
    { "twice", "trace", "fail", "trace-error", "sent twice" },
    { "late-exit", "trace", "fail", "trace-error", "exited with 3" },
    { "no-full", "export", "fail", "trace-error", "no module for the timed shape" },
    { "inspect-crash", "inspect", "crash", "suspicious", "crashed the inspector" },
    { "inspect-hang", "inspect", "timeout", "suspicious", "limit of 1.5 s" },
    { "inspect-exception", "inspect", "crash", "suspicious", "KeyError" },
    { "refused", "inspect", "fail", "suspicious", "a callback" },
    { "compile-hang", "compile", "timeout", "compile-timeout", "limit of 1.5 s" },
    { "compile-error", "compile", "fail", "compile-error", "VMEM" },
    { "compile-crash", "compile", "crash", "compile-error", "compiles the reference's own module" },
    { "exec-crash", "check", "crash", "runtime-error", "the reference's own module runs here" },
    { "exec-hang", "check", "timeout", "timeout", "limit of 1.5 s" },
    { "exec-broken-checker", "check", "infra", "infra", "checker x broke" },
    { "sigkill", "trace", "crash", "trace-error", "SIGKILL" },
    { "checker-crash", "check", "infra", "infra", "checker mine of gate set g (plugin org.mine) broke in trial: the process " },
    { "checker-verdict-crash", "check", "infra", "infra", "checker mine of gate set g (plugin org.mine) broke in verdict: the process " },
    { "checker-exit", "check", "infra", "infra", "(plugin org.mine) broke in trial: the process exited with 0" },
    { "checker-hang", "check", "infra", "infra", "checker mine of gate set g (plugin org.mine) hung in trial: stopped after" },
    { "checker-then-crash", "check", "crash", "runtime-error", "the reference's own module runs here" }, /* back in the candidate */
};

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#else
#define ASAN 0
#endif

START_TEST(ends_of_a_job)
{
    if (ASAN && is(ENDS[_i].source, "segv")) return; /* it exits instead */
    cJSON *job = spec(), *r = judge(job, ENDS[_i].source);
    const cJSON *stage = stage_of(r, ENDS[_i].stage);
    const char *reason = jb_json_str(stage, "reason", "");
    if (!ASAN || strcmp(ENDS[_i].status, "crash") != 0) ck_assert_str_eq(jb_json_str(stage, "status", "?"), ENDS[_i].status);
    ck_assert_str_eq(jb_json_str(stage, "outcome", "?"), ENDS[_i].outcome);
    ck_assert_msg(strstr(reason, ENDS[_i].words) != NULL, "%s: \"%s\" should hold \"%s\"", ENDS[_i].source, reason, ENDS[_i].words);
    /* Everything after it is skipped, with a reason; everything before it is not failed. */
    int after = 0;
    for (int i = JB_ST_TRACE; i < JB_ST_COUNT; i++) {
        const cJSON *s = stage_of(r, jb_rec_stages[i]);
        ck_assert_msg(s != NULL, "stage %s is missing", jb_rec_stages[i]);
        if (after) {
            ck_assert_str_eq(jb_json_str(s, "status", ""), "skipped");
            ck_assert_str_ne(jb_json_str(s, "reason", ""), "");
        } else if (!is(jb_rec_stages[i], ENDS[_i].stage)) {
            ck_assert_str_eq(jb_json_str(s, "status", ""), "ok");
        }
        after |= is(jb_rec_stages[i], ENDS[_i].stage);
    }
    cJSON_Delete(r);
    cJSON_Delete(job);
    /* And the next candidate is judged rightly. */
    job = spec();
    r = judge(job, "good");
    ck_assert_str_eq(jb_json_str(jb_json_path(r, "gates.g"), "verdict", "?"), "pass");
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

static const char *const CURSED[][2] = { { "compile-crash", "compile" }, { "exec-crash", "check" }, { "exec-hang", "check" } };

/* When the reference's own module fails as well, nobody can blame the candidate. */
START_TEST(a_crash_of_both_is_infra)
{
    cJSON *job = spec();
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(job, "workload"), "name", cJSON_CreateString(CURSED[_i][0]));
    cJSON *r = judge(job, CURSED[_i][0]);
    const cJSON *stage = stage_of(r, CURSED[_i][1]);
    ck_assert_str_eq(jb_json_str(stage, "status", ""), "infra");
    ck_assert_ptr_nonnull(strstr(jb_json_str(stage, "reason", ""), "the reference's own module too"));
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

START_TEST(a_good_job_has_everything)
{
    cJSON *job = spec(), *r = judge(job, "good");
    static const char *const ok[] = { "trace", "export", "inspect", "compile", "check", "time" };
    for (size_t i = 0; i < 6; i++) ck_assert_str_eq(jb_json_str(stage_of(r, ok[i]), "status", "?"), "ok");
    ck_assert_str_eq(jb_json_str(stage_of(r, "profile"), "status", ""), "skipped");
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(stage_of(r, "export"), "modules")), 3);
    ck_assert_str_eq(jb_json_str(r, "numerics", ""), "interpret");
    ck_assert_str_eq(jb_json_str(jb_json_obj(r, "timing"), "status", ""), "n/a");
    ck_assert_ptr_nonnull(jb_json_obj(r, "isolation"));
    ck_assert_double_gt(jb_json_num(jb_json_obj(r, "cost"), "wall_s", 0), 0);
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

START_TEST(a_tracer_is_told_no_secret)
{
    cJSON *job = spec(), *r = judge(job, "good");
    const char *log = jb_json_str(r, "log", "");
    ck_assert_msg(strstr(log, "tiny") != NULL, "%s", log); /* it did say what it was told */
    ck_assert_msg(strstr(log, "SECRET") == NULL, "%s", log);
    ck_assert_msg(strstr(log, "versions") == NULL, "%s", log);
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

START_TEST(wrong_is_not_timed)
{
    cJSON *job = spec(), *r = judge(job, "wrong");
    ck_assert_str_eq(jb_json_str(stage_of(r, "check"), "status", ""), "ok");
    ck_assert_str_eq(jb_json_str(stage_of(r, "time"), "status", ""), "skipped");
    ck_assert_ptr_nonnull(strstr(jb_json_str(stage_of(r, "time"), "reason", ""), "correct"));
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

START_TEST(full_shape_only_is_inconclusive_and_not_executed)
{
    cJSON *job = spec(), *r = judge(job, "only-full");
    const cJSON *finding = cJSON_GetArrayItem(jb_json_obj(stage_of(r, "inspect"), "findings"), 0);
    ck_assert_str_eq(jb_json_str(finding, "id", ""), "shape-specialised");
    ck_assert_str_eq(jb_json_str(finding, "outcome", ""), "inconclusive");
    ck_assert_str_eq(jb_json_str(stage_of(r, "check"), "status", ""), "skipped");
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

START_TEST(skips_and_last_stage_are_obeyed)
{
    cJSON *job = spec(), *skip = cJSON_GetObjectItemCaseSensitive(job, "skip");
    cJSON_AddItemToArray(skip, cJSON_CreateString("compile"));
    cJSON *r = judge(job, "compile-error");
    ck_assert_str_eq(jb_json_str(stage_of(r, "compile"), "status", ""), "skipped");
    ck_assert_str_eq(jb_json_str(stage_of(r, "check"), "status", ""), "ok");
    cJSON_Delete(r);
    cJSON_AddItemToArray(skip, cJSON_CreateString("inspect")); /* then nothing may be executed */
    r = judge(job, "good");
    ck_assert_str_eq(jb_json_str(stage_of(r, "check"), "status", ""), "skipped");
    ck_assert_ptr_nonnull(strstr(jb_json_str(stage_of(r, "check"), "reason", ""), "not inspected"));
    cJSON_Delete(r);
    cJSON_ReplaceItemInObjectCaseSensitive(job, "last_stage", cJSON_CreateString("export"));
    r = judge(job, "good");
    ck_assert_str_eq(jb_json_str(stage_of(r, "export"), "status", ""), "ok");
    ck_assert_str_eq(jb_json_str(stage_of(r, "inspect"), "reason", ""), "not asked for");
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

START_TEST(stored_modules_start_at_inspect)
{
    cJSON *job = spec(), *modules;
    cJSON_ReplaceItemInObjectCaseSensitive(job, "store", cJSON_CreateString(cache));
    cJSON *r = judge(job, "good");
    modules = cJSON_Duplicate(jb_json_obj(stage_of(r, "export"), "modules"), 1);
    cJSON_Delete(r);
    cJSON_AddItemToObject(job, "modules", modules);
    r = judge(job, "");
    ck_assert_str_eq(jb_json_str(stage_of(r, "trace"), "status", ""), "skipped");
    ck_assert_str_eq(jb_json_str(jb_json_path(r, "gates.g"), "verdict", ""), "pass");
    cJSON_Delete(r);
    /* A file that is not what its name says is refused. */
    char *path = jb_fs_join(cache, jb_json_str(cJSON_GetArrayItem(modules, 0), "sha256", ""));
    ck_assert_int_eq(jb_fs_write_atomic(path, "other", 5, NULL), 0);
    r = judge(job, "");
    ck_assert_str_eq(jb_json_str(stage_of(r, "inspect"), "status", ""), "infra");
    ck_assert_ptr_nonnull(strstr(jb_json_str(stage_of(r, "inspect"), "reason", ""), "hash"));
    jb_free(path);
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

/* how the job is spoiled, words of the reason */
static const struct { const char *key, *value, *words; } MALFORMED[] = {
    { "schema", "2", "schema is 2" },
    { "check_shapes", "[]", "1 to 16 shapes" },
    { "check_shapes", "[\"gone\"]", "lacks" },
    { "check_shapes", "[5]", "lacks" },
    { "timed_shape", "\"gone\"", "timed shape gone" },
    { "last_stage", "\"party\"", "\"party\" is no stage" },
};

START_TEST(malformed_jobs_are_infra_with_a_reason)
{
    cJSON *job = spec();
    cJSON_ReplaceItemInObjectCaseSensitive(job, MALFORMED[_i].key, cJSON_Parse(MALFORMED[_i].value));
    cJSON *r = judge(job, "good");
    const char *reason = jb_json_str(stage_of(r, "trace"), "reason", "");
    ck_assert_str_eq(jb_json_str(stage_of(r, "trace"), "status", ""), "infra");
    ck_assert_msg(strstr(reason, MALFORMED[_i].words) != NULL, "\"%s\" should hold \"%s\"", reason, MALFORMED[_i].words);
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

static cJSON *spec_with_rows(const char *rows)
{
    cJSON *job = spec(), *set = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(job, "gates"), 0);
    cJSON_ReplaceItemInObjectCaseSensitive(set, "rows", cJSON_Parse(rows));
    return job;
}

static const struct { const char *rows, *words; } BROKEN[] = {
    { "[{\"use\":\"x\",\"over\":{\"shapes\":[\"tiny\"],\"draws\":{\"broken\":1}}}]", "can't widen" },
    { "[{\"use\":\"x\",\"over\":{\"shapes\":[\"tiny\"],\"draws\":{\"damaged\":1}}}]", "damaged file" },
    { "[{\"use\":\"dies\",\"over\":{\"shapes\":[\"tiny\"],\"draws\":{\"own\":1}}}]", "checker mine of gate set g (plugin org.mine) broke in create: the process " },
    { "[{\"use\":\"nosuch\",\"over\":{\"shapes\":[\"tiny\"],\"draws\":{\"own\":1}}}]", "no checker nosuch" },
};

START_TEST(references_and_gates_that_fail_are_infra)
{
    cJSON *job = spec_with_rows(BROKEN[_i].rows), *r = judge(job, "good");
    const char *reason = jb_json_str(stage_of(r, "check"), "reason", "");
    ck_assert_str_eq(jb_json_str(stage_of(r, "check"), "status", ""), "infra");
    ck_assert_msg(strstr(reason, BROKEN[_i].words) != NULL, "\"%s\" should hold \"%s\"", reason, BROKEN[_i].words);
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

/* A checker's time is not the candidate's: 1.5 s of one and 2.2 s of the other are
 * within a limit of 3 s for each; and a hang after that is the candidate's. */
static const struct { const char *source, *status, *words; } LATE[] = {
    { "checker-late", "ok", "" },
    { "checker-late-hang", "timeout", "limit of 3 s" },
};

START_TEST(the_deadline_waits_for_a_checker_and_for_nobody_else)
{
    cJSON *job = spec();
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(job, "limits"), "check_s", cJSON_CreateNumber(3));
    cJSON *r = judge(job, LATE[_i].source);
    const char *reason = jb_json_str(stage_of(r, "check"), "reason", "");
    ck_assert_msg(is(jb_json_str(stage_of(r, "check"), "status", ""), LATE[_i].status), "%s: %s", jb_json_str(stage_of(r, "check"), "status", ""), reason);
    ck_assert_msg(strstr(reason, LATE[_i].words) != NULL, "\"%s\" should hold \"%s\"", reason, LATE[_i].words);
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

/* ---- struck down from outside -------------------------------------------- */

/* A child process of `parent` (the newest), or -1. */
static pid_t child_of(pid_t parent)
{
    DIR *d = opendir("/proc");
    pid_t found = -1;
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char path[300], text[512];
        int pid = atoi(e->d_name), ppid = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *f = pid > 0 ? fopen(path, "re") : NULL;
        if (f == NULL) continue;
        const char *end = fgets(text, sizeof text, f) != NULL ? strrchr(text, ')') : NULL;
        if (end != NULL && sscanf(end, ") %*c %d", &ppid) == 1 && ppid == parent && pid > found) found = pid;
        fclose(f);
    }
    closedir(d);
    return found;
}

/* Wait until the zygote has a keeper, an init and a leaf; `depth` of them from the
 * zygote on is killed (1: the keeper, 3: the leaf). */
static void strike(int depth)
{
    pid_t line[4] = { zygote.pid, -1, -1, -1 };
    for (int i = 0; line[3] <= 0; i++) {
        ck_assert_int_lt(i, 2000);
        for (int k = 1; k < 4; k++) line[k] = line[k - 1] > 0 ? child_of(line[k - 1]) : -1;
        if (line[3] <= 0) usleep(5000);
    }
    usleep(300000); /* into its sleep */
    ck_assert_int_eq(kill(line[depth], SIGKILL), 0);
}

/* The next PROGRESS that says the stage runs. */
static void await_running(const char *stage)
{
    for (;;) {
        cJSON *p = receive(JB_FRAME_PROGRESS, NULL);
        int yes = is(jb_json_str(p, "stage", ""), stage) && is(jb_json_str(p, "status", ""), "running");
        cJSON_Delete(p);
        if (yes) return;
    }
}

/* who is struck, how often; stage status, outcome, words of the reason */
static const struct { int depth, times; const char *status, *outcome, *words; } STRUCK[] = {
    { 3, 1, "ok", "", "" },
    { 3, 2, "crash", "trace-error", "SIGKILL" }, /* as before: it may have been its own doing */
    { 1, 1, "ok", "", "" },
    { 1, 2, "infra", "infra", "the tracer child vanished" },
};

START_TEST(who_is_struck_down_is_tried_once_more)
{
    cJSON *job = spec();
    uint64_t id;
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(job, "limits"), "trace_s", cJSON_CreateNumber(40));
    cJSON_Delete(judge(job, "good")); /* the probe and the self-test are gone by now */
    send_job(8, job, "slow");
    for (int i = 0; i < STRUCK[_i].times; i++) {
        await_running("trace");
        strike(STRUCK[_i].depth);
    }
    cJSON *r = receive(JB_FRAME_DONE, &id);
    const cJSON *trace = stage_of(r, "trace");
    const char *reason = jb_json_str(trace, "reason", "");
    ck_assert_msg(is(jb_json_str(trace, "status", ""), STRUCK[_i].status), "%s: %s", jb_json_str(trace, "status", ""), reason);
    ck_assert_str_eq(jb_json_str(trace, "outcome", ""), STRUCK[_i].outcome);
    ck_assert_msg(strstr(reason, STRUCK[_i].words) != NULL, "\"%s\" should hold \"%s\"", reason, STRUCK[_i].words);
    if (STRUCK[_i].times == 1) ck_assert_str_eq(jb_json_str(jb_json_path(r, "gates.g"), "verdict", ""), "pass");
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

/* ---- references that fail, or rot ------------------------------------------ */

#define ROW(distribution) "[{\"use\":\"x\",\"over\":{\"shapes\":[\"tiny\"],\"draws\":{\"" distribution "\":1}}}]"

START_TEST(a_reference_child_struck_down_is_tried_once_more)
{
    cJSON *job = spec_with_rows(ROW("struck"));
    cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(job, "skip"), cJSON_CreateString("time"));
    cJSON *r = judge(job, "good");
    ck_assert_str_eq(jb_json_str(jb_json_path(r, "gates.g"), "verdict", ""), "pass");
    ck_assert_int_eq(calls(), 2);
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

START_TEST(a_reference_that_failed_is_not_tried_for_the_next)
{
    cJSON *job = spec_with_rows(ROW("full"));
    char folder[256];
    snprintf(folder, sizeof folder, "the reference of tiny/full can't be written to the cache %s/refs: No space left on device", cache);
    for (int i = 0; i < 3; i++) {
        cJSON *r = judge(job, "good");
        ck_assert_str_eq(jb_json_str(stage_of(r, "check"), "status", ""), "infra");
        ck_assert_str_eq(jb_json_str(stage_of(r, "check"), "reason", ""), folder);
        cJSON_Delete(r);
    }
    ck_assert_int_eq(calls(), 1);
    cJSON *other = spec(), *r = judge(other, "good"); /* and of others nothing is thought */
    ck_assert_str_eq(jb_json_str(jb_json_path(r, "gates.g"), "verdict", ""), "pass");
    cJSON_Delete(r);
    restart(2, 0); /* the next run may have more room */
    r = judge(job, "good");
    ck_assert_str_eq(jb_json_str(stage_of(r, "check"), "reason", ""), folder);
    cJSON_Delete(r);
    cJSON_Delete(other);
    cJSON_Delete(job);
}
END_TEST

/* The one reference file of the cache. */
static char *reference_path(void)
{
    char *dir = jb_fs_join(cache, "refs"), *path = NULL;
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (strstr(e->d_name, ".ref") != NULL && path == NULL) path = jb_fs_join(dir, e->d_name);
    closedir(d);
    jb_free(dir);
    ck_assert_ptr_nonnull(path);
    return path;
}

START_TEST(a_rotten_reference_is_made_again)
{
    cJSON *job = spec();
    cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(job, "skip"), cJSON_CreateString("time"));
    for (int i = 0; i < 4; i++) {
        cJSON *r = judge(job, "good");
        ck_assert_msg(is(jb_json_str(jb_json_path(r, "gates.g"), "verdict", ""), "pass"), "turn %d: %s", i, jb_json_str(stage_of(r, "check"), "reason", ""));
        cJSON_Delete(r);
        ck_assert_int_eq(calls(), i + 1);
        char *path = reference_path();
        if (i == 0) { /* a byte behind the header */
            int fd = open(path, O_WRONLY);
            ck_assert_int_eq(pwrite(fd, "x", 1, 4097), 1);
            close(fd);
        } else if (i == 1) { /* a pipe nobody writes to */
            ck_assert_int_eq(unlink(path), 0);
            ck_assert_int_eq(mkfifo(path, 0600), 0);
        } else if (i == 2) { /* cut short */
            ck_assert_int_eq(truncate(path, 5000), 0);
        }
        jb_free(path);
    }
    cJSON_Delete(job);
}
END_TEST

/* ---- many jobs ---------------------------------------------------------- */

START_TEST(equal_references_are_computed_once)
{
    cJSON *job = spec(), *skip = cJSON_GetObjectItemCaseSensitive(job, "skip");
    uint64_t id;
    cJSON_AddItemToArray(skip, cJSON_CreateString("time"));
    for (uint64_t i = 0; i < 6; i++) send_job(i, job, "good");
    for (int i = 0; i < 6; i++) {
        cJSON *r = receive(JB_FRAME_DONE, &id);
        ck_assert_str_eq(jb_json_str(jb_json_path(r, "gates.g"), "verdict", ""), "pass");
        cJSON_Delete(r);
    }
    ck_assert_int_eq(calls(), 1);
    restart(2, 0); /* and the cache outlives the worker */
    cJSON_Delete(judge(job, "good"));
    ck_assert_int_eq(calls(), 1);
    cJSON_Delete(job);
}
END_TEST

START_TEST(a_mixed_crowd_is_served_without_mixing)
{
    static const char *const sources[] = { "good", "exit", "loop", "wrong", "segv", "compile-error", "inspect-crash", "unasked" };
    static const char *const stages[] = { NULL, "trace", "trace", NULL, "trace", "compile", "inspect", "trace" };
    cJSON *job = spec();
    int seen[32] = { 0 };
    restart(4, 0);
    for (uint64_t i = 0; i < 32; i++) send_job(i, job, sources[i % 8]);
    for (int n = 0; n < 32; n++) {
        uint64_t id = 99;
        cJSON *r = receive(JB_FRAME_DONE, &id);
        ck_assert_uint_lt(id, 32);
        ck_assert_int_eq(seen[id]++, 0);
        const char *stage = stages[id % 8];
        if (stage == NULL)
            ck_assert_str_eq(jb_json_str(jb_json_path(r, "gates.g"), "verdict", "?"), id % 8 == 0 ? "pass" : "fail");
        else
            ck_assert_str_ne(jb_json_str(stage_of(r, stage), "status", "ok"), "ok");
        cJSON_Delete(r);
    }
    cJSON_Delete(job);
}
END_TEST

START_TEST(an_estimate_that_fits_nowhere_still_runs_alone)
{
    cJSON *job = spec();
    uint64_t id;
    restart(4, 1 << 20); /* a MiB for everything */
    for (uint64_t i = 0; i < 3; i++) send_job(i, job, "good");
    for (int i = 0; i < 3; i++) cJSON_Delete(receive(JB_FRAME_DONE, &id));
    cJSON_Delete(job);
}
END_TEST

START_TEST(cancelled_jobs_end_once_and_at_once)
{
    cJSON *job = spec();
    uint64_t id = 0;
    uint8_t number[8];
    restart(1, 0);
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(job, "limits"), "trace_s", cJSON_CreateNumber(60));
    send_job(1, job, "loop");
    send_job(2, job, "good"); /* queued behind it */
    cJSON_Delete(receive(JB_FRAME_PROGRESS, &id));
    int64_t t0 = jb_clock_ns();
    for (uint64_t i = 1; i <= 2; i++) {
        jb_put_le64(number, i);
        jb_view part = { (const char *)number, 8 };
        ck_assert_int_eq(jb_frame_send(sock, JB_FRAME_CANCEL, &part, 1), 0);
        ck_assert_int_eq(jb_frame_send(sock, JB_FRAME_CANCEL, &part, 1), 0);
    }
    for (int i = 0; i < 2; i++) {
        cJSON *r = receive(JB_FRAME_DONE, &id);
        ck_assert_str_eq(jb_json_str(stage_of(r, "trace"), "outcome", ""), "cancelled");
        cJSON_Delete(r);
    }
    ck_assert_int_lt(jb_clock_ns() - t0, 5000000000);
    cJSON *r = judge(job, "wrong");
    ck_assert_str_eq(jb_json_str(stage_of(r, "check"), "status", ""), "ok");
    cJSON_Delete(r);
    cJSON_Delete(job);
}
END_TEST

START_TEST(the_worker_goes_when_its_peer_does)
{
    cJSON *job = spec();
    int status = -1;
    uint64_t id;
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(job, "limits"), "trace_s", cJSON_CreateNumber(60));
    send_job(1, job, "loop");
    cJSON_Delete(receive(JB_FRAME_PROGRESS, &id));
    close(sock);
    sock = -1;
    int64_t t0 = jb_clock_ns();
    ck_assert_int_eq(waitpid(worker, &status, 0), worker);
    ck_assert_int_eq(waitpid(zygote.pid, NULL, 0), zygote.pid); /* which reaped its children first */
    ck_assert_int_lt(jb_clock_ns() - t0, 5000000000);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    cJSON_Delete(job);
    jb_frame_reader_free(&reader);
    start();
}
END_TEST

START_TEST(bytes_that_are_no_frames_end_the_worker)
{
    int status = -1;
    cJSON_Delete(receive(JB_FRAME_READY, NULL));
    ck_assert_int_eq(write(sock, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    ck_assert_int_eq(waitpid(worker, &status, 0), worker);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %d", status);
    waitpid(zygote.pid, NULL, 0);
    close(sock);
    jb_frame_reader_free(&reader);
    start();
}
END_TEST

START_TEST(ready_names_the_layers)
{
    cJSON *r = receive(JB_FRAME_READY, NULL);
    ck_assert_ptr_nonnull(jb_json_obj(r, "isolation"));
    ck_assert_ptr_nonnull(cJSON_GetObjectItemCaseSensitive(jb_json_obj(r, "isolation"), "seccomp"));
    ck_assert_int_eq((int)jb_json_i64(r, "slots", 0), 2);
    cJSON_Delete(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("worker");
    TCase *one = tcase_create("one job"), *many = tcase_create("many jobs");
    tcase_add_checked_fixture(one, set_up, tear_down);
    tcase_add_loop_test(one, ends_of_a_job, 0, sizeof ENDS / sizeof ENDS[0]);
    tcase_add_loop_test(one, a_crash_of_both_is_infra, 0, sizeof CURSED / sizeof CURSED[0]);
    tcase_add_test(one, a_good_job_has_everything);
    tcase_add_test(one, a_tracer_is_told_no_secret);
    tcase_add_test(one, wrong_is_not_timed);
    tcase_add_test(one, full_shape_only_is_inconclusive_and_not_executed);
    tcase_add_test(one, skips_and_last_stage_are_obeyed);
    tcase_add_test(one, stored_modules_start_at_inspect);
    tcase_add_loop_test(one, malformed_jobs_are_infra_with_a_reason, 0, sizeof MALFORMED / sizeof MALFORMED[0]);
    tcase_add_loop_test(one, references_and_gates_that_fail_are_infra, 0, sizeof BROKEN / sizeof BROKEN[0]);
    tcase_add_test(one, ready_names_the_layers);
    tcase_add_loop_test(one, the_deadline_waits_for_a_checker_and_for_nobody_else, 0, sizeof LATE / sizeof LATE[0]);
    tcase_add_loop_test(one, who_is_struck_down_is_tried_once_more, 0, sizeof STRUCK / sizeof STRUCK[0]);
    tcase_add_test(one, a_reference_child_struck_down_is_tried_once_more);
    tcase_add_test(one, a_reference_that_failed_is_not_tried_for_the_next);
    tcase_add_test(one, a_rotten_reference_is_made_again);
    tcase_set_timeout(one, 60);
    suite_add_tcase(s, one);
    tcase_add_checked_fixture(many, set_up, tear_down);
    tcase_add_test(many, equal_references_are_computed_once);
    tcase_add_test(many, a_mixed_crowd_is_served_without_mixing);
    tcase_add_test(many, an_estimate_that_fits_nowhere_still_runs_alone);
    tcase_add_test(many, cancelled_jobs_end_once_and_at_once);
    tcase_add_test(many, the_worker_goes_when_its_peer_does);
    tcase_add_test(many, bytes_that_are_no_frames_end_the_worker);
    tcase_set_timeout(many, 100);
    suite_add_tcase(s, many);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
