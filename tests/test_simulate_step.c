/* The step as played against the step as priced: two compositions of the same instruction times that know nothing of each other. */
#include "price/price.h"
#include "simulate/simulate.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

static uint64_t random_state = 1;

static int64_t below(int64_t n) { /* xorshift64*, Vigna 2016 */
  random_state ^= random_state >> 12, random_state ^= random_state << 25, random_state ^= random_state >> 27;
  return (int64_t)((random_state * 0x2545f4914f6cdd1du) >> 33) % n;
}

#define PICK(list) list[below((int64_t)(sizeof list / sizeof *list))]

typedef struct drawn {
  mal_plan *plan;
  mal_program *program;
  mal_estimate estimate;
  char words[512];
} drawn;

/* A layout at random: a model, a machine, degrees. Many cannot be; false then. */
static bool draw(mal_arena *a, drawn *d) {
  static const char *const models[] = {"llama-3-8b",   "gpt3-22b",   "llama-3-70b",   "qwen2.5-7b", "gpt2-xl",
                                       "mixtral-8x7b", "gemma-2-9b", "qwen3-30b-a3b", "llama-13b",  "gpt3-175b"};
  static const char *const machines[] = {"8xh100-sxm",   "8xa100-80-sxm", "2x8xh100-sxm",
                                         "4x8xh100-sxm", "16x8xh100-sxm", "8x8xa100-80-sxm",
                                         "8xrtx4090",    "4x8xh200-sxm",  "4xb200-sxm"};
  static const char *const schedules[] = {"1f1b", "interleaved", "gpipe", "zb-h1", "1f1b", "dualpipe"};
  static const char *const recomputes[] = {"none", "selective", "full"};
  static const int degrees[] = {1, 1, 2, 4, 8};
  const char *model = PICK(models), *machine = PICK(machines),
             *profile = below(3)   ? ""
                        : below(2) ? "deepspeed"
                                   : "malha";
  int tp = PICK(degrees), pp = PICK(degrees), cp = below(5) ? 1 : 2, zero = (int)below(4);
  int ep = strstr(model, "mixtral") || strstr(model, "a3b") ? PICK(degrees) : 1;
  int64_t accumulation = 1 + below(24);
  const char *schedule = PICK(schedules);
  char layout[320], more[128] = "";
  if (pp > 1 && strcmp(schedule, "interleaved") == 0) snprintf(more, sizeof more, ",vpp=%d", 2), accumulation *= pp;
  if (pp > 1 && strcmp(schedule, "dualpipe") == 0) accumulation = 2 * (pp + accumulation);
  if (below(4) == 0) strcat(more, ",overlap-dp-grad=off");
  if (below(4) == 0) strcat(more, ",overlap-dp-param=off");
  if (below(4) == 0) strcat(more, ",overlap-pp=off");
  if (tp > 1 && below(4) == 0) strcat(more, ",overlap-tp=on");
  snprintf(layout, sizeof layout, "tp=%d,pp=%d,cp=%d,ep=%d,zero=%d,micro-batch=%d,recompute=%s,schedule=%s%s", tp, pp,
           cp, ep, zero, 1 + (int)below(3), PICK(recomputes), pp > 1 ? schedule : "1f1b", more);
  snprintf(d->words, sizeof d->words, "%s --on %s --profile '%s' --layout %s --accumulation %lld", model, machine,
           profile, layout, (long long)accumulation);
  mal_job job;
  mal_layout l;
  mal_error e;
  mal_job_default(&job);
  mal_layout_default(&l);
  job.accumulation = accumulation;
  if (below(3) == 0) job.seq = 2048, strcat(d->words, " --seq 2048");
  d->plan = MAL_NEW(a, mal_plan);
  d->program = MAL_NEW(a, mal_program);
  assert_ok(mal_layout_parse(a, layout, &l, &e), e);
  if (mal_plan_make(a, model, machine, profile, &job, &l, d->plan, &e) != MAL_OK) return false;
  if (mal_lower(a, d->plan, d->program, &e) != MAL_OK) return false;
  return mal_price(a, d->program, &d->estimate, &e) == MAL_OK;
}

/* Work is the same to the byte and the FLOP. */
static void check_counts(const drawn *d, const mal_simulated *s) {
  double told = 0;
  if (!s->finished) fail_msg("%s: %s", d->words, s->stuck ? s->stuck : "not finished");
  for (int c = 0; c < MAL_TIME_CAUSES; c++) told += s->time_s[c];
  if (fabs(told / s->step_s - 1) > 1e-6) fail_msg("%s: causes sum to %g of %g", d->words, told, s->step_s);
  if (fabs(s->flops / d->program->hardware_flops - 1) > 1e-12)
    fail_msg("%s: FLOPs %.17g of %.17g", d->words, s->flops, d->program->hardware_flops);
  for (int i = 0; i <= MAL_AXES; i++)
    if (fabs(s->bytes_sent[i] - d->program->bytes_sent[i]) > 1e-9 * d->program->bytes_sent[i])
      fail_msg("%s: axis %d sends %.17g, not %.17g", d->words, i, s->bytes_sent[i], d->program->bytes_sent[i]);
}

static double distance(mal_arena *a, const drawn *d, bool alone) {
  mal_simulate_options o = {.alone = alone};
  mal_simulated s;
  mal_error e;
  assert_ok(mal_simulate(a, d->program, &o, &s, &e), e);
  check_counts(d, &s);
  return s.step_s / d->estimate.step_s - 1;
}

/* Within 3 %. Price knows nothing of a rank's own streams that share a link, so the nearer counts of links that are shared and
 * links that are not. The few further apart: ZeRO-3 in short chunks, where a pass's first gather waits behind the last reduction of
 * the pass before, on the group's one communicator; reductions slower than a unit's backward pass, of which one more runs beside work
 * than price has it, on into the next pass or a bubble; gathers on the compute stream beside reductions. */
static void test_random_layouts(void **state) {
  enum { LAYOUTS = 1000, MOST_FAR = 20 };
  static const double near = 0.03, most = 0.09;
  int done = 0, far = 0;
  (void)state;
  while (done < LAYOUTS) {
    mal_arena a;
    drawn d;
    mal_arena_init(&a);
    if (draw(&a, &d)) {
      double alone = distance(&a, &d, true), shared = fabs(alone) > near ? distance(&a, &d, false) : alone;
      double off = fabs(alone) < fabs(shared) ? alone : shared;
      if (fabs(off) > near) print_message("%.4f  %s\n", 1 + off, d.words), far++;
      if (fabs(off) > most) fail_msg("%s: %.1f %% apart", d.words, 100 * off);
      done++;
    }
    mal_arena_free(&a);
  }
  if (far > MOST_FAR) fail_msg("%d of %d layouts lie further than 3 %% apart", far, done);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_layouts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
