/* For tests of plans and programs: an arena for the whole program, plans from catalogue names, lowered. */
#ifndef MAL_TEST_LOWER_H
#define MAL_TEST_LOWER_H
#include "program/program.h"
#include "test.h"

static mal_arena arena;

static inline int open_arena(void **state) {
  (void)state;
  mal_arena_init(&arena);
  return 0;
}

static inline int close_arena(void **state) {
  (void)state;
  mal_arena_free(&arena);
  return 0;
}

/* job: YAML, "{seq: 4096}". */
static inline mal_status try_plan(const char *model, const char *machine, const char *layout, const char *profile,
                                  const char *job, mal_plan *plan, mal_error *e) {
  mal_job j;
  mal_layout l;
  mal_job_default(&j);
  mal_layout_default(&l);
  mal_status s = mal_layout_parse(&arena, layout, &l, e);
  if (s == MAL_OK) s = mal_job_parse(&arena, "job", job, strlen(job), &j, e);
  return s == MAL_OK ? mal_plan_make(&arena, model, machine, profile, &j, &l, plan, e) : s;
}

static inline mal_status try_lower(const char *model, const char *machine, const char *layout, const char *profile,
                                   const char *job, mal_program *p, mal_error *e) {
  mal_plan *plan = MAL_NEW(&arena, mal_plan);
  mal_status s = try_plan(model, machine, layout, profile, job, plan, e);
  return s == MAL_OK ? mal_lower(&arena, plan, p, e) : s;
}

/* The profile is the plan's own: tests may set its switches before they lower. */
static inline mal_plan *plan_of(const char *model, const char *machine, const char *layout, const char *profile,
                                const char *job) {
  mal_error e;
  mal_plan *plan = MAL_NEW(&arena, mal_plan);
  assert_ok(try_plan(model, machine, layout, profile, job, plan, &e), e);
  return plan;
}

static inline const mal_program *lower(const char *model, const char *machine, const char *layout, const char *profile,
                                       const char *job) {
  mal_error e;
  mal_program *p = MAL_NEW(&arena, mal_program);
  assert_ok(try_lower(model, machine, layout, profile, job, p, &e), e);
  return p;
}
#endif
