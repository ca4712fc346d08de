#include "reliability/horizon.h"
#include "core/random.h"
#include "reliability/reliability.h"
#include <math.h>
#include <stdlib.h>

static const double day_s = 86400;

/* --- rates ----------------------------------------------------------------------------------------------------------------- */

/* Counts of Llama 3's 54 days on 16,384 H100 in 2,048 nodes (arXiv 2407.21783, table 5); the paper's own shares do not follow
 * from them (148 of 419 is 35.3 %, it prints 30.1 %), so the counts are taken. Hardware of a node takes the node away. */
static const struct {
  const char *name;
  int count;
  bool takes_node;
} llama3[] = {
    {"faulty GPU", 148, true},
    {"GPU HBM3 memory", 72, true},
    {"software bug", 54, false},
    {"network switch or cable", 35, false},
    {"host maintenance", 32, true},
    {"GPU SRAM memory", 19, true},
    {"GPU system processor", 17, true},
    {"NIC", 7, true},
    {"NCCL watchdog", 7, false},
    {"silent data corruption", 6, true},
    {"GPU thermal interface or sensor", 6, true},
    {"SSD", 3, true},
    {"power supply", 3, true},
    {"server chassis", 2, true},
    {"IO expansion board", 2, true},
    {"dependency", 2, false},
    {"CPU", 2, true},
    {"system memory", 2, true},
};
enum { KINDS = sizeof llama3 / sizeof *llama3 };

const mal_failure_kind *mal_failure_kinds(mal_arena *a, double a_node_day, int *count) {
  mal_failure_kind *kinds = MAL_ARRAY(a, mal_failure_kind, KINDS);
  double all = 0;
  for (int i = 0; i < KINDS; i++) all += llama3[i].count;
  for (int i = 0; i < KINDS; i++)
    kinds[i] = (mal_failure_kind){llama3[i].name, a_node_day * llama3[i].count / all, llama3[i].takes_node};
  *count = KINDS;
  return kinds;
}

double mal_failures_rate(const mal_failure_kind *kinds, int count) {
  double all = 0;
  for (int i = 0; i < count; i++) all += kinds[i].a_node_day;
  return all;
}

/* --- random numbers --------------------------------------------------------------------------------------------------------- */

/* Of run i: streams of different runs do not overlap. */
static uint64_t seed_of(uint64_t seed, int run) {
  uint64_t x = ~(uint64_t)run;
  x = mal_random_next(&x) ^ seed;
  return mal_random_next(&x);
}

/* --- one run ----------------------------------------------------------------------------------------------------------------- */

typedef struct run {
  double kept, lost, stalled, restarting, waiting;
  double failures;
} run;

typedef struct repairs { /* nodes that are away: when each comes back, soonest first */
  double *back;
  int64_t count, room;
} repairs;

static void add_repair(repairs *r, double back) {
  if (r->count == r->room) return; /* as many as there are nodes: not reached */
  int64_t i = r->count++;
  for (; i > 0 && r->back[i - 1] > back; i--) r->back[i] = r->back[i - 1];
  r->back[i] = back;
}

static int64_t spares_at(repairs *r, int64_t spares, double now) {
  int64_t back = 0;
  while (back < r->count && r->back[back] <= now) back++;
  for (int64_t i = back; i < r->count; i++) r->back[i - back] = r->back[i];
  r->count -= back;
  return spares - r->count;
}

/* From time `now`, how training goes until `until`, when it fails (or the run ends): whole rounds of an interval and a stall. */
static void train(const mal_horizon_job *j, double now, double until, bool fails, run *r) {
  double length = until - now, round = j->interval_s + j->stall_s;
  if (isinf(j->interval_s)) {
    *(fails ? &r->lost : &r->kept) += length;
    return;
  }
  double rounds = floor(length / round), rest = length - rounds * round;
  double in_rest = fmin(rest, j->interval_s);
  r->stalled += rounds * j->stall_s + (rest - in_rest);
  double trained = rounds * j->interval_s + in_rest, kept = trained;
  if (fails) { /* the last checkpoint that storage has */
    double written = floor((length - j->write_s) / round);
    if (length < j->write_s) written = 0;
    if (written > rounds) written = rounds;
    kept = written * j->interval_s;
  }
  r->kept += kept;
  r->lost += trained - kept;
}

static void play(const mal_horizon_job *j, double rate, uint64_t seed, repairs *away, double *by_kind, run *r) {
  double now = 0;
  uint64_t random = seed;
  *r = (run){0};
  away->count = 0;
  while (now < j->length_s) {
    double fails = rate > 0 ? now - log(mal_unit_interval(mal_random_next(&random))) * day_s / (rate * (double)j->nodes)
                            : INFINITY;
    if (fails >= j->length_s) {
      train(j, now, j->length_s, false, r);
      return;
    }
    train(j, now, fails, true, r);
    r->failures++;
    double which = mal_unit_interval(mal_random_next(&random)) * rate;
    int kind = 0;
    while (kind + 1 < j->n_kinds && which >= j->kinds[kind].a_node_day) which -= j->kinds[kind++].a_node_day;
    by_kind[kind]++;
    now = fails;
    if (j->kinds[kind].takes_node && j->spares >= 0) {
      add_repair(away, now + j->repair_s);
      if (spares_at(away, j->spares, now) < 0) {
        double back = fmin(away->back[-(spares_at(away, j->spares, now) + 1)], j->length_s);
        r->waiting += back - now;
        now = back;
      }
    }
    double restart = fmin(j->restart_s, j->length_s - now);
    r->restarting += restart;
    now += restart;
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double at_share(const double *sorted, int n, double share) {
  double at = share * (n - 1);
  int low = (int)at;
  return low + 1 < n ? sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]) : sorted[n - 1];
}

/* --- many runs --------------------------------------------------------------------------------------------------------------- */

static double mean_goodput(const mal_horizon_job *j, double rate, double interval_s, repairs *away, double *by_kind) {
  mal_horizon_job other = *j;
  double sum = 0;
  other.interval_s = interval_s;
  for (int i = 0; i < j->runs; i++) {
    run r;
    play(&other, rate, seed_of(j->seed, i), away, by_kind, &r); /* the same failures for every interval */
    sum += r.kept / j->length_s;
  }
  return sum / j->runs;
}

/* Goodput rises and falls once over the interval: golden section over its logarithm. */
static double best_interval(const mal_horizon_job *j, double rate, double guess, repairs *away, double *by_kind,
                            double *best) {
  static const double golden = 0.6180339887498949, reach = 8;
  enum { STEPS = 20 };
  double low = log(guess / reach), high = log(guess * reach);
  double x1 = high - golden * (high - low), x2 = low + golden * (high - low);
  double y1 = mean_goodput(j, rate, exp(x1), away, by_kind), y2 = mean_goodput(j, rate, exp(x2), away, by_kind);
  for (int i = 0; i < STEPS && !(j->stop && *j->stop); i++) {
    if (y1 < y2) {
      low = x1, x1 = x2, y1 = y2;
      x2 = low + golden * (high - low);
      y2 = mean_goodput(j, rate, exp(x2), away, by_kind);
    } else {
      high = x2, x2 = x1, y2 = y1;
      x1 = high - golden * (high - low);
      y1 = mean_goodput(j, rate, exp(x1), away, by_kind);
    }
  }
  *best = fmax(y1, y2);
  return exp(y1 > y2 ? x1 : x2);
}

mal_status mal_horizon_play(mal_arena *a, const mal_horizon_job *job, bool search, mal_horizon *out, mal_error *e) {
  mal_horizon_job j = *job;
  double rate = mal_failures_rate(j.kinds, j.n_kinds);
  if (j.runs < 1 || j.nodes < 1 || !(j.length_s > 0) || j.n_kinds < 1)
    return mal_fail(e, MAL_FAULT, _("a long run needs nodes, a length, runs and kinds of failures"));
  *out = (mal_horizon){.mttf_s = mal_mttf_s(rate, j.nodes)};
  out->young_s = mal_interval_young_s(j.stall_s, out->mttf_s);
  out->daly_s = mal_interval_daly_s(j.stall_s, out->mttf_s);
  if (!(j.interval_s > 0)) j.interval_s = fmax(out->daly_s, j.write_s);
  out->interval_s = j.interval_s;
  out->by_kind = MAL_ARRAY(a, double, j.n_kinds);
  double *goodput = MAL_ARRAY(a, double, j.runs), *scratch = MAL_ARRAY(a, double, j.n_kinds);
  repairs away = {.room = j.nodes + (j.spares > 0 ? j.spares : 0) + 1};
  away.back = MAL_ARRAY(a, double, away.room);
  for (; out->runs < j.runs && !(j.stop && *j.stop); out->runs++) {
    run r;
    play(&j, rate, seed_of(j.seed, out->runs), &away, out->by_kind, &r);
    goodput[out->runs] = r.kept / j.length_s;
    out->goodput += goodput[out->runs];
    out->lost_work += r.lost / j.length_s;
    out->restarts += r.restarting / j.length_s;
    out->waits += r.waiting / j.length_s;
    out->checkpoints += r.stalled / j.length_s;
    out->failures += r.failures;
  }
  double n = out->runs ? out->runs : 1;
  out->goodput /= n, out->lost_work /= n, out->restarts /= n, out->waits /= n, out->checkpoints /= n,
      out->failures /= n;
  for (int i = 0; i < j.n_kinds; i++) out->by_kind[i] /= n;
  qsort(goodput, (size_t)out->runs, sizeof *goodput, by_value);
  if (out->runs) {
    out->low = at_share(goodput, out->runs, 0.1), out->high = at_share(goodput, out->runs, 0.9);
    out->median = at_share(goodput, out->runs, 0.5);
  }
  out->formula = mal_ettr(out->mttf_s, j.restart_s + j.write_s, j.interval_s, j.stall_s);
  if (!search || isinf(out->daly_s)) return MAL_OK;
  out->young_goodput = mean_goodput(&j, rate, out->young_s, &away, scratch);
  out->daly_goodput = mean_goodput(&j, rate, out->daly_s, &away, scratch);
  out->best_s = best_interval(&j, rate, out->daly_s, &away, scratch, &out->best_goodput);
  return MAL_OK;
}
