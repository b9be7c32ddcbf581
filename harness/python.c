/* SPDX-License-Identifier: Apache-2.0 */
/* harness/python.c - starting the interpreter in the zygote, calling the Python
 * entry points in its children, and the audit hook of a tracer.  See python.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "harness/python.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "harness/frameio.h"
#include "harness/refs.h"

#include <dirent.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Set before the interpreter starts; everything else is cleared, keys above all.
 * JAX_PLATFORMS: unset, with libtpu installed and no network, start-up can hang
 * for minutes.  OPENBLAS_NUM_THREADS=1 keeps the zygote at one thread. */
static const char *const ENVIRONMENT[][2] = {
    { "JAX_PLATFORMS", "cpu" },          { "OPENBLAS_NUM_THREADS", "1" }, { "TPU_SKIP_MDS_QUERY", "1" },
    { "TPU_ACCELERATOR_TYPE", "v6e-1" }, { "TPU_WORKER_HOSTNAMES", "localhost" }, { "ALLOW_MULTIPLE_LIBTPU_LOAD", "1" },
    { "TF_CPP_MIN_LOG_LEVEL", "2" },     { "HOME", "/tmp" },              { "TMPDIR", "/tmp" },
    { "LANG", "C.UTF-8" },               { "PATH", "/usr/bin:/bin" },
};

static const char *const PRELOAD[] = { "jax", "jax.numpy", "jax.experimental.pallas", "jax.experimental.pallas.tpu", "jax.export",
                                       "jax.experimental.topologies", "numpy", "ml_dtypes", "traceback", "flatbuffers" };
static const char *const MODULES[] = { "tracer", "inspector", "compiler", "reference", "runtime" };

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

const char *jb_python_compiled(void) { return PY_VERSION; }

extern char **environ;

void jb_python_environment(void)
{
    /* clearenv drops pointers; the strings stay on the stack of this process and
     * of every candidate forked from it.  A key must not. */
    for (char **e = environ; e != NULL && *e != NULL; e++) explicit_bzero(*e, strlen(*e));
    clearenv();
    for (size_t i = 0; i < COUNT(ENVIRONMENT); i++) setenv(ENVIRONMENT[i][0], ENVIRONMENT[i][1], 1);
    /* Address space, not memory: an arena per thread reserves 64 MiB each, and a
     * tracer lives under RLIMIT_AS. */
    (void)mallopt(M_ARENA_MAX, 2);
}

/* ---- errors ------------------------------------------------------------ */

static char *text_of(PyObject *o)
{
    PyObject *s = o != NULL ? PyObject_Str(o) : NULL;
    Py_ssize_t n = 0;
    const char *u = s != NULL ? PyUnicode_AsUTF8AndSize(s, &n) : NULL;
    char *copy = u != NULL ? jb_strndup(u, (size_t)n) : NULL;
    if (u == NULL) PyErr_Clear();
    Py_XDECREF(s);
    return copy;
}

/* The traceback as text, through Python's own module; NULL when even that fails. */
static char *format_traceback(PyObject *type, PyObject *value, PyObject *tb)
{
    PyObject *module = PyImport_ImportModule("traceback");
    PyObject *lines = module != NULL ? PyObject_CallMethod(module, "format_exception", "OOO", type, value != NULL ? value : Py_None, tb != NULL ? tb : Py_None) : NULL;
    PyObject *empty = PyUnicode_FromString(""), *joined = lines != NULL && empty != NULL ? PyUnicode_Join(empty, lines) : NULL;
    char *text = joined != NULL ? text_of(joined) : NULL;
    if (joined == NULL) PyErr_Clear();
    Py_XDECREF(joined);
    Py_XDECREF(empty);
    Py_XDECREF(lines);
    Py_XDECREF(module);
    return text;
}

void jb_python_take_error(char **line, char **traceback)
{
    PyObject *type = NULL, *value = NULL, *tb = NULL;
    *line = *traceback = NULL;
    PyErr_Fetch(&type, &value, &tb);
    if (type == NULL) {
        *line = jb_strdup("no exception was set");
        return;
    }
    PyErr_NormalizeException(&type, &value, &tb);
    if (tb != NULL) (void)PyException_SetTraceback(value, tb);
    char *message = text_of(value);
    const char *name = PyType_Check(type) ? ((PyTypeObject *)type)->tp_name : "exception";
    *line = message != NULL && message[0] != '\0' ? jb_asprintf("%s: %s", name, message) : jb_strdup(name);
    *traceback = format_traceback(type, value, tb);
    jb_free(message);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
}

int jb_python_exception(int ctl, const char *status)
{
    char *line, *traceback;
    jb_python_take_error(&line, &traceback);
    jb_python_flush();
    (void)jb_kid_fail(ctl, status, line != NULL ? line : "an exception", traceback);
    jb_free(line);
    jb_free(traceback);
    return 1;
}

void jb_python_flush(void)
{
    static const char *const names[] = { "stdout", "stderr" };
    for (size_t i = 0; i < COUNT(names); i++) {
        PyObject *f = PySys_GetObject(names[i]); /* borrowed; candidate code may have replaced it */
        PyObject *r = f != NULL && f != Py_None ? PyObject_CallMethod(f, "flush", NULL) : NULL;
        if (r == NULL) PyErr_Clear();
        Py_XDECREF(r);
    }
}

/* ---- starting ---------------------------------------------------------- */

/* The venv must be of the Python we were compiled against, to the patch level:
 * its extension modules load into this process. */
static int check_venv(const char *executable, jb_error *err)
{
    char *bin = jb_fs_dirname(executable), *venv = bin != NULL ? jb_fs_dirname(bin) : NULL;
    char *path = venv != NULL ? jb_fs_join(venv, "pyvenv.cfg") : NULL;
    jb_buf text = JB_BUF_INIT(65536);
    int rc = 0;
    if (!jb_fs_exists(executable)) {
        rc = jb_err(err, JB_ENOTFOUND, "the interpreter %s does not exist", executable);
        jb_err_hint(err, "run ./quickstart once, or configure with -DJAXBENCH_PYTHON=<venv>/bin/python");
    } else if (path != NULL && jb_fs_read(path, 65536, &text, NULL) == 0 && text.ptr != NULL) {
        const char *v = strstr(text.ptr, "version = ");
        if (v != NULL) {
            v += strlen("version = ");
            size_t n = strcspn(v, " \r\n");
            if (n != strlen(PY_VERSION) || strncmp(v, PY_VERSION, n) != 0) {
                rc = jb_err(err, JB_EABI, "%s is a venv of Python %.*s, and jaxbench-worker was compiled for %s", venv, (int)n, v, PY_VERSION);
                jb_err_hint(err, "configure again with -DJAXBENCH_PYTHON=<the venv's python> and rebuild");
            }
        }
    }
    jb_buf_free(&text);
    jb_free(path);
    jb_free(venv);
    jb_free(bin);
    return rc;
}

static int initialise(const char *executable, jb_error *err)
{
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.install_signal_handlers = 0;
    config.write_bytecode = 0;
    /* Equal sources must give equal modules in every worker. */
    config.use_hash_seed = 1;
    config.hash_seed = 0;
    PyStatus s = PyConfig_SetBytesString(&config, &config.executable, executable);
    if (!PyStatus_Exception(s)) s = PyConfig_SetBytesString(&config, &config.program_name, executable);
    if (!PyStatus_Exception(s)) s = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(s)) {
        jb_err(err, JB_EINTERNAL, "the interpreter of %s did not start: %s", executable, s.err_msg != NULL ? s.err_msg : "no message");
        return jb_err_hint(err, "`jaxbench doctor` shows both versions; configure again with -DJAXBENCH_PYTHON=<venv>/bin/python");
    }
    const char *v = Py_GetVersion();
    size_t n = strcspn(v, " ");
    if (n == strlen(PY_VERSION) && strncmp(v, PY_VERSION, n) == 0) return 0;
    jb_err(err, JB_EABI, "libpython is %.*s at run time and was %s when jaxbench-worker was compiled", (int)n, v, PY_VERSION);
    return jb_err_hint(err, "rebuild: cmake --build build");
}

static int add_to_path(const char *dir)
{
    PyObject *path = PySys_GetObject("path"), *o = PyUnicode_DecodeFSDefault(dir);
    int rc = path != NULL && o != NULL ? PyList_Append(path, o) : -1;
    Py_XDECREF(o);
    return rc;
}

static int import_all(jb_python *p, jb_error *err)
{
    p->modules = cJSON_CreateObject();
    for (size_t i = 0; i < COUNT(PRELOAD); i++) {
        PyObject *m = PyImport_ImportModule(PRELOAD[i]);
        Py_XDECREF(m);
        if (m != NULL) continue;
        char *line, *traceback;
        jb_python_take_error(&line, &traceback);
        jb_err(err, JB_ENOTFOUND, "import %s failed: %s", PRELOAD[i], line != NULL ? line : "?");
        jb_err_hint(err, "the venv is incomplete: run ./quickstart, which installs harness/requirements.lock");
        jb_free(line);
        jb_free(traceback);
        return JB_ENOTFOUND;
    }
    for (size_t i = 0; i < COUNT(MODULES); i++) {
        char name[64];
        snprintf(name, sizeof name, "jaxbench_harness.%s", MODULES[i]);
        PyObject *m = PyImport_ImportModule(name);
        Py_XDECREF(m);
        if (m != NULL) {
            jb_json_set_str(p->modules, MODULES[i], "ok");
            continue;
        }
        char *line, *traceback;
        jb_python_take_error(&line, &traceback);
        char *why = jb_asprintf("%s of %s can't be imported: %s", name, p->harness, line != NULL ? line : "?");
        if (traceback != NULL) fprintf(stderr, "jaxbench-worker: %s\n%s", why != NULL ? why : name, traceback);
        jb_json_set_str(p->modules, MODULES[i], why != NULL ? why : "out of memory");
        jb_free(why);
        jb_free(line);
        jb_free(traceback);
    }
    return 0;
}

static int count_threads(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    if (d == NULL) return 1;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Evaluate one expression to text; NULL when it raises. */
static char *evaluate(const char *code)
{
    PyObject *globals = PyDict_New(), *value = NULL;
    if (globals != NULL && PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0)
        value = PyRun_String(code, Py_eval_input, globals, globals);
    char *text = value != NULL ? text_of(value) : NULL;
    if (value == NULL) PyErr_Clear();
    Py_XDECREF(value);
    Py_XDECREF(globals);
    return text;
}

/* Fork is safe with one thread and no backend only. */
static int assert_forkable(jb_error *err)
{
    int threads = count_threads();
    if (threads != 1) return jb_err(err, JB_ESTATE, "the zygote has %d threads after its imports; 1 is needed to fork safely", threads);
    char *started = evaluate("bool(__import__('jax._src.xla_bridge', fromlist=['x'])._backends)");
    int rc = started != NULL && strcmp(started, "False") != 0
                 ? jb_err(err, JB_ESTATE, "an import started a JAX backend in the zygote: a module runs JAX at import time") : 0;
    jb_free(started);
    return rc;
}

/* ---- what identifies us ------------------------------------------------ */

static void hash_folder(jb_hasher *h, const char *dir, int depth)
{
    char **names = NULL;
    int64_t count = depth < 4 ? jb_fs_list(dir, &names) : -1;
    for (int64_t i = 0; i < count; i++) {
        char *path = jb_fs_join(dir, names[i]), sum[65];
        size_t n = strlen(names[i]);
        if (path != NULL && jb_fs_is_dir(path) && strcmp(names[i], "__pycache__") != 0)
            hash_folder(h, path, depth + 1);
        else if (path != NULL && n > 3 && strcmp(names[i] + n - 3, ".py") == 0 && jb_hash_file(path, sum, NULL) == 0)
            jb_hasher_field(h, names[i], sum, 64);
        jb_free(path);
    }
    if (count >= 0) jb_fs_list_free(names, count);
}

static void hash_harness(jb_python *p)
{
    jb_hasher *h = jb_hasher_new();
    char *package = jb_fs_join(p->harness, "jaxbench_harness");
    if (h == NULL) {
        jb_free(package);
        return;
    }
    jb_hasher_field(h, "version", JB_VERSION, strlen(JB_VERSION));
    if (package != NULL) hash_folder(h, package, 0);
    jb_hasher_done(h, p->harness_hash);
    jb_free(package);
}

/* What a sandbox binds: the standard library, the venv's packages, our package. */
static int collect_paths(jb_python *p)
{
    static const char *const code[] = {
        "__import__('sysconfig').get_paths()['stdlib']",  "__import__('sysconfig').get_paths()['platstdlib']",
        "__import__('sysconfig').get_paths()['purelib']", "__import__('sysconfig').get_paths()['platlib']",
        "__import__('sysconfig').get_config_var('LIBDIR')", "__import__('sysconfig').get_config_var('DESTSHARED')",
    };
    const char *extra[COUNT(code) + 1];
    for (size_t i = 0; i < COUNT(code); i++) extra[i] = evaluate(code[i]);
    char *package = jb_fs_join(p->harness, "jaxbench_harness");
    extra[COUNT(code)] = package;
    int rc = jb_sandbox_paths_init(&p->paths, extra, COUNT(extra));
    for (size_t i = 0; i < COUNT(code); i++) {
        union { const char *c; char *m; } u = { .c = extra[i] };
        jb_free(u.m);
    }
    jb_free(package);
    return rc;
}

static int write_ready(jb_python *p)
{
    static const char *const versions[][2] = {
        { "jax", "__import__('jax').__version__" },
        { "jaxlib", "__import__('jaxlib').__version__" },
        { "libtpu", "__import__('importlib.metadata', fromlist=['x']).version('libtpu')" },
        { "numpy", "__import__('numpy').__version__" },
    };
    cJSON *o = cJSON_CreateObject();
    jb_buf text = JB_BUF_INIT((120u << 10));
    jb_json_set_i64(o, "schema", 1);
    jb_json_set_str(o, "worker", JB_VERSION);
    jb_json_set_str(o, "python", PY_VERSION);
    for (size_t i = 0; i < COUNT(versions); i++) {
        char *v = evaluate(versions[i][1]);
        if (v != NULL)
            jb_json_set_str(o, versions[i][0], v);
        else
            cJSON_AddNullToObject(o, versions[i][0]);
        jb_free(v);
    }
    jb_json_set_str(o, "device", "cpu");
    jb_json_set_str(o, "harness", p->harness_hash);
    cJSON_AddItemToObject(o, "modules", cJSON_Duplicate(p->modules, 1));
    int rc = jb_json_print(o, &text);
    p->ready = rc == 0 ? jb_buf_detach(&text) : NULL;
    jb_buf_free(&text);
    cJSON_Delete(o);
    return p->ready != NULL ? 0 : JB_ENOMEM;
}

int jb_python_start(jb_python *p, const char *executable, const char *harness, jb_error *err)
{
    memset(p, 0, sizeof *p);
    p->executable = jb_strdup(executable);
    p->harness = jb_strdup(harness);
    if (p->executable == NULL || p->harness == NULL) return jb_err(err, JB_ENOMEM, "out of memory");
    int rc = check_venv(executable, err);
    if (rc == 0) rc = initialise(executable, err);
    if (rc != 0) return rc;
    if (add_to_path(harness) != 0) return jb_err(err, JB_ENOMEM, "out of memory");
    rc = import_all(p, err);
    if (rc == 0) rc = assert_forkable(err);
    if (rc != 0) return rc;
    /* Objects alive now are never collected: children share their pages. */
    char *frozen = evaluate("[g := __import__('gc'), g.collect(), g.freeze()]");
    jb_free(frozen);
    hash_harness(p);
    if (collect_paths(p) != 0 || write_ready(p) != 0) return jb_err(err, JB_ENOMEM, "out of memory");
    return 0;
}

char *jb_python_ready(void *self)
{
    jb_python *p = self;
    return jb_strdup(p->ready);
}

/* ---- the audit hook of a tracer ---------------------------------------- */

/* Events and what they are called in a flag.  A signal, never the barrier: by
 * the time they are raised the kernel has refused or will refuse the act. */
static const struct { const char *event; uint32_t note; } EVENTS[] = {
    { "socket.", JB_NOTE_NETWORK },   { "urllib.", JB_NOTE_NETWORK },      { "http.", JB_NOTE_NETWORK },    { "ftplib.", JB_NOTE_NETWORK },
    { "smtplib.", JB_NOTE_NETWORK },  { "subprocess.Popen", JB_NOTE_PROCESS }, { "os.exec", JB_NOTE_PROCESS }, { "os.system", JB_NOTE_PROCESS },
    { "os.spawn", JB_NOTE_PROCESS },  { "os.posix_spawn", JB_NOTE_PROCESS }, { "os.fork", JB_NOTE_PROCESS },  { "os.kill", JB_NOTE_PROCESS },
    { "pty.spawn", JB_NOTE_PROCESS }, { "ctypes.dlopen", JB_NOTE_LIBRARY },
};
/* Events whose first argument is a path. */
static const char *const PATHS[] = { "open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir", "os.chmod", "os.link", "os.symlink", "os.truncate", "os.walk", "shutil.", "glob." };

typedef struct audit {
    jb_notes *notes;
    const jb_sandbox_paths *paths;
    const char *harness; /* on sys.path, so the import system lists it: there is nothing to see */
} audit;

static void take_note(jb_notes *n, uint32_t which, const char *detail)
{
    if (n->seen[which]++ == 0) snprintf(n->detail[which], sizeof n->detail[which], "%s", detail);
}

static int starts(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

/* The first argument as an absolute path; 0 when it is no path (a descriptor). */
static int path_argument(PyObject *args, char *out, size_t n)
{
    PyObject *first = PyTuple_Check(args) && PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : NULL;
    const char *text = NULL;
    if (first == NULL) return 0;
    if (PyUnicode_Check(first)) text = PyUnicode_AsUTF8(first);
    if (PyBytes_Check(first)) text = PyBytes_AS_STRING(first);
    if (text == NULL) {
        PyErr_Clear();
        return 0;
    }
    return snprintf(out, n, "%s%s", text[0] == '/' ? "" : "/tmp/", text) > 0;
}

static int hook(const char *event, PyObject *args, void *data)
{
    const audit *a = data;
    char path[200];
    for (size_t i = 0; i < COUNT(EVENTS); i++)
        if (starts(event, EVENTS[i].event)) {
            char what[200] = "";
            if (EVENTS[i].note == JB_NOTE_LIBRARY) {
                if (!path_argument(args, what, sizeof what)) return 0; /* the program itself */
                const char *base = strrchr(what, '/');
                if (jb_sandbox_allows(a->paths, what) || (base != NULL && starts(base, "/lib"))) return 0;
            }
            take_note(a->notes, EVENTS[i].note, what[0] != '\0' ? what : event);
            return 0;
        }
    for (size_t i = 0; i < COUNT(PATHS); i++)
        if (starts(event, PATHS[i])) {
            if (path_argument(args, path, sizeof path) && !jb_sandbox_allows(a->paths, path) && strcmp(path, a->harness) != 0)
                take_note(a->notes, JB_NOTE_FILE, path);
            return 0;
        }
    return 0;
}

/* ---- entry points ------------------------------------------------------ */

static int emit_fd = -1;        /* one child, one socket */
static int emit_holds;          /* a reference child: the result waits until its file is sealed */
static jb_buf emit_held = JB_BUF_INIT(1 << 20);

static PyObject *emit(PyObject *self, PyObject *args)
{
    int kind, rc = -1;
    const char *name, *data;
    Py_ssize_t name_len, len;
    (void)self;
    if (!PyArg_ParseTuple(args, "is#y#", &kind, &name, &name_len, &data, &len)) return NULL;
    if (kind == (int)JB_FRAME_MODULE) {
        uint8_t n[4];
        jb_put_le32(n, (uint32_t)name_len);
        jb_view parts[3] = { { (const char *)n, 4 }, { name, (uint64_t)name_len }, { data, (uint64_t)len } };
        rc = jb_frame_send(emit_fd, JB_FRAME_MODULE, parts, 3);
    } else if (kind == (int)JB_FRAME_RESULT && emit_holds) {
        jb_buf_free(&emit_held);
        emit_held = (jb_buf)JB_BUF_INIT(1 << 20);
        rc = jb_buf_append(&emit_held, data, (size_t)len);
    } else if (kind == (int)JB_FRAME_RESULT || kind == (int)JB_FRAME_PROGRESS) {
        jb_view part = { data, (uint64_t)len };
        rc = jb_frame_send(emit_fd, (uint32_t)kind, &part, 1);
    } else {
        return PyErr_Format(PyExc_ValueError, "emit: kind %d is neither MODULE (33), RESULT (32) nor PROGRESS (17)", kind);
    }
    if (rc != 0) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyMethodDef EMIT = { "emit", emit, METH_VARARGS, "emit(kind, name, data): send one frame to the worker" };

static PyObject *json_text(const cJSON *o)
{
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    PyObject *s = jb_json_print(o, &text) == 0 ? PyUnicode_DecodeUTF8(text.ptr, (Py_ssize_t)text.len, "replace") : PyErr_NoMemory();
    jb_buf_free(&text);
    return s;
}

static PyObject *blob_bytes(const jb_blob *b)
{
    return PyBytes_FromStringAndSize(b != NULL ? b->bytes.ptr : "", b != NULL ? (Py_ssize_t)b->bytes.len : 0);
}

static PyObject *blob_dict(const jb_kid_input *in)
{
    PyObject *d = PyDict_New();
    for (size_t i = 0; d != NULL && i < in->blob_count; i++) {
        PyObject *k = PyUnicode_FromStringAndSize(in->blobs[i].name.ptr, (Py_ssize_t)in->blobs[i].name.len);
        PyObject *v = blob_bytes(&in->blobs[i]);
        if (k == NULL || v == NULL || PyDict_SetItem(d, k, v) != 0) Py_CLEAR(d);
        Py_XDECREF(k);
        Py_XDECREF(v);
    }
    return d;
}

/* The second argument of a kind's main(). */
static PyObject *second_argument(const jb_kid_input *in)
{
    switch (in->kind) {
    case JB_KID_TRACER: return blob_bytes(jb_kid_blob(in, "source"));
    case JB_KID_INSPECTOR: return blob_dict(in);
    case JB_KID_COMPILER: return blob_bytes(in->blob_count > 0 ? &in->blobs[0] : NULL);
    default: return PyUnicode_FromString(jb_json_str(in->meta, "out", ""));
    }
}

/* Seal what a reference child wrote, then pass its result on: or the reason why
 * the file did not get to the disk. */
static int finish_reference(jb_kid_input *in)
{
    jb_error err = JB_ERROR_INIT;
    const char *out = jb_json_str(in->meta, "out", "");
    cJSON *said = emit_held.len > 0 ? jb_json_parse(emit_held.ptr, emit_held.len, NULL) : NULL;
    int base = strcmp(jb_json_str(jb_json_obj(in->meta, "request"), "kind", ""), "base") == 0, rc = 0;
    if (strcmp(jb_json_str(jb_json_obj(said, "reference"), "status", ""), "ok") == 0) rc = base ? jb_ref_sync(out, &err) : jb_ref_seal(out, &err);
    if (rc != 0) {
        cJSON_Delete(said);
        said = cJSON_CreateObject();
        cJSON *reference = jb_json_add_obj(said, "reference");
        jb_json_set_str(reference, "status", "fail");
        jb_json_set_str(reference, "reason", err.message);
    }
    rc = said != NULL ? jb_kid_result(in->ctl, said) : -1;
    cJSON_Delete(said);
    jb_buf_free(&emit_held);
    return rc == 0 ? 0 : 1;
}

static int call_main(jb_kid_input *in, const char *module)
{
    char name[64];
    snprintf(name, sizeof name, "jaxbench_harness.%s", module);
    emit_holds = in->kind == JB_KID_REFERENCE;
    PyObject *m = PyImport_ImportModule(name), *sender = PyCFunction_New(&EMIT, NULL);
    PyObject *first = json_text(jb_json_obj(in->meta, in->kind == JB_KID_REFERENCE ? "request" : "job"));
    PyObject *second = second_argument(in);
    PyObject *r = m != NULL && sender != NULL && first != NULL && second != NULL ? PyObject_CallMethod(m, "main", "OOO", first, second, sender) : NULL;
    if (r == NULL) return jb_python_exception(in->ctl, "exception");
    jb_python_flush();
    return emit_holds ? finish_reference(in) : 0;
}

/* Three blocks along the last axis: the shape that some versions of interpret
 * mode got wrong in silence.  And whether a v6e can be compiled for. */
static const char SELFTEST[] =
    "import json\n"
    "from jaxbench_harness import runtime\n"
    "out = {}\n"
    "try:\n"
    "    wrong = runtime.selftest_three_blocks()\n"
    "    out['interpret'] = 'ok' if wrong is None else 'defect'\n"
    "    if wrong is not None:\n"
    "        out['error'] = wrong\n"
    "except Exception as e:\n"
    "    out['interpret'] = 'unknown'\n"
    "    out['error'] = '%s: %s' % (type(e).__name__, e)\n"
    "try:\n"
    "    from jax.experimental import topologies\n"
    "    out['tpu_target'] = topologies.get_topology_desc(platform='tpu', topology_name='v6e:1x1x1').devices[0].device_kind\n"
    "    out['tpu_compile'] = True\n"
    "except Exception as e:\n"
    "    out['tpu_compile'] = False\n"
    "    out['tpu_error'] = '%s: %s' % (type(e).__name__, str(e)[:500])\n"
    "emit(32, '', json.dumps({'selftest': out}).encode())\n";

static int selftest(jb_kid_input *in)
{
    PyObject *globals = PyDict_New(), *sender = PyCFunction_New(&EMIT, NULL), *r = NULL;
    if (globals != NULL && sender != NULL && PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0 &&
        PyDict_SetItemString(globals, "emit", sender) == 0)
        r = PyRun_String(SELFTEST, Py_file_input, globals, globals);
    if (r == NULL) return jb_python_exception(in->ctl, "exception");
    jb_python_flush();
    return 0;
}

void jb_python_after_fork(void) { PyOS_AfterFork_Child(); }

int jb_python_run(void *self, jb_kid_input *in)
{
    static audit watched;
    const jb_python *p = self;
    emit_fd = in->ctl;
    if (in->kind == JB_KID_PROBE) return 0;
    jb_python_after_fork();
    if (in->kind == JB_KID_TRACER && in->notes != NULL) {
        watched = (audit){ .notes = in->notes, .paths = &p->paths, .harness = p->harness };
        if (PySys_AddAuditHook(hook, &watched) != 0) PyErr_Clear();
    }
    switch (in->kind) {
    case JB_KID_TRACER: return call_main(in, "tracer");
    case JB_KID_INSPECTOR: return call_main(in, "inspector");
    case JB_KID_COMPILER: return call_main(in, "compiler");
    case JB_KID_REFERENCE: return call_main(in, "reference");
    case JB_KID_SELFTEST: return selftest(in);
    case JB_KID_EXECUTOR: return jb_runtime_check(in);
    case JB_KID_TIMER: return jb_runtime_time(in);
    case JB_KID_PLAN: return 0; /* answered while preparing */
    default: return 2;
    }
}
