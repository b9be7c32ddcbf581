/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 against the vectors of FIPS 180-2 (also made with sha256sum), fields
 * that can't be confused, and hashing files. */
#include "core/base/hash.h"
#include "tests/base/harness.h"

START_TEST(known_answers)
{
    static const struct { const char *text, *hex; } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char hex[JB_HASH_HEX];
        ck_assert_int_eq(jb_hash_bytes(cases[i].text, strlen(cases[i].text), hex), 0);
        ck_assert_str_eq(hex, cases[i].hex);
        jb_hasher *h = jb_hasher_new();
        for (const char *p = cases[i].text; *p; p++) jb_hasher_add(h, p, 1);
        jb_hasher_done(h, hex);
        ck_assert_str_eq(hex, cases[i].hex);
    }
    char hex[JB_HASH_HEX];
    ck_assert_int_eq(jb_hash_bytes(NULL, 0, hex), 0);
    ck_assert_str_eq(hex, cases[0].hex);
}
END_TEST

static void two_fields(char *out, const char *n1, const char *v1, const char *n2, const char *v2)
{
    jb_hasher *h = jb_hasher_new();
    jb_hasher_field(h, n1, v1, strlen(v1));
    jb_hasher_field(h, n2, v2, strlen(v2));
    jb_hasher_done(h, out);
}

START_TEST(fields_keep_their_borders)
{
    char long_name[400], longer_name[400];
    memset(long_name, 'n', sizeof long_name);
    long_name[300] = '\0';
    memcpy(longer_name, long_name, sizeof long_name);
    longer_name[299] = 'm'; /* differs only far behind */
    const char *const cases[][4] = {
        { "a", "ab", "b", "c" }, { "a", "a", "b", "bc" }, { "a:2", "ab", "b", "c" }, { "a", "", "b", "abc" }, { "", "aab", "b", "c" },
        { long_name, "ab", "b", "c" }, { longer_name, "ab", "b", "c" },
    };
    char hex[sizeof cases / sizeof cases[0]][JB_HASH_HEX];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        two_fields(hex[i], cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
        for (size_t k = 0; k < i; k++) ck_assert_str_ne(hex[i], hex[k]);
    }
    char again[JB_HASH_HEX];
    two_fields(again, "a", "ab", "b", "c");
    ck_assert_str_eq(again, hex[0]);
}
END_TEST

START_TEST(files)
{
    char *dir = new_folder(), *path = jb_fs_join(dir, "data"), hex[JB_HASH_HEX], want[JB_HASH_HEX];
    jb_error err = JB_ERROR_INIT;
    size_t n = 200000;
    char *data = jb_alloc(n);
    for (size_t i = 0; i < n; i++) data[i] = (char)(i * 31);
    ck_assert_int_eq(jb_fs_write_atomic(path, data, n, &err), 0);
    ck_assert_int_eq(jb_hash_file(path, hex, &err), 0);
    jb_hash_bytes(data, n, want);
    ck_assert_str_eq(hex, want);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(jb_hash_file(path, hex, &err), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(err.message, path));
    ck_assert_int_eq(jb_hash_file(dir, hex, &err), JB_EINVAL); /* a folder */
    jb_free(data);
    jb_free(path);
    drop_folder(dir);
}
END_TEST

START_TEST(without_memory_a_hash_matches_nothing)
{
    char hex[JB_HASH_HEX];
    jb_mem_fail_after(1, 0);
    jb_hasher *h = jb_hasher_new();
    jb_mem_fail_after(0, 0);
    ck_assert_ptr_null(h);
    jb_hasher_add(h, "x", 1);
    jb_hasher_field(h, "name", "x", 1);
    jb_hasher_done(h, hex);
    ck_assert_str_eq(hex, "0000000000000000000000000000000000000000000000000000000000000000");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { known_answers, fields_keep_their_borders, files, without_memory_a_hash_matches_nothing };
    return RUN_SUITE("hash", tests);
}
