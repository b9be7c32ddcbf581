/* SPDX-License-Identifier: Apache-2.0 */
/* wall: order of calls, medians, flags and the label, on a fake device whose clock
 * and times are tables. */
#include "wall.c"

#include "core/base/error.h"
#include "core/options/options.h"

#include <check.h>

#define MOST 64

static struct {
    uint32_t order[MOST];  /* sides in the order in which they were run */
    int runs, fail_at;     /* fail_at: ordinal of the run that fails; -1: none */
    const int64_t *ns[2];  /* times of a side's kept and warm-up runs, in order */
    int next[2];
    int64_t clock, step;   /* what `now` gives, and by how much it moves */
    const char *name;
} fake;

static int fake_run(const jb_host *host, uint32_t side, int64_t *elapsed_ns, jb_error *err)
{
    (void)host;
    ck_assert_uint_lt(side, 2);
    ck_assert_int_lt(fake.runs, MOST);
    if (fake.runs == fake.fail_at) return jb_err(err, JB_EIO, "the device went away");
    fake.order[fake.runs++] = side;
    *elapsed_ns = fake.ns[side] != NULL ? fake.ns[side][fake.next[side]] : 1000000 * (1 + side);
    fake.next[side]++;
    return 0;
}

static int64_t fake_now(const jb_host *host)
{
    (void)host;
    return fake.clock += fake.step;
}

static const char *fake_name(const jb_host *host)
{
    (void)host;
    return fake.name;
}

static jb_device_service device = { .struct_size = sizeof device, .name = fake_name, .run = fake_run, .now = fake_now };

static const void *service(const jb_host *host, const char *id) { return host->ctx != NULL && strcmp(id, JB_SERVICE_DEVICE) == 0 ? &device : NULL; }

static const jb_host host = { .struct_size = sizeof host, .abi_major = 1, .ctx = &device, .service = service };
static const jb_host bare = { .struct_size = sizeof bare, .abi_major = 1, .service = service };

static double baseline[MOST], candidate[MOST];
static jb_timing result;

static void reset(void)
{
    memset(&fake, 0, sizeof fake);
    fake.fail_at = -1;
    fake.step = 30;
    fake.name = "cpu";
    device.interpreted = 1;
}

/* One measurement with these options (JSON; NULL: defaults); returns the status. */
static int measured(const char *json, uint32_t capacity, jb_error *err)
{
    jb_config *config = NULL;
    cJSON *values = json != NULL ? cJSON_Parse(json) : NULL;
    void *self = NULL;
    ck_assert_msg(jb_config_new(&component, values, &config, err) == 0, "%s", err->message);
    ck_assert_int_eq(ops.create(&host, jb_config_data(config), &self, err), 0);
    result = (jb_timing){ .struct_size = sizeof result, .capacity = capacity, .baseline_s = baseline, .candidate_s = candidate };
    int status = ops.measure(self, &result, err);
    ops.destroy(self);
    jb_config_free(config);
    cJSON_Delete(values);
    return status;
}

START_TEST(sides_take_turns_and_swap_who_is_first)
{
    static const uint32_t want[] = { 0, 1, 1, 0, /* two warm-ups */ 0, 1, 1, 0, 0, 1, 1, 0, 0, 1 };
    jb_error err = JB_ERROR_INIT;
    reset();
    ck_assert_int_eq(measured(NULL, MOST, &err), 0);
    ck_assert_int_eq(fake.runs, 14); /* 2 + 5 rounds of two */
    ck_assert_uint_eq(result.sample_count, 5);
    for (int i = 0; i < 14; i++) ck_assert_msg(fake.order[i] == want[i], "run %d was side %u, expected %u", i, fake.order[i], want[i]);
}
END_TEST

START_TEST(warm_ups_are_run_and_not_kept)
{
    static const int64_t slow_first[] = { 9000000, 8000000, 1000000, 3000000, 2000000 };
    jb_error err = JB_ERROR_INIT;
    reset();
    fake.ns[0] = fake.ns[1] = slow_first;
    ck_assert_int_eq(measured("{\"samples\":3}", MOST, &err), 0);
    ck_assert_uint_eq(result.sample_count, 3);
    ck_assert_double_eq_tol(result.baseline_median_s, 0.002, 1e-15);
    ck_assert_double_eq_tol(candidate[0], 0.001, 1e-15);
    ck_assert_double_eq_tol(candidate[2], 0.002, 1e-15);
    reset();
    ck_assert_int_eq(measured("{\"samples\":4,\"warmup\":0}", MOST, &err), 0);
    ck_assert_int_eq(fake.runs, 8);
}
END_TEST

START_TEST(median_of_published_samples)
{
    /* timing_50 and the two sides of interleaved_AB, in microseconds. */
    static const int64_t us[] = { 10000, 10370, 10240, 10110, 10480, 10350, 10220, 15090, 10460, 10330, 10200, 10070, 10440, 10310, 10180, 10050, 10420,
                                  10290, 10160, 10030, 10400, 10270, 10140, 15010, 10380, 10250, 10120, 10490, 10360, 10230, 10100, 10470, 10340, 10210,
                                  10080, 10450, 10320, 10190, 10060, 10430, 10300, 10170, 10040, 10410, 10280, 10150, 10020, 10390, 10260, 10130 };
    static const int64_t ab[2][8] = { { 10200, 10400, 10100, 10600, 10300, 10500, 10200, 10700 }, { 9900, 10000, 9800, 10300, 9900, 10100, 10000, 10200 } };
    double v[50], room[50];
    for (int i = 0; i < 50; i++) v[i] = (double)us[i] * 1e-6;
    ck_assert_double_eq_tol(median(v, 50, room), 0.010265, 1e-15);
    ck_assert_double_eq_tol(v[7], 0.01509, 1e-15); /* the samples keep their order */
    ck_assert_double_nan(median(v, 0, room));
    jb_error err = JB_ERROR_INIT;
    int64_t ns[2][8];
    reset();
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < 8; i++) ns[s][i] = ab[s][i] * 1000;
        fake.ns[s] = ns[s];
    }
    ck_assert_int_eq(measured("{\"warmup\":0,\"samples\":8}", MOST, &err), 0);
    ck_assert_double_eq_tol(result.baseline_median_s / result.candidate_median_s, 1.0350000000000001, 1e-12);
}
END_TEST

/* One side's three samples in ns, the clock's step, and whether the result may be believed. */
static const struct {
    int64_t ns[3], step;
    int plausible;
} BELIEF[] = {
    { { 1000, 1000, 1000 }, 30, 1 },
    { { 31, 31, 31 }, 30, 1 },
    { { 30, 30, 30 }, 30, 0 },      /* one step of the clock */
    { { 0, 0, 0 }, 30, 0 },
    { { 5000, 0, 5000 }, 30, 0 },   /* one of them is no time at all */
    { { 5000, -1, 5000 }, 30, 0 },  /* the clock went back */
    { { -5, -5, -5 }, 30, 0 },
    { { 1000, 1000, 1000 }, 1000, 0 },
    { { 1000, 1000, 1000 }, 0, 1 }, /* a clock that stands still shows no step */
    { { INT64_MAX, INT64_MAX, INT64_MAX }, 30, 1 },
};

START_TEST(implausible_times_are_flagged)
{
    for (int side = 0; side < 2; side++) {
        jb_error err = JB_ERROR_INIT;
        reset();
        fake.step = BELIEF[_i].step;
        fake.ns[side] = BELIEF[_i].ns;
        ck_assert_int_eq(measured("{\"warmup\":0,\"samples\":3}", MOST, &err), 0);
        ck_assert_int_eq((result.flags & JB_TIMING_IMPLAUSIBLE) == 0, BELIEF[_i].plausible);
        ck_assert_uint_ne(result.flags & JB_TIMING_MEASURED, 0);
    }
}
END_TEST

START_TEST(the_label_says_what_it_is)
{
    jb_error err = JB_ERROR_INIT;
    reset();
    ck_assert_int_eq(measured(NULL, MOST, &err), 0);
    ck_assert_str_eq(result.source, "host clock around a blocked call on cpu; candidate in interpret mode: no speedup");
    ck_assert_uint_eq(result.flags, JB_TIMING_MEASURED | JB_TIMING_INTERPRETED);
    reset();
    device.interpreted = 0;
    fake.name = "TPU v6 lite";
    ck_assert_int_eq(measured(NULL, MOST, &err), 0);
    ck_assert_str_eq(result.source, "host clock around a blocked call on TPU v6 lite");
    ck_assert_uint_eq(result.flags, JB_TIMING_MEASURED);
}
END_TEST

START_TEST(capacity_bounds_the_samples)
{
    jb_error err = JB_ERROR_INIT;
    reset();
    candidate[3] = -7;
    ck_assert_int_eq(measured("{\"warmup\":0,\"samples\":10}", 3, &err), 0);
    ck_assert_uint_eq(result.sample_count, 3);
    ck_assert_double_eq(candidate[3], -7); /* not written past the host's array */
    ck_assert_int_eq(measured("{\"warmup\":0,\"samples\":10}", 0, &err), 0);
    ck_assert_uint_ne(result.flags & JB_TIMING_IMPLAUSIBLE, 0);
}
END_TEST

START_TEST(a_failing_device_ends_the_measurement)
{
    for (int at = 0; at < 14; at++) {
        jb_error err = JB_ERROR_INIT;
        reset();
        fake.fail_at = at;
        ck_assert_int_eq(measured(NULL, MOST, &err), JB_EIO);
        ck_assert_str_eq(err.message, "the device went away");
        ck_assert_int_eq(fake.runs, at);
    }
}
END_TEST

START_TEST(refuses_a_host_without_device)
{
    struct config c = { 2, 5 };
    jb_error err = JB_ERROR_INIT;
    void *self = &c;
    ck_assert_int_eq(ops.create(&bare, &c, &self, &err), JB_EABI);
    ck_assert_ptr_eq(self, &c); /* untouched */
    ck_assert_ptr_nonnull(strstr(err.message, "device/1"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wall");
    TCase *tc = tcase_create("wall");
    suite_add_tcase(s, tc);
    tcase_add_test(tc, sides_take_turns_and_swap_who_is_first);
    tcase_add_test(tc, warm_ups_are_run_and_not_kept);
    tcase_add_test(tc, median_of_published_samples);
    tcase_add_loop_test(tc, implausible_times_are_flagged, 0, sizeof BELIEF / sizeof *BELIEF);
    tcase_add_test(tc, the_label_says_what_it_is);
    tcase_add_test(tc, capacity_bounds_the_samples);
    tcase_add_test(tc, a_failing_device_ends_the_measurement);
    tcase_add_test(tc, refuses_a_host_without_device);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
