/* SPDX-License-Identifier: Apache-2.0 */
/* harness/runtime.c - the executor and the timer child: C drives
 * jaxbench_harness.runtime.Program and hands the runtime's own buffers to the
 * checkers.  Nothing here runs a candidate's Python; its module is hostile bytes
 * all the same, so files are mapped and checkers loaded before the walls close
 * (jb_runtime_prepare), and everything else happens behind them.
 *
 * No copy: inputs are numpy views of the mapped reference file, outputs are read
 * through the buffer protocol. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "harness/python.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "harness/checks.h"
#include "harness/frameio.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define MAX_PROGRAMS 16
#define NO_TRIAL UINT32_MAX
#define MAX_OUTPUTS 64
#define TIMER_SAMPLES 1024
#define ROTATION 3          /* copies of the inputs a timer goes round */
#define ROTATION_BYTES ((int64_t)256 << 20)

typedef struct compiled {
    char name[96];          /* blob it was made of */
    PyObject *object;
} compiled;

/* Everything of one child; made before the walls, used behind them. */
typedef struct runtime {
    jb_kid_input *in;
    const cJSON *job;
    jb_plan plan;
    jb_registry *registry;
    jb_gates gates;
    jb_ref_file *refs;      /* one a trial */
    jb_inspection inspection;
    int has_inspection;
    compiled programs[MAX_PROGRAMS];
    size_t program_count;
    /* Outputs of the last execution. */
    PyObject *result;
    Py_buffer views[MAX_OUTPUTS];
    jb_tensor tensors[MAX_OUTPUTS];
    uint32_t view_count;
    int64_t memory_bytes;
    uint32_t trial;         /* the one at work, or NO_TRIAL */
    /* Timer. */
    const jb_component *timer;
    jb_config *timer_config;
    PyObject *sides[2], *inputs[ROTATION];
    uint32_t rotation, turn[2];
    char device[64];
} runtime;

/* ---- what it is doing, as PROGRESS ------------------------------------- */

/* Takes `o`. */
static void tell(const runtime *r, cJSON *o)
{
    jb_buf text = JB_BUF_INIT(4096);
    if (jb_json_print(o, &text) == 0) {
        jb_view part = jb_buf_view(&text);
        (void)jb_frame_send(r->in->ctl, JB_FRAME_PROGRESS, &part, 1);
    }
    jb_buf_free(&text);
    cJSON_Delete(o);
}

static void announce(runtime *r, uint32_t trial, const char *doing)
{
    cJSON *o = cJSON_CreateObject();
    r->trial = trial;
    jb_json_set_i64(o, "trial", trial);
    jb_json_set_str(o, "doing", doing);
    tell(r, o);
}

/* A checker is about to be called: from here to the next PROGRESS, a death or a
 * hang is its own.  What follows its return is told as "judge". */
static void entering_checker(void *ctx, const char *checker, const char *plugin, const char *set, const char *call)
{
    const runtime *r = ctx;
    cJSON *o = cJSON_CreateObject();
    if (r->trial != NO_TRIAL) jb_json_set_i64(o, "trial", r->trial);
    jb_json_set_str(o, "doing", checker != NULL ? "checker" : "judge");
    if (checker != NULL) {
        jb_json_set_str(o, "checker", checker);
        jb_json_set_str(o, "plugin", plugin);
        jb_json_set_str(o, "gates", set);
        jb_json_set_str(o, "call", call);
    }
    tell(r, o);
}

/* ---- before the walls -------------------------------------------------- */

/* The worker can make a reference again; nobody else can. */
static void report_damage(const runtime *r, uint32_t trial, const jb_error *err)
{
    cJSON *o = cJSON_CreateObject(), *c = jb_json_add_obj(o, "child");
    jb_json_set_str(c, "status", "reference");
    jb_json_set_str(c, "reason", err->message);
    jb_json_set_i64(c, "trial", trial);
    (void)jb_kid_result(r->in->ctl, o);
    cJSON_Delete(o);
}

/* Map the references, or that of one trial alone where the child needs no other. */
static int open_refs(runtime *r, const cJSON *paths, jb_error *err)
{
    const cJSON *p;
    uint32_t i = 0;
    int64_t only = jb_json_i64(r->in->meta, "trial", -1);
    r->refs = jb_alloc_array(r->plan.trial_count + 1, sizeof *r->refs);
    if (r->refs == NULL) return jb_err(err, JB_ENOMEM, "out of memory");
    cJSON_ArrayForEach(p, paths) {
        if (i >= r->plan.trial_count) break;
        if (cJSON_IsString(p) && p->valuestring[0] != '\0' && (only < 0 || i == (uint32_t)only)) {
            int rc = jb_ref_open(p->valuestring, &r->refs[i], err);
            if (rc != 0) {
                report_damage(r, i, err);
                return rc;
            }
        }
        i++;
    }
    return 0;
}

static int find_timer(runtime *r, jb_error *err)
{
    const cJSON *row = cJSON_GetArrayItem(jb_json_obj(r->in->meta, "timers"), 0);
    const char *use = jb_json_str(row, "use", "");
    int rc = jb_registry_find(r->registry, JB_KIND_TIMER, use, &r->timer, err);
    if (rc == 0) rc = jb_config_new(r->timer, jb_json_obj(row, "options"), &r->timer_config, err);
    if (rc != 0) jb_err_context(err, "timer %s", use);
    return rc;
}

/* {"plan":{"groups":[bits,...]}}: what each trial's reference must hold. */
static void answer_plan(const runtime *r)
{
    cJSON *o = cJSON_CreateObject(), *groups = jb_json_add_arr(jb_json_add_obj(o, "plan"), "groups");
    for (uint32_t i = 0; i < r->plan.trial_count; i++) cJSON_AddItemToArray(groups, cJSON_CreateNumber(jb_gates_groups(&r->gates, i)));
    (void)jb_kid_result(r->in->ctl, o);
    cJSON_Delete(o);
}

int jb_runtime_prepare(void *self, jb_kid_input *in, jb_error *err)
{
    (void)self;
    if (in->kind != JB_KID_PLAN && in->kind != JB_KID_EXECUTOR && in->kind != JB_KID_TIMER) return 0;
    runtime *r = jb_alloc(sizeof *r);
    if (r == NULL) return jb_err(err, JB_ENOMEM, "out of memory");
    r->in = in;
    r->trial = NO_TRIAL;
    r->gates.watch = (jb_checker_watch){ .entering = entering_checker, .ctx = r };
    r->job = jb_json_obj(in->meta, "job");
    r->memory_bytes = (int64_t)jb_json_num(in->meta, "memory_bytes", 0);
    int checks = strcmp(jb_json_str(in->meta, "mode", "check"), "check") == 0;
    int rc = jb_plan_build(r->job, &r->plan, err);
    if (rc == 0) rc = jb_registry_open(jb_json_str(in->meta, "plugins", ""), &r->registry, err);
    if (rc == 0 && checks) rc = jb_gates_create(&r->plan, r->registry, &r->gates, err);
    if (rc == 0 && in->kind == JB_KID_TIMER) rc = find_timer(r, err);
    if (rc == 0 && in->kind != JB_KID_PLAN) rc = open_refs(r, jb_json_obj(in->meta, "refs"), err);
    const cJSON *coverage = jb_json_obj(in->meta, "coverage");
    r->has_inspection = coverage != NULL;
    jb_inspection_read(coverage, &r->inspection);
    if (rc == 0 && in->kind == JB_KID_PLAN) answer_plan(r);
    in->prepared = r;
    return rc;
}

/* ---- programs ---------------------------------------------------------- */

static void take_fault(jb_check_fault *fault, const char *what)
{
    char *line;
    jb_python_take_error(&line, &fault->error);
    fault->status = "fail";
    fault->outcome = "runtime-error";
    snprintf(fault->reason, sizeof fault->reason, "%s: %s", what, line != NULL ? line : "?");
    jb_free(line);
}

/* A cJSON array as Python objects, by way of Python's own parser. */
static PyObject *to_python(const cJSON *o)
{
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    PyObject *json = PyImport_ImportModule("json"), *value = NULL;
    if (json != NULL && o != NULL && jb_json_print(o, &text) == 0) value = PyObject_CallMethod(json, "loads", "s#", text.ptr, (Py_ssize_t)text.len);
    if (value == NULL && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the job does not describe this shape");
    jb_buf_free(&text);
    Py_XDECREF(json);
    return value;
}

/* Program(module, inputs, outputs) of `blob` as `shape` describes it. */
static PyObject *make_program(runtime *r, const jb_blob *blob, const char *shape)
{
    const cJSON *resolved = jb_json_obj(jb_json_path(r->job, "workload.shapes"), shape);
    PyObject *module = PyImport_ImportModule("jaxbench_harness.runtime"), *program = NULL;
    PyObject *inputs = to_python(jb_json_obj(resolved, "inputs")), *outputs = to_python(jb_json_obj(resolved, "outputs"));
    PyObject *bytes = PyBytes_FromStringAndSize(blob->bytes.ptr, (Py_ssize_t)blob->bytes.len);
    if (module != NULL && inputs != NULL && outputs != NULL && bytes != NULL)
        program = PyObject_CallMethod(module, "Program", "OOO", bytes, inputs, outputs);
    Py_XDECREF(bytes);
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    Py_XDECREF(module);
    return program;
}

/* XLA's own figure, where the program carries it: refuse before the kernel's
 * out-of-memory killer has to choose. */
static int within_memory(const runtime *r, PyObject *program, jb_check_fault *fault)
{
    PyObject *v = PyObject_GetAttrString(program, "peak_bytes");
    double peak = v != NULL && v != Py_None ? PyFloat_AsDouble(v) : 0;
    if (PyErr_Occurred()) PyErr_Clear();
    Py_XDECREF(v);
    if (r->memory_bytes <= 0 || peak <= (double)r->memory_bytes) return 1;
    snprintf(fault->reason, sizeof fault->reason, "the module needs %.2f GiB to run; this executor's limit is %.2f GiB", peak / 0x1p30,
             (double)r->memory_bytes / 0x1p30);
    fault->outcome = "runtime-error";
    return 0;
}

static PyObject *program_for(runtime *r, uint32_t trial, jb_check_fault *fault)
{
    const char *shape = r->plan.trials[trial].shape;
    char name[96];
    snprintf(name, sizeof name, "%s/cpu", shape);
    for (size_t i = 0; i < r->program_count; i++)
        if (strcmp(r->programs[i].name, name) == 0) return r->programs[i].object;
    const jb_blob *blob = jb_kid_blob(r->in, name);
    if (blob == NULL || r->program_count == MAX_PROGRAMS) {
        snprintf(fault->reason, sizeof fault->reason, "there is no CPU module at shape %s", shape);
        return NULL;
    }
    announce(r, trial, "compile");
    PyObject *p = make_program(r, blob, shape);
    if (p == NULL) {
        take_fault(fault, "the module does not compile for the CPU");
        return NULL;
    }
    if (!within_memory(r, p, fault)) {
        Py_DECREF(p);
        return NULL;
    }
    snprintf(r->programs[r->program_count].name, sizeof name, "%s", name);
    r->programs[r->program_count++].object = p;
    return p;
}

/* ---- arrays ------------------------------------------------------------ */

/* A read-only numpy view of a mapped tensor. */
static PyObject *view_of(const jb_tensor *t)
{
    PyObject *np = PyImport_ImportModule("numpy"), *flat = NULL, *shaped = NULL, *mem = NULL, *dims = PyTuple_New((Py_ssize_t)t->rank);
    static char nothing[1];
    union { const void *c; char *m; } data = { .c = t->data != NULL ? t->data : nothing };
    Py_ssize_t bytes = (Py_ssize_t)(t->count * (int64_t)jb_dtype_size(t->dtype));
    if (np != NULL && dims != NULL) mem = PyMemoryView_FromMemory(data.m, bytes, PyBUF_READ);
    for (uint32_t a = 0; dims != NULL && a < t->rank; a++) PyTuple_SET_ITEM(dims, (Py_ssize_t)a, PyLong_FromLongLong(t->dims[a]));
    PyObject *dtype = np != NULL ? PyObject_CallMethod(np, "dtype", "s", jb_dtype_name(t->dtype)) : NULL;
    if (mem != NULL && dtype != NULL && bytes > 0) flat = PyObject_CallMethod(np, "frombuffer", "OO", mem, dtype);
    if (mem != NULL && dtype != NULL && bytes == 0) flat = PyObject_CallMethod(np, "empty", "iO", 0, dtype);
    if (flat != NULL) shaped = PyObject_CallMethod(flat, "reshape", "O", dims);
    Py_XDECREF(flat);
    Py_XDECREF(dtype);
    Py_XDECREF(mem);
    Py_XDECREF(dims);
    Py_XDECREF(np);
    return shaped;
}

static PyObject *inputs_of(const jb_ref_file *ref)
{
    PyObject *list = PyList_New((Py_ssize_t)ref->count[JB_REF_INPUT]);
    for (uint32_t i = 0; list != NULL && i < ref->count[JB_REF_INPUT]; i++) {
        PyObject *v = view_of(&ref->tensors[JB_REF_INPUT][i]);
        if (v == NULL) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, v);
    }
    return list;
}

static void drop_outputs(runtime *r)
{
    for (uint32_t i = 0; i < r->view_count; i++) PyBuffer_Release(&r->views[i]);
    r->view_count = 0;
    Py_CLEAR(r->result);
}

static uint32_t dtype_code(const char *name)
{
    for (uint32_t d = JB_DT_BOOL; d <= JB_DT_F64; d++)
        if (strcmp(name, jb_dtype_name(d)) == 0) return d;
    return 0; /* a type checkers don't know: shape_dtype says so */
}

/* The true name of output `i`: Program.dtypes keeps it where the array had to be
 * viewed as integers for the buffer protocol. */
static uint32_t output_dtype(PyObject *program, PyObject *array, uint32_t i)
{
    uint32_t code = 0;
    PyObject *names = PyObject_GetAttrString(program, "dtypes");
    PyObject *item = names != NULL ? PySequence_GetItem(names, (Py_ssize_t)i) : NULL;
    PyObject *dtype = NULL, *text = NULL;
    if (item == NULL) {
        PyErr_Clear();
        dtype = PyObject_GetAttrString(array, "dtype");
        item = dtype != NULL ? PyObject_GetAttrString(dtype, "name") : NULL;
    }
    text = item != NULL ? PyObject_Str(item) : NULL;
    const char *s = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    if (s != NULL) code = dtype_code(s);
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(item);
    Py_XDECREF(dtype);
    Py_XDECREF(names);
    return code;
}

/* The buffer of one array; extension types (bfloat16) have none, so they are
 * viewed as integers of their width. */
static int get_buffer(PyObject *array, Py_buffer *view)
{
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_ND) == 0) return 0;
    PyErr_Clear();
    PyObject *dtype = PyObject_GetAttrString(array, "dtype"), *size = dtype != NULL ? PyObject_GetAttrString(dtype, "itemsize") : NULL;
    long n = size != NULL ? PyLong_AsLong(size) : -1;
    const char *as = n == 1 ? "uint8" : n == 2 ? "uint16" : n == 4 ? "uint32" : "uint64";
    PyErr_Clear();
    PyObject *ints = PyObject_CallMethod(array, "view", "s", as);
    int rc = ints != NULL ? PyObject_GetBuffer(ints, view, PyBUF_C_CONTIGUOUS | PyBUF_ND) : -1;
    Py_XDECREF(ints); /* the buffer holds what it needs */
    Py_XDECREF(size);
    Py_XDECREF(dtype);
    return rc;
}

static int take_output(runtime *r, PyObject *program, uint32_t i)
{
    PyObject *array = PySequence_GetItem(r->result, (Py_ssize_t)i);
    Py_buffer *view = &r->views[i];
    jb_tensor *t = &r->tensors[i];
    if (array == NULL || get_buffer(array, view) != 0) {
        Py_XDECREF(array);
        return -1;
    }
    r->view_count = i + 1;
    memset(t, 0, sizeof *t);
    t->struct_size = sizeof *t;
    t->dtype = output_dtype(program, array, i);
    t->count = 1;
    if (view->ndim > JB_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "output %u has %d axes; at most %d are supported", i, view->ndim, JB_MAX_RANK);
        Py_DECREF(array);
        return -1;
    }
    t->rank = (uint32_t)view->ndim;
    for (int a = 0; a < view->ndim; a++) {
        t->dims[a] = (int64_t)view->shape[a];
        t->count *= t->dims[a];
    }
    t->data = t->count > 0 ? view->buf : NULL;
    /* A type whose width is not the buffer's must not be read as it. */
    if (t->dtype != 0 && (int64_t)jb_dtype_size(t->dtype) * t->count != (int64_t)view->len) t->dtype = 0;
    Py_DECREF(array);
    return 0;
}

/* ---- the check --------------------------------------------------------- */

static const jb_ref_file *reference(void *ctx, uint32_t i)
{
    runtime *r = ctx;
    return r->refs[i].map != NULL ? &r->refs[i] : NULL;
}

static int execute(void *ctx, uint32_t i, const jb_ref_file *ref, const jb_tensor **outputs, uint32_t *count, jb_check_fault *fault)
{
    runtime *r = ctx;
    PyObject *program = program_for(r, i, fault), *inputs;
    if (program == NULL) return -1;
    announce(r, i, "run");
    drop_outputs(r);
    inputs = inputs_of(ref);
    r->result = inputs != NULL ? PyObject_CallMethod(program, "run", "O", inputs) : NULL;
    Py_XDECREF(inputs);
    Py_ssize_t n = r->result != NULL ? PySequence_Size(r->result) : -1;
    if (n > MAX_OUTPUTS) PyErr_Format(PyExc_ValueError, "the module has %zd outputs; at most %d are supported", n, MAX_OUTPUTS);
    for (Py_ssize_t k = 0; n >= 0 && n <= MAX_OUTPUTS && k < n; k++)
        if (take_output(r, program, (uint32_t)k) != 0) n = -1;
    if (n < 0 || n > MAX_OUTPUTS) {
        take_fault(fault, "the module fails at run time");
        return -1;
    }
    *outputs = r->tensors;
    *count = (uint32_t)n;
    return 0;
}

/* The reference's own module on the trial in which a candidate's died. */
static int verify(runtime *r)
{
    uint32_t i = (uint32_t)jb_json_i64(r->in->meta, "trial", 0), count = 0;
    const jb_tensor *outputs = NULL;
    jb_check_fault fault = { .status = "fail" };
    const jb_ref_file *ref = i < r->plan.trial_count ? reference(r, i) : NULL;
    int rc = ref != NULL ? execute(r, i, ref, &outputs, &count, &fault) : -1;
    cJSON *o = cJSON_CreateObject(), *v = jb_json_add_obj(o, "verify");
    jb_json_set_str(v, "status", rc == 0 ? "ok" : "fail");
    jb_json_set_str(v, "reason", fault.reason);
    rc = jb_kid_result(r->in->ctl, o);
    cJSON_Delete(o);
    jb_free(fault.error);
    return rc == 0 ? 0 : 1;
}

int jb_runtime_check(jb_kid_input *in)
{
    runtime *r = in->prepared;
    if (strcmp(jb_json_str(in->meta, "mode", "check"), "verify") == 0) return verify(r);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    jb_check_source src = { .ctx = r, .execute = execute, .reference = reference, .inspection = r->has_inspection ? &r->inspection : NULL,
                            .slice_axes = (uint32_t)jb_json_i64(jb_json_obj(r->job, "workload"), "slice_axes", 1) };
    cJSON *record = jb_checks_run(&r->gates, &src);
    clock_gettime(CLOCK_MONOTONIC, &b);
    cJSON *check = cJSON_GetObjectItemCaseSensitive(record, "check");
    if (check != NULL) jb_json_set_num(check, "seconds", (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
    int rc = record != NULL ? jb_kid_result(in->ctl, record) : -1;
    cJSON_Delete(record);
    jb_python_flush();
    return rc == 0 ? 0 : 1;
}

/* ---- the timer --------------------------------------------------------- */

static runtime *timing_runtime(const jb_host *host) { return ((jb_harness_host *)host->ctx)->device_ctx; }

static int64_t now_ns(const jb_host *host)
{
    struct timespec t;
    (void)host;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const char *device_name(const jb_host *host) { return timing_runtime(host)->device; }

/* Program.run returns host arrays, so every output is ready when it returns. */
static int device_run(const jb_host *host, uint32_t side, int64_t *elapsed_ns, jb_error *err)
{
    runtime *r = timing_runtime(host);
    if (side > JB_SIDE_CANDIDATE) return jb_err(err, JB_EINVAL, "device/1: side %u is neither baseline nor candidate", side);
    PyObject *inputs = r->inputs[r->turn[side]++ % r->rotation];
    int64_t t0 = now_ns(host);
    PyObject *out = PyObject_CallMethod(r->sides[side], "run", "O", inputs);
    int64_t t1 = now_ns(host);
    if (elapsed_ns != NULL) *elapsed_ns = t1 - t0;
    if (out != NULL) {
        Py_DECREF(out);
        return 0;
    }
    char *line, *traceback;
    jb_python_take_error(&line, &traceback);
    jb_err(err, JB_EIO, "the %s failed while it was timed: %s", side == JB_SIDE_BASELINE ? "baseline" : "candidate", line != NULL ? line : "?");
    jb_free(line);
    jb_free(traceback);
    return JB_EIO;
}

/* The first list views the file, the others are copies: a cache can't hold all. */
static int rotate_inputs(runtime *r, const jb_ref_file *ref)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < ref->count[JB_REF_INPUT]; i++) bytes += ref->tensors[JB_REF_INPUT][i].count * (int64_t)jb_dtype_size(ref->tensors[JB_REF_INPUT][i].dtype);
    uint32_t want = bytes * ROTATION <= ROTATION_BYTES ? ROTATION : 1;
    for (uint32_t k = 0; k < want; k++) {
        PyObject *list = inputs_of(ref);
        for (Py_ssize_t i = 0; list != NULL && k > 0 && i < PyList_GET_SIZE(list); i++) {
            PyObject *copy = PyObject_CallMethod(PyList_GET_ITEM(list, i), "copy", NULL);
            if (copy == NULL || PyList_SetItem(list, i, copy) != 0) Py_CLEAR(list);
        }
        if (list == NULL) return -1;
        r->inputs[r->rotation++] = list;
    }
    return 0;
}

static void put_samples(cJSON *o, const char *key, const double *s, uint32_t n)
{
    cJSON *a = jb_json_add_arr(o, key);
    for (uint32_t i = 0; i < n; i++) cJSON_AddItemToArray(a, isfinite(s[i]) ? cJSON_CreateNumber(s[i] * 1e6) : cJSON_CreateString("nan"));
}

static cJSON *timing_json(jb_timing *t, int interpreted)
{
    cJSON *o = cJSON_CreateObject(), *timing = jb_json_add_obj(o, "timing");
    if (t->sample_count > t->capacity) t->sample_count = t->capacity;
    t->source[sizeof t->source - 1] = '\0';
    int good = t->baseline_median_s > 0 && t->candidate_median_s > 0 && isfinite(t->baseline_median_s) && isfinite(t->candidate_median_s);
    const char *status = (t->flags & JB_TIMING_IMPLAUSIBLE) || !good ? "implausible" : interpreted || (t->flags & JB_TIMING_INTERPRETED) ? "n/a" : "ok";
    jb_json_set_str(timing, "status", status);
    jb_json_set_str(timing, "kind", (t->flags & JB_TIMING_MEASURED) ? "measurement" : "estimate");
    jb_json_set_str(timing, "source", t->source);
    jb_json_set_bool(timing, "interpreted", interpreted || (t->flags & JB_TIMING_INTERPRETED) != 0);
    put_samples(timing, "baseline_us", t->baseline_s, t->sample_count);
    put_samples(timing, "candidate_us", t->candidate_s, t->sample_count);
    jb_json_set_num(timing, "baseline_median_us", t->baseline_median_s * 1e6);
    jb_json_set_num(timing, "candidate_median_us", t->candidate_median_s * 1e6);
    jb_json_set_str(jb_json_add_obj(o, "time"), "status", "ok");
    return o;
}

static int measure(runtime *r, const char *shape)
{
    static double samples[2][TIMER_SAMPLES];
    static const jb_device_service device = { .struct_size = sizeof device, .interpreted = 1, .name = device_name, .run = device_run, .now = now_ns };
    jb_timing t = { .struct_size = sizeof t, .capacity = TIMER_SAMPLES, .baseline_s = samples[0], .candidate_s = samples[1] };
    jb_error err = JB_ERROR_INIT;
    jb_harness_host host;
    void *self = NULL;
    const jb_timer_ops *ops = r->timer->ops;
    snprintf(r->device, sizeof r->device, "cpu, shape %.40s", shape);
    int rc = jb_harness_host_init(&host, r->timer->name, "timer");
    host.device = &device;
    host.device_ctx = r;
    if (rc == 0) rc = ops->create(&host.host, jb_config_data(r->timer_config), &self, &err);
    if (rc == 0) rc = ops->measure(self, &t, &err);
    if (rc != 0) {
        char reason[700];
        snprintf(reason, sizeof reason, "timer %s: %s", r->timer->name, err.message[0] != '\0' ? err.message : "no message");
        return jb_kid_fail(r->in->ctl, "exception", reason, NULL) == 0 ? 1 : 2;
    }
    if (ops->destroy != NULL) ops->destroy(self);
    cJSON *o = timing_json(&t, 1);
    jb_json_set_str(cJSON_GetObjectItemCaseSensitive(o, "timing"), "timer", r->timer->name);
    jb_json_set_str(cJSON_GetObjectItemCaseSensitive(o, "timing"), "shape", shape);
    jb_json_set_str(cJSON_GetObjectItemCaseSensitive(o, "timing"), "device", "cpu");
    rc = jb_kid_result(r->in->ctl, o);
    cJSON_Delete(o);
    return rc == 0 ? 0 : 2;
}

int jb_runtime_time(jb_kid_input *in)
{
    runtime *r = in->prepared;
    uint32_t i = (uint32_t)jb_json_i64(in->meta, "trial", 0);
    const jb_ref_file *ref = i < r->plan.trial_count ? reference(r, i) : NULL;
    const jb_blob *candidate = jb_kid_blob(in, "candidate"), *baseline = NULL;
    for (size_t k = 0; k < in->blob_count; k++)
        if (&in->blobs[k] != candidate) baseline = &in->blobs[k];
    if (ref == NULL || candidate == NULL || baseline == NULL) {
        (void)jb_kid_fail(in->ctl, "infra", "the timer got no inputs or no baseline", NULL);
        return 1;
    }
    const char *shape = r->plan.trials[i].shape;
    r->sides[JB_SIDE_BASELINE] = make_program(r, baseline, shape);
    r->sides[JB_SIDE_CANDIDATE] = r->sides[JB_SIDE_BASELINE] != NULL ? make_program(r, candidate, shape) : NULL;
    if (r->sides[JB_SIDE_CANDIDATE] == NULL || rotate_inputs(r, ref) != 0) return jb_python_exception(in->ctl, "exception");
    return measure(r, shape);
}
