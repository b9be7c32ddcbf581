/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/standalone.c - replays a corpus with any compiler, as a test.
 *
 *     fuzz_yaml [--mutate N] FILE|FOLDER...
 *
 * Every file is run as it is, then N times with a few bytes changed, cut or
 * doubled.  Mutations are a function of file name and number (Philox), so a
 * failure repeats; --verbose names each input before it runs.  It is no
 * substitute for libFuzzer's coverage guidance. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/base/text.h"
#include "fuzz/fuzz.h"

#include <string.h>

#define INPUT_MAX (1u << 20)

static int verbose;
static int64_t mutations, runs;

/* The input lies in an allocation of its exact size, so that ASan sees every
 * byte read behind it. */
static void run(const char *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    MUST(exact != NULL);
    if (size) memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    runs++;
}

/* Change `text` (len of room) in one to four places; the new length. */
static size_t mutate(char *text, size_t len, size_t room, jb_rng_key key, uint64_t number)
{
    static const char special[] = "\0\xff\"'\\{}[]:,-&*!|>%@`#\n\t 09eE.~\x80\xC3\x7f";
    uint64_t edits = 1 + jb_rng_u64(key, number, 0) % 4;
    for (uint64_t e = 0; e < edits; e++) {
        uint64_t a = jb_rng_u64(key, number, 3 * e + 1), b = jb_rng_u64(key, number, 3 * e + 2), c = jb_rng_u64(key, number, 3 * e + 3);
        size_t at = len ? (size_t)(a % len) : 0, n = 1 + (size_t)(b % 16);
        if (n > len - at) n = len - at;
        switch (c % 6) {
        case 0: if (len) text[at] = (char)b; break;
        case 1: if (len) text[at] = (char)(text[at] ^ (1 << (b % 8))); break;
        case 2: if (len) text[at] = special[b % (sizeof special - 1)]; break;
        case 3: memmove(text + at, text + at + n, len - at - n); len -= n; break; /* cut */
        case 4: len = at; break;                                                  /* end here */
        default:                                                                  /* double */
            if (len + n > room) break;
            memmove(text + at + n, text + at, len - at);
            len += n;
        }
    }
    return len;
}

static int replay_file(const char *path)
{
    jb_error err = JB_ERROR_INIT;
    jb_buf text = JB_BUF_INIT(INPUT_MAX);
    int status = jb_fs_read(path, INPUT_MAX, &text, &err);
    if (status) {
        fprintf(stderr, "%s\n", err.message);
        jb_buf_free(&text);
        return status;
    }
    if (verbose) fprintf(stderr, "%s\n", path);
    run(text.ptr ? text.ptr : "", text.len);
    const char *base = strrchr(path, '/'); /* the same mutations wherever the corpus lies */
    jb_rng_key key = jb_rng_key_of(base ? base + 1 : path);
    size_t room = text.len + 128;
    char *copy = jb_alloc(room);
    for (int64_t i = 0; copy && i < mutations; i++) {
        if (text.len) memcpy(copy, text.ptr, text.len);
        if (verbose) fprintf(stderr, "%s mutation %lld\n", path, (long long)i);
        run(copy, mutate(copy, text.len, room, key, (uint64_t)i));
    }
    if (!copy) status = JB_ENOMEM;
    jb_free(copy);
    jb_buf_free(&text);
    return status;
}

static int replay(const char *path)
{
    char **names = NULL;
    int status = 0;
    if (!jb_fs_is_dir(path)) return replay_file(path);
    int64_t count = jb_fs_list(path, &names);
    if (count < 0) return JB_EIO;
    for (int64_t i = 0; i < count && !status; i++) {
        char *file = jb_fs_join(path, names[i]);
        status = file ? replay_file(file) : JB_ENOMEM;
        jb_free(file);
    }
    jb_fs_list_free(names, count);
    return status;
}

int main(int argc, char **argv)
{
    int status = 0;
    jb_json_setup();
    for (int i = 1; i < argc && !status; i++) {
        if (!strcmp(argv[i], "--verbose")) verbose = 1;
        else if (!strcmp(argv[i], "--mutate") && i + 1 < argc) status = jb_text_i64(argv[++i], &mutations);
        else status = replay(argv[i]);
    }
    if (!status && !runs) {
        fprintf(stderr, "usage: %s [--verbose] [--mutate N] FILE|FOLDER...\n", argv[0]);
        return 2;
    }
    printf("%lld inputs\n", (long long)runs);
    return status ? 1 : 0;
}
