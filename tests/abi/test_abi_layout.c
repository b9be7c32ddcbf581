/* SPDX-License-Identifier: Apache-2.0 */
/* tests/abi/test_abi_layout.c - the layout of every public struct, frozen.
 *
 * A plugin binary of yesterday reads and writes these offsets, so no line here
 * may ever change but in one way: a struct that grew at its end gets a larger
 * SIZE, new AT lines and a new END, together with a line in docs/abi.md and a
 * larger JB_ABI_MINOR.  END says that no padding follows the last field: an
 * appended field would else lie within the size that old writers announce, and
 * JB_HAS would take their padding for a value.  Most of it is decided while
 * compiling; x86-64 and other LP64 machines only. */
#include <check.h>
#include <jaxbench/abi.h>
#include <jaxbench/backend.h>
#include <jaxbench/checker.h>
#include <jaxbench/executor.h>
#include <jaxbench/frame.h>
#include <jaxbench/method.h>
#include <jaxbench/plugin.h>
#include <jaxbench/tensor.h>
#include <jaxbench/timer.h>
#include <math.h>
#include <stdlib.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " changed its size")
#define AT(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type "." #field " moved")
#define END(type, field) \
    _Static_assert(offsetof(type, field) + sizeof(((type *)0)->field) == sizeof(type), #type " has padding behind " #field)

SIZE(void *, 8);
SIZE(int (*)(void), 8);
SIZE(double, 8);
SIZE(size_t, 8);
/* abi.h */
SIZE(jb_view, 16);
AT(jb_view, ptr, 0); AT(jb_view, len, 8); END(jb_view, len);
SIZE(jb_error, 912);
AT(jb_error, struct_size, 0); AT(jb_error, code, 4); AT(jb_error, flags, 8); AT(jb_error, reserved, 12);
AT(jb_error, message, 16); AT(jb_error, hint, 528); AT(jb_error, where, 784); END(jb_error, where);
SIZE(jb_option, 72);
AT(jb_option, struct_size, 0); AT(jb_option, type, 4); AT(jb_option, flags, 8); AT(jb_option, offset, 12);
AT(jb_option, name, 16); AT(jb_option, def, 24); AT(jb_option, min, 32); AT(jb_option, max, 40); AT(jb_option, choices, 48);
AT(jb_option, unit, 56); AT(jb_option, help, 64); END(jb_option, help);

/* tensor.h */
SIZE(jb_tensor, 96);
AT(jb_tensor, struct_size, 0); AT(jb_tensor, dtype, 4); AT(jb_tensor, rank, 8); AT(jb_tensor, reserved, 12);
AT(jb_tensor, dims, 16); AT(jb_tensor, count, 80); AT(jb_tensor, data, 88); END(jb_tensor, data);

/* plugin.h */
SIZE(jb_component, 72);
AT(jb_component, struct_size, 0); AT(jb_component, flags, 4); AT(jb_component, kind, 8); AT(jb_component, name, 16);
AT(jb_component, summary, 24); AT(jb_component, help, 32); AT(jb_component, options, 40); AT(jb_component, option_count, 48);
AT(jb_component, option_size, 52); AT(jb_component, config_size, 56); AT(jb_component, reserved, 60); AT(jb_component, ops, 64);
END(jb_component, ops);
SIZE(jb_host, 24);
AT(jb_host, struct_size, 0); AT(jb_host, abi_major, 4); AT(jb_host, abi_minor, 6); AT(jb_host, ctx, 8); AT(jb_host, service, 16);
END(jb_host, service);
SIZE(jb_plugin, 72);
AT(jb_plugin, struct_size, 0); AT(jb_plugin, abi_major, 4); AT(jb_plugin, abi_minor, 6); AT(jb_plugin, id, 8);
AT(jb_plugin, version, 16); AT(jb_plugin, summary, 24); AT(jb_plugin, license, 32); AT(jb_plugin, homepage, 40);
AT(jb_plugin, components, 48); AT(jb_plugin, open, 56); AT(jb_plugin, close, 64); END(jb_plugin, close);
SIZE(jb_log_service, 16);
AT(jb_log_service, struct_size, 0); AT(jb_log_service, reserved, 4); AT(jb_log_service, log, 8); END(jb_log_service, log);
SIZE(jb_arena_service, 16);
AT(jb_arena_service, struct_size, 0); AT(jb_arena_service, reserved, 4); AT(jb_arena_service, alloc, 8);
END(jb_arena_service, alloc);
SIZE(jb_rng_service, 24);
AT(jb_rng_service, struct_size, 0); AT(jb_rng_service, reserved, 4); AT(jb_rng_service, u64, 8); AT(jb_rng_service, uniform, 16);
END(jb_rng_service, uniform);

/* backend.h */
SIZE(jb_message, 24);
AT(jb_message, role, 0); AT(jb_message, reserved, 4); AT(jb_message, text, 8); END(jb_message, text);
SIZE(jb_request, 96);
AT(jb_request, struct_size, 0); AT(jb_request, message_count, 4); AT(jb_request, messages, 8); AT(jb_request, seed, 16);
AT(jb_request, temperature, 24); AT(jb_request, max_tokens, 32); AT(jb_request, lane, 40);
AT(jb_request, turn, 48); AT(jb_request, cell_seed, 56); AT(jb_request, hash, 64); AT(jb_request, cell, 72);
AT(jb_request, workload, 80); AT(jb_request, purpose, 88); AT(jb_request, reserved, 92); END(jb_request, reserved);
SIZE(jb_usage, 40);
AT(jb_usage, input_uncached, 0); AT(jb_usage, cache_read, 8); AT(jb_usage, cache_write, 16); AT(jb_usage, output, 24);
AT(jb_usage, reasoning, 32); END(jb_usage, reasoning);
SIZE(jb_reply, 352);
AT(jb_reply, struct_size, 0); AT(jb_reply, finish, 4); AT(jb_reply, error_class, 8); AT(jb_reply, retry_after_s, 12);
AT(jb_reply, text, 16); AT(jb_reply, usage, 32); AT(jb_reply, message, 72);
AT(jb_reply, flags, 328); AT(jb_reply, reserved, 332); AT(jb_reply, model, 336); END(jb_reply, model);
SIZE(jb_http_request, 88);
AT(jb_http_request, struct_size, 0); AT(jb_http_request, header_count, 4); AT(jb_http_request, method, 8);
AT(jb_http_request, url, 24); AT(jb_http_request, headers, 40); AT(jb_http_request, body, 48);
AT(jb_http_request, auth_scheme, 64); AT(jb_http_request, auth_header, 72);
AT(jb_http_request, tokens, 80); END(jb_http_request, tokens);
SIZE(jb_http_response, 40);
AT(jb_http_response, struct_size, 0); AT(jb_http_response, status, 4); AT(jb_http_response, header_count, 8);
AT(jb_http_response, reserved, 12); AT(jb_http_response, headers, 16); AT(jb_http_response, body, 24);
END(jb_http_response, body);
SIZE(jb_backend_ops, 48);
AT(jb_backend_ops, struct_size, 0); AT(jb_backend_ops, reserved, 4); AT(jb_backend_ops, create, 8);
AT(jb_backend_ops, destroy, 16); AT(jb_backend_ops, complete, 24); AT(jb_backend_ops, encode, 32); AT(jb_backend_ops, decode, 40);
END(jb_backend_ops, decode);

/* method.h */
SIZE(jb_llm_call, 56);
AT(jb_llm_call, struct_size, 0); AT(jb_llm_call, purpose, 4); AT(jb_llm_call, message_count, 8); AT(jb_llm_call, reserved, 12);
AT(jb_llm_call, messages, 16); AT(jb_llm_call, lane, 24); AT(jb_llm_call, turn, 32); AT(jb_llm_call, temperature, 40);
AT(jb_llm_call, role, 48); END(jb_llm_call, role);
SIZE(jb_llm_service, 16);
AT(jb_llm_service, struct_size, 0); AT(jb_llm_service, reserved, 4); AT(jb_llm_service, complete, 8);
END(jb_llm_service, complete);
SIZE(jb_eval_request, 32);
AT(jb_eval_request, struct_size, 0); AT(jb_eval_request, last_stage, 4); AT(jb_eval_request, lane, 8);
AT(jb_eval_request, parents, 16); AT(jb_eval_request, parent_count, 24); AT(jb_eval_request, reserved, 28);
END(jb_eval_request, reserved);
SIZE(jb_eval_service, 24);
AT(jb_eval_service, struct_size, 0); AT(jb_eval_service, reserved, 4); AT(jb_eval_service, reply, 8);
AT(jb_eval_service, source, 16); END(jb_eval_service, source);
SIZE(jb_feedback_request, 24);
AT(jb_feedback_request, struct_size, 0); AT(jb_feedback_request, level, 4); AT(jb_feedback_request, turns, 8);
AT(jb_feedback_request, turn_count, 16); AT(jb_feedback_request, history, 20); END(jb_feedback_request, history);
SIZE(jb_feedback, 48);
AT(jb_feedback, struct_size, 0); AT(jb_feedback, timed, 4); AT(jb_feedback, record, 8); AT(jb_feedback, text, 24);
AT(jb_feedback, best, 40); END(jb_feedback, best);
SIZE(jb_feedback_service, 16);
AT(jb_feedback_service, struct_size, 0); AT(jb_feedback_service, reserved, 4); AT(jb_feedback_service, make, 8);
END(jb_feedback_service, make);
SIZE(jb_cell_service, 24);
AT(jb_cell_service, struct_size, 0); AT(jb_cell_service, reserved, 4); AT(jb_cell_service, fact, 8);
AT(jb_cell_service, finish, 16); END(jb_cell_service, finish);
SIZE(jb_budget_service, 16);
AT(jb_budget_service, struct_size, 0); AT(jb_budget_service, reserved, 4); AT(jb_budget_service, samples_left, 8);
END(jb_budget_service, samples_left);
SIZE(jb_template_service, 16);
AT(jb_template_service, struct_size, 0); AT(jb_template_service, reserved, 4); AT(jb_template_service, render, 8);
END(jb_template_service, render);
SIZE(jb_session_service, 32);
AT(jb_session_service, struct_size, 0); AT(jb_session_service, reserved, 4); AT(jb_session_service, open, 8);
AT(jb_session_service, submit, 16); AT(jb_session_service, close, 24); END(jb_session_service, close);
SIZE(jb_nested_service, 16);
AT(jb_nested_service, struct_size, 0); AT(jb_nested_service, reserved, 4); AT(jb_nested_service, run, 8);
END(jb_nested_service, run);
SIZE(jb_event, 96);
AT(jb_event, struct_size, 0); AT(jb_event, kind, 4); AT(jb_event, status, 8); AT(jb_event, outcome, 12); AT(jb_event, op, 16);
AT(jb_event, lane, 24); AT(jb_event, candidate, 32); AT(jb_event, text, 40); AT(jb_event, finish, 56);
AT(jb_event, duplicate, 60); AT(jb_event, record, 64); AT(jb_event, source, 80); END(jb_event, source);
SIZE(jb_method_ops, 48);
AT(jb_method_ops, struct_size, 0); AT(jb_method_ops, reserved, 4); AT(jb_method_ops, create, 8); AT(jb_method_ops, destroy, 16);
AT(jb_method_ops, start, 24); AT(jb_method_ops, on_event, 32); AT(jb_method_ops, samples, 40); END(jb_method_ops, samples);

/* checker.h */
SIZE(jb_checker_needs, 8);
AT(jb_checker_needs, struct_size, 0); AT(jb_checker_needs, flags, 4); END(jb_checker_needs, flags);
SIZE(jb_trial_id, 24);
AT(jb_trial_id, struct_size, 0); AT(jb_trial_id, draw, 4); AT(jb_trial_id, shape, 8); AT(jb_trial_id, distribution, 16);
END(jb_trial_id, distribution);
SIZE(jb_trial, 88);
AT(jb_trial, struct_size, 0); AT(jb_trial, output_count, 4); AT(jb_trial, reference_count, 8); AT(jb_trial, input_count, 12);
AT(jb_trial, id, 16); AT(jb_trial, outputs, 40); AT(jb_trial, r_jit, 48); AT(jb_trial, r_op, 56); AT(jb_trial, h, 64);
AT(jb_trial, inputs, 72); AT(jb_trial, slice_axes, 80); AT(jb_trial, reserved, 84); END(jb_trial, reserved);
SIZE(jb_worst, 88);
AT(jb_worst, output, 0); AT(jb_worst, rank, 4); AT(jb_worst, index, 8); AT(jb_worst, reference, 72); AT(jb_worst, candidate, 80);
END(jb_worst, candidate);
SIZE(jb_trial_result, 696);
AT(jb_trial_result, struct_size, 0); AT(jb_trial_result, status, 4); AT(jb_trial_result, score, 8);
AT(jb_trial_result, threshold, 16); AT(jb_trial_result, part, 24); AT(jb_trial_result, reason, 56);
AT(jb_trial_result, worst_count, 248); AT(jb_trial_result, reserved, 252); AT(jb_trial_result, worst, 256);
END(jb_trial_result, worst);
SIZE(jb_inspection, 48);
AT(jb_inspection, struct_size, 0); AT(jb_inspection, coverage, 4); AT(jb_inspection, blocks, 8);
AT(jb_inspection, blocks_missed, 16); AT(jb_inspection, blocks_revisited, 24); AT(jb_inspection, input_blocks_unread, 32);
AT(jb_inspection, detail, 40); END(jb_inspection, detail);
SIZE(jb_verdict, 216);
AT(jb_verdict, struct_size, 0); AT(jb_verdict, verdict, 4); AT(jb_verdict, score, 8); AT(jb_verdict, threshold, 16);
AT(jb_verdict, reason, 24); END(jb_verdict, reason);
SIZE(jb_checker_ops, 48);
AT(jb_checker_ops, struct_size, 0); AT(jb_checker_ops, reserved, 4); AT(jb_checker_ops, create, 8);
AT(jb_checker_ops, destroy, 16); AT(jb_checker_ops, needs, 24); AT(jb_checker_ops, trial, 32); AT(jb_checker_ops, verdict, 40);
END(jb_checker_ops, verdict);

/* timer.h */
SIZE(jb_device_service, 32);
AT(jb_device_service, struct_size, 0); AT(jb_device_service, interpreted, 4); AT(jb_device_service, name, 8);
AT(jb_device_service, run, 16); AT(jb_device_service, now, 24); END(jb_device_service, now);
SIZE(jb_timing, 144);
AT(jb_timing, struct_size, 0); AT(jb_timing, flags, 4); AT(jb_timing, capacity, 8); AT(jb_timing, sample_count, 12);
AT(jb_timing, baseline_s, 16); AT(jb_timing, candidate_s, 24); AT(jb_timing, baseline_median_s, 32);
AT(jb_timing, candidate_median_s, 40); AT(jb_timing, source, 48); END(jb_timing, source);
SIZE(jb_timer_ops, 32);
AT(jb_timer_ops, struct_size, 0); AT(jb_timer_ops, reserved, 4); AT(jb_timer_ops, create, 8); AT(jb_timer_ops, destroy, 16);
AT(jb_timer_ops, measure, 24); END(jb_timer_ops, measure);

/* executor.h */
SIZE(jb_paths_service, 40);
AT(jb_paths_service, struct_size, 0); AT(jb_paths_service, reserved, 4); AT(jb_paths_service, worker, 8);
AT(jb_paths_service, cache, 16); AT(jb_paths_service, suite, 24); AT(jb_paths_service, plugins, 32);
END(jb_paths_service, plugins);
SIZE(jb_job_event, 944);
AT(jb_job_event, struct_size, 0); AT(jb_job_event, kind, 4); AT(jb_job_event, job, 8); AT(jb_job_event, record, 16);
AT(jb_job_event, error, 32); END(jb_job_event, error);
SIZE(jb_executor_ops, 56);
AT(jb_executor_ops, struct_size, 0); AT(jb_executor_ops, reserved, 4); AT(jb_executor_ops, open, 8);
AT(jb_executor_ops, submit, 16); AT(jb_executor_ops, event_fd, 24); AT(jb_executor_ops, next, 32);
AT(jb_executor_ops, cancel, 40); AT(jb_executor_ops, close, 48); END(jb_executor_ops, close);

/* Structs that lie by value inside others, or in arrays without a stride, can
 * never grow: their users would move. */
#define FROZEN(type, bytes) SIZE(type, bytes)
FROZEN(jb_view, 16);
FROZEN(jb_message, 24);   /* jb_request.messages[] */
FROZEN(jb_usage, 40);     /* in jb_reply */
FROZEN(jb_tensor, 96);    /* jb_trial.outputs[], ... */
FROZEN(jb_trial_id, 24);  /* in jb_trial */
FROZEN(jb_worst, 88);     /* jb_trial_result.worst[] */
FROZEN(jb_error, 912);    /* in jb_job_event */

/* Every struct that announces its size does so in its first four bytes. */
#define FIRST(type) { #type, offsetof(type, struct_size), sizeof(((type *)0)->struct_size) },
static const struct { const char *name; size_t offset, bytes; } heads[] = {
    FIRST(jb_error) FIRST(jb_option) FIRST(jb_tensor) FIRST(jb_component) FIRST(jb_host) FIRST(jb_plugin) FIRST(jb_log_service)
    FIRST(jb_arena_service) FIRST(jb_rng_service) FIRST(jb_request) FIRST(jb_reply) FIRST(jb_http_request)
    FIRST(jb_http_response) FIRST(jb_backend_ops) FIRST(jb_llm_call) FIRST(jb_llm_service) FIRST(jb_eval_request)
    FIRST(jb_eval_service) FIRST(jb_feedback_request) FIRST(jb_feedback) FIRST(jb_feedback_service) FIRST(jb_cell_service) FIRST(jb_budget_service) FIRST(jb_template_service) FIRST(jb_session_service)
    FIRST(jb_nested_service) FIRST(jb_event) FIRST(jb_method_ops) FIRST(jb_checker_needs) FIRST(jb_trial_id) FIRST(jb_trial)
    FIRST(jb_trial_result) FIRST(jb_inspection) FIRST(jb_verdict) FIRST(jb_checker_ops) FIRST(jb_device_service) FIRST(jb_timing)
    FIRST(jb_timer_ops) FIRST(jb_paths_service) FIRST(jb_job_event) FIRST(jb_executor_ops)
};

START_TEST(the_size_comes_first)
{
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        ck_assert_msg(heads[i].offset == 0, "%s.struct_size lies at %zu", heads[i].name, heads[i].offset);
        ck_assert_msg(heads[i].bytes == 4, "%s.struct_size has %zu bytes", heads[i].name, heads[i].bytes);
    }
}
END_TEST

START_TEST(a_field_is_there_only_when_the_writer_reached_its_end)
{
    jb_option o = { 0 };
    static const struct { uint32_t size; int help, unit, name; } cases[] = {
        { 0, 0, 0, 0 }, { 23, 0, 0, 0 }, { 24, 0, 0, 1 }, { 63, 0, 0, 1 }, { 64, 0, 1, 1 }, { 71, 0, 1, 1 }, { 72, 1, 1, 1 }, { 1000, 1, 1, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        o.struct_size = cases[i].size;
        ck_assert_int_eq(JB_HAS(&o, jb_option, help), cases[i].help);
        ck_assert_int_eq(JB_HAS(&o, jb_option, unit), cases[i].unit);
        ck_assert_int_eq(JB_HAS(&o, jb_option, name), cases[i].name);
    }
}
END_TEST

START_TEST(numbers_that_files_and_plugins_hold_never_change)
{
    static const struct { const char *what; long seen, want; } cases[] = {
        { "major", JB_ABI_MAJOR, 1 }, { "EINVAL", JB_EINVAL, -1 }, { "EINTERNAL", JB_EINTERNAL, -15 }, { "EPERM", JB_EPERM, -14 },
        { "OPT_BOOL", JB_OPT_BOOL, 1 }, { "OPT_PATH", JB_OPT_PATH, 8 }, { "DT_BOOL", JB_DT_BOOL, 1 }, { "DT_F64", JB_DT_F64, 13 },
        { "OUTCOME_OK", JB_OUTCOME_OK, 1 }, { "OUTCOME_WRONG", JB_OUTCOME_WRONG, 13 }, { "OUTCOME_CANCELLED", JB_OUTCOME_CANCELLED, 17 },
        { "STAGE_EXTRACT", JB_STAGE_EXTRACT, 1 }, { "STAGE_PROFILE", JB_STAGE_PROFILE, 8 }, { "PURPOSE_OTHER", JB_PURPOSE_OTHER, 8 }, { "FEEDBACK_NONE", JB_FEEDBACK_NONE, 1 }, { "FEEDBACK_FULL", JB_FEEDBACK_FULL, 3 },
        { "TRIAL_UNSUPPORTED", JB_TRIAL_UNSUPPORTED, 4 }, { "VERDICT_INCONCLUSIVE", JB_VERDICT_INCONCLUSIVE, 3 }, { "EXECUTOR_READY", JB_EXECUTOR_READY, 4 },
        { "FRAME_HEADER", JB_FRAME_HEADER, 16 }, { "FRAME_MODULE", JB_FRAME_MODULE, 33 }, { "MAX_RANK", JB_MAX_RANK, 8 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(cases[i].seen == cases[i].want, "%s is %ld, was %ld", cases[i].what, cases[i].seen, cases[i].want);
    ck_assert_str_eq(JB_PLUGIN_SYMBOL, "jb_plugin_v1");
    ck_assert_str_eq(JB_KIND_METHOD JB_KIND_BACKEND JB_KIND_CHECKER JB_KIND_TIMER JB_KIND_EXECUTOR,
                     "jb.method/1jb.backend/1jb.checker/1jb.timer/1jb.executor/1");
}
END_TEST

START_TEST(frames_are_little_endian_and_checked)
{
    static const uint8_t want[JB_FRAME_HEADER] = { 'J', 'B', 'F', '1', 33, 0, 0, 0, 0x04, 0x03, 0x02, 0x01, 0, 0, 0, 0 };
    uint8_t head[JB_FRAME_HEADER];
    uint32_t type = 0;
    uint64_t n = 0;
    jb_frame_encode(head, JB_FRAME_MODULE, 0x01020304);
    ck_assert_mem_eq(head, want, sizeof want);
    ck_assert_int_eq(jb_frame_decode(head, 0x01020304, &type, &n), 0);
    ck_assert_uint_eq(type, JB_FRAME_MODULE);
    ck_assert_uint_eq(n, 0x01020304);
    type = 7;
    ck_assert_int_eq(jb_frame_decode(head, 0x01020303, &type, &n), JB_EPROTO); /* above the caller's cap */
    jb_frame_encode(head, JB_FRAME_DONE, (uint64_t)JB_FRAME_MAX + 1);
    ck_assert_int_eq(jb_frame_decode(head, UINT64_MAX, &type, &n), JB_EPROTO);
    jb_frame_encode(head, JB_FRAME_DONE, UINT64_MAX);
    ck_assert_int_eq(jb_frame_decode(head, UINT64_MAX, &type, &n), JB_EPROTO);
    for (int i = 0; i < 4; i++) {
        jb_frame_encode(head, JB_FRAME_DONE, 0);
        head[i] ^= 0x20;
        ck_assert_int_eq(jb_frame_decode(head, UINT64_MAX, &type, &n), JB_EPROTO);
    }
    ck_assert_uint_eq(type, 7); /* untouched by every refusal */
}
END_TEST

START_TEST(tensor_facts)
{
    static const struct { uint32_t dtype, size; const char *name; int is_float; } cases[] = {
        { 0, 0, "?", 0 }, { JB_DT_BOOL, 1, "bool", 0 }, { JB_DT_I64, 8, "int64", 0 }, { JB_DT_U16, 2, "uint16", 0 }, { JB_DT_F16, 2, "float16", 1 },
        { JB_DT_BF16, 2, "bfloat16", 1 }, { JB_DT_F32, 4, "float32", 1 }, { JB_DT_F64, 8, "float64", 1 }, { 14, 0, "?", 0 }, { UINT32_MAX, 0, "?", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_uint_eq(jb_dtype_size(cases[i].dtype), cases[i].size);
        ck_assert_str_eq(jb_dtype_name(cases[i].dtype), cases[i].name);
        ck_assert_int_eq(jb_dtype_is_float(cases[i].dtype), cases[i].is_float);
        ck_assert_int_eq(jb_dtype_roundoff(cases[i].dtype) > 0, cases[i].is_float);
    }
    ck_assert_double_eq(jb_dtype_roundoff(JB_DT_F32), ldexp(1, -24));
    ck_assert_double_eq(jb_dtype_roundoff(JB_DT_BF16), ldexp(1, -8));
    ck_assert_double_eq((double)jb_bf16_to_f32(0x3f80), 1.0);
    ck_assert_double_eq((double)jb_bf16_to_f32(0xc040), -3.0);
    ck_assert(isinf(jb_bf16_to_f32(0x7f80)) && isnan(jb_bf16_to_f32(0x7fc0)));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("abi layout");
    TCase *t = tcase_create("abi layout");
    tcase_add_test(t, the_size_comes_first);
    tcase_add_test(t, a_field_is_there_only_when_the_writer_reached_its_end);
    tcase_add_test(t, numbers_that_files_and_plugins_hold_never_change);
    tcase_add_test(t, frames_are_little_endian_and_checked);
    tcase_add_test(t, tensor_facts);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
