/* What every communication backend must do, with rank threads and with rank processes where it takes them. */
#include "comm_ranks.h"
#include "core/dtype.h"
#include <signal.h>
#include <time.h>

typedef struct kind {
  const mal_comm_backend *b;
  bool processes;
} kind;
static const kind kinds[] = {{&mal_comm_shm, false}, {&mal_comm_shm, true}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const int32_t sizes_of_worlds[] = {1, 2, 3, 8};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- values ------------------------------------------------------------------------------------------------------------ */

/* Small integers: exact in every type and in every sum of eight of them (bf16 holds integers up to 256). */
static int value(int rank, int part, int64_t i) { return (int)((rank * 7 + part * 3 + i * 5 + i / 11) % 23) - 6; }

static void put(mal_dtype type, void *at, int64_t i, int x) {
  float f = (float)x;
  uint32_t u;
  memcpy(&u, &f, 4);
  switch (type) {
  case MAL_F32:
  case MAL_TF32: ((float *)at)[i] = f; break;
  case MAL_BF16: ((uint16_t *)at)[i] = (uint16_t)(u >> 16); break;
  case MAL_F16:
    ((uint16_t *)at)[i] = x ? (uint16_t)((u >> 16 & 0x8000) | ((u >> 13 & 0x3ffff) - (112 << 10))) : 0;
    break;
  case MAL_I64: ((int64_t *)at)[i] = x; break;
  case MAL_I32: ((int32_t *)at)[i] = x; break;
  case MAL_F4:
    ((uint8_t *)at)[i / 2] = (uint8_t)(i % 2 ? (((uint8_t *)at)[i / 2] & 15) | (x & 15) << 4 : x & 15);
    break;
  default: ((int8_t *)at)[i] = (int8_t)x; break;
  }
}

static bool holds(mal_dtype type, const void *at, int64_t i, int x) {
  if (type == MAL_F4) return (((const uint8_t *)at)[i / 2] >> (i % 2 ? 4 : 0) & 15) == (x & 15);
  char want[8], have[8];
  size_t bytes = (size_t)mal_dtype_bytes[type];
  put(type, want, 0, x);
  memcpy(have, (const char *)at + i * (int64_t)bytes, bytes);
  return memcmp(want, have, bytes) == 0;
}

static int64_t bytes_of(mal_dtype type, int64_t n) { return (int64_t)((double)n * mal_dtype_bytes[type]); }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* --- every collective, type and size ------------------------------------------------------------------------------------- */

typedef struct shape {
  mal_collective op;
  mal_dtype type;
  mal_reduction reduction;
  int64_t elements[MAL_COMM_PARTS];
  bool in_place;
  int root;
} shape;

static int expected(const shape *s, int part, int n, int me, int64_t i, int64_t each) {
  int best = value(0, part, i), sum = 0;
  for (int r = 0; r < n; r++) {
    sum += value(r, part, i);
    if (value(r, part, i) > best) best = value(r, part, i);
  }
  switch (s->op) {
  case MAL_ALL_REDUCE:
  case MAL_REDUCE_SCATTER: return s->reduction == MAL_MAX ? best : sum;
  case MAL_ALL_GATHER: return value((int)(i / each), part, i);
  case MAL_ALL_TO_ALL: return value((int)(i / each), part, me * each + i % each);
  default: return value(s->root, part, i);
  }
}

/* Puts the operands of rank `me` for part p into the room; in and out of the call say where. */
static void lay_out(rank_env *env, const shape *s, int p, char **at, mal_comm_call *call) {
  int n = env->ranks, me = env->rank;
  int64_t all = s->elements[p], each = (all + n - 1) / n, first = 0, mine = all;
  if (s->op == MAL_ALL_GATHER) {
    first = least(me * each, all);
    mine = least(first + each, all) - first;
  }
  char *whole = *at, *apart = whole + (bytes_of(s->type, all) + 127) / 64 * 64;
  *at = apart + (bytes_of(s->type, all) + 127) / 64 * 64;
  memset(whole, 0x55, (size_t)(*at - whole));
  char *in = s->in_place ? whole + bytes_of(s->type, first) : apart;
  for (int64_t i = 0; i < mine; i++) put(s->type, in, i, value(me, p, first + i));
  call->in[p] = in;
  call->out[p] = whole;
  if (s->op == MAL_REDUCE_SCATTER && s->in_place) call->out[p] = whole + bytes_of(s->type, least(me * each, all));
  call->elements[p] = all;
}

static void judge(rank_env *env, const shape *s, const mal_comm_call *call, int p) {
  int n = env->ranks, me = env->rank;
  int64_t all = s->elements[p], each = (all + n - 1) / n, first = 0, count = all;
  if (!all) return;
  if (s->op == MAL_REDUCE_SCATTER) {
    first = least(me * each, all);
    count = least(first + each, all) - first;
  }
  for (int64_t i = 0; i < count; i++) {
    int want = expected(s, p, n, me, first + i, each);
    must(env, holds(s->type, call->out[p], i, want), "%s of %s, %lld elements, part %d: element %lld is not %d",
         mal_collective_name[s->op], mal_dtype_name[s->type], (long long)all, p, (long long)(first + i), want);
    if (env->said->failed) return;
  }
  if (s->op == MAL_REDUCE_SCATTER || s->type == MAL_F4) return;
  must(env, *((const char *)call->out[p] + bytes_of(s->type, all)) == 0x55, "%s wrote behind its output",
       mal_collective_name[s->op]);
}

static void run_shape(rank_env *env, int32_t group, const shape *s) {
  mal_error e = {0};
  mal_comm_call call = {.op = (int32_t)s->op,
                        .reduction = (int32_t)s->reduction,
                        .dtype = (int32_t)s->type,
                        .root = s->root,
                        .name = "test",
                        .step = 1};
  char *at = env->room;
  for (int p = 0; p < MAL_COMM_PARTS; p++) lay_out(env, s, p, &at, &call);
  mal_comm_ticket t;
  must(env, !env->b->start(env->c, group, &call, &t, &e), "%s", e.text);
  if (env->said->failed) return;
  must(env, !env->b->wait(env->c, t, &e), "%s", e.text);
  for (int p = 0; p < MAL_COMM_PARTS && !env->said->failed; p++) judge(env, s, &call, p);
}

static int64_t legal(const shape *s, int32_t n, int64_t elements) {
  if (s->op == MAL_ALL_TO_ALL) elements = (elements + n - 1) / n * n;
  if (s->type == MAL_F4) elements = (elements + 2 * n - 1) / (2 * n) * 2 * n;
  return elements;
}

/* Of the long one (several chunks a member) every third type, for time. */
static void run_shapes(rank_env *env) {
  static const int64_t lengths[] = {1, 3, 17, 1000, 4099, 140009};
  const mal_collective op = *(const mal_collective *)env->context;
  bool sums = op == MAL_ALL_REDUCE || op == MAL_REDUCE_SCATTER;
  mal_error e = {0};
  int32_t group, n = env->ranks;
  mal_members all = {.base = 0, .dims = 1, .extent = {n}, .stride = {1}};
  must(env, !env->b->group(env->c, &all, "all", &group, &e), "%s", e.text);
  for (int type = 0; type < MAL_DTYPES; type++)
    for (int l = 0; l < (int)(sizeof lengths / sizeof *lengths); l++)
      for (int variant = 0; variant < 2 && !env->said->failed; variant++) {
        if (sums && (type == MAL_F8 || type == MAL_F4)) continue;
        if (l == 5 && (type + n + variant) % 3) continue;
        shape s = {.op = op,
                   .type = (mal_dtype)type,
                   .reduction = (mal_reduction)(sums && l % 2 && variant),
                   .in_place = variant && op != MAL_ALL_TO_ALL,
                   .root = l % n};
        s.elements[0] = legal(&s, n, lengths[l]);
        if (l % 3 == 0) s.elements[1] = legal(&s, n, lengths[l] / 2);
        if (l % 2 == 0) s.elements[2] = legal(&s, n, lengths[(l + 2) % 5]);
        run_shape(env, group, &s);
      }
}

static void collectives(mal_collective op) {
  for (int k = 0; k < KINDS; k++)
    for (size_t i = 0; i < sizeof sizes_of_worlds / sizeof *sizes_of_worlds; i++)
      on_ranks(kinds[k].b, kinds[k].processes, sizes_of_worlds[i], run_shapes, &op);
}

static void test_all_reduce(void **state) { (void)state, collectives(MAL_ALL_REDUCE); }
static void test_all_gather(void **state) { (void)state, collectives(MAL_ALL_GATHER); }
static void test_reduce_scatter(void **state) { (void)state, collectives(MAL_REDUCE_SCATTER); }
static void test_all_to_all(void **state) { (void)state, collectives(MAL_ALL_TO_ALL); }
static void test_broadcast(void **state) { (void)state, collectives(MAL_BROADCAST); }

/* --- rounding and order -------------------------------------------------------------------------------------------------- */

static float uneven(int rank, int64_t i) {
  static const float scale[] = {1e8f, 1, -1e8f, 1e-3f, 3e7f, -7, 1e-8f, 0.1f};
  return scale[(rank + i) % 8] * (float)(1 + i % 7);
}

static uint16_t bf16_of(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  uint32_t down = u & 0xffff0000, up = down + 0x10000, rest = u & 0xffff;
  return (uint16_t)((rest > 0x8000 || (rest == 0x8000 && (down >> 16 & 1)) ? up : down) >> 16);
}

static float of_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

enum { ORDER_N = 70001 };

static void run_order(rank_env *env) {
  mal_error e = {0};
  mal_members all = {.dims = 1, .extent = {env->ranks}, .stride = {1}};
  int32_t group;
  must(env, !env->b->group(env->c, &all, "all", &group, &e), "%s", e.text);
  float *x = (float *)(void *)env->room;
  uint16_t *h = (uint16_t *)(void *)(env->room + (1 << 20));
  for (int64_t i = 0; i < ORDER_N; i++) {
    x[i] = uneven(env->rank, i);
    h[i] = bf16_of(x[i]);
  }
  mal_comm_call calls[] = {{.op = MAL_ALL_REDUCE, .dtype = MAL_F32, .in = {x}, .out = {x}, .elements = {ORDER_N}},
                           {.op = MAL_ALL_REDUCE, .dtype = MAL_BF16, .in = {h}, .out = {h}, .elements = {ORDER_N}}};
  mal_comm_ticket t[2];
  for (int k = 0; k < 2; k++) must(env, !env->b->start(env->c, group, &calls[k], &t[k], &e), "%s", e.text);
  for (int k = 0; k < 2; k++) must(env, !env->b->wait(env->c, t[k], &e), "%s", e.text);
  for (int64_t i = 0; i < ORDER_N; i++) {
    float sum = uneven(0, i), half = of_bf16(bf16_of(uneven(0, i)));
    for (int r = 1; r < env->ranks; r++) {
      sum += uneven(r, i);
      half += of_bf16(bf16_of(uneven(r, i)));
    }
    must(env, memcmp(&x[i], &sum, 4) == 0, "fp32 element %d: %a, not %a", (int)i, (double)x[i], (double)sum);
    must(env, h[i] == bf16_of(half), "bf16 element %d: %x, not %x", (int)i, h[i], bf16_of(half));
  }
}

static void test_sums_are_in_member_order_and_rounded_once(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++)
    for (size_t i = 0; i < sizeof sizes_of_worlds / sizeof *sizes_of_worlds; i++)
      on_ranks(kinds[k].b, kinds[k].processes, sizes_of_worlds[i], run_order, NULL);
}

/* Not a number stays so in sums and maxima, wherever it lies. */
static void run_nan(rank_env *env) {
  mal_error e = {0};
  mal_members all = {.dims = 1, .extent = {env->ranks}, .stride = {1}};
  int32_t group;
  enum { MANY = 37 };
  must(env, !env->b->group(env->c, &all, "all", &group, &e), "%s", e.text);
  for (int kind = 0; kind < 4; kind++) {
    bool brain = kind & 1;
    uint32_t *x = (uint32_t *)(void *)env->room;
    uint16_t *h = (uint16_t *)(void *)env->room;
    for (int i = 0; i < MANY; i++) {
      uint32_t bits = i % 3 == env->rank ? 0x7fc00000 : 0xbf800000; /* NaN or -1 */
      if (brain)
        h[i] = (uint16_t)(bits >> 16);
      else
        x[i] = bits;
    }
    mal_comm_call call = {.op = MAL_ALL_REDUCE,
                          .reduction = kind / 2 ? MAL_MAX : MAL_SUM,
                          .dtype = brain ? MAL_BF16 : MAL_F32,
                          .in = {x},
                          .out = {x},
                          .elements = {MANY}};
    mal_comm_ticket t;
    must(env, !env->b->start(env->c, group, &call, &t, &e) && !env->b->wait(env->c, t, &e), "%s", e.text);
    for (int i = 0; i < MANY; i++) {
      bool is = brain ? (h[i] & 0x7fff) > 0x7f80 : (x[i] & 0x7fffffff) > 0x7f800000;
      must(env, is == (i % 3 < env->ranks), "element %d of kind %d", i, kind);
    }
  }
}

static void test_nan_stays(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 3; ranks++) on_ranks(kinds[0].b, false, ranks, run_nan, NULL);
}

/* All 2^16 values of fp16 against the processor's double: the sum of x and 0 is x, and halves round to even. */
static float of_f16(uint16_t h) {
  int e = h >> 10 & 31, m = h & 1023;
  double v = e ? (1 + m / 1024.0) : m / 1024.0 * 2;
  for (int i = 15; i < e; i++) v *= 2;
  for (int i = e ? e : 0; i < 15; i++) v /= 2;
  return (float)(h & 0x8000 ? -v : v);
}

static void run_f16(rank_env *env) {
  mal_error e = {0};
  mal_members all = {.dims = 1, .extent = {env->ranks}, .stride = {1}};
  int32_t group;
  must(env, !env->b->group(env->c, &all, "all", &group, &e), "%s", e.text);
  uint16_t *h = (uint16_t *)(void *)env->room;
  for (int i = 0; i < 65536; i++) h[i] = env->rank == 0 ? (uint16_t)i : (uint16_t)(i * 40503u);
  mal_comm_call call = {.op = MAL_ALL_REDUCE, .dtype = MAL_F16, .in = {h}, .out = {h}, .elements = {65536}};
  mal_comm_ticket t;
  must(env, !env->b->start(env->c, group, &call, &t, &e) && !env->b->wait(env->c, t, &e), "%s", e.text);
  for (int i = 0; i < 65536; i++) {
    uint16_t a = (uint16_t)i, b = (uint16_t)(i * 40503u);
    if ((a >> 10 & 31) == 31 || (b >> 10 & 31) == 31) continue; /* infinities and NaN */
    double sum = (double)of_f16(a) + (double)of_f16(b), got = (double)of_f16(h[i]), size = sum < 0 ? -sum : sum;
    if (size >= 65520) {
      must(env, (h[i] & 0x7fff) == 0x7c00, "fp16 %x + %x is not infinite", a, b);
      continue;
    }
    /* the nearest: neither neighbour is nearer, and of two equally near the even one */
    double off = got < sum ? sum - got : got - sum;
    for (int d = -1; d <= 1; d += 2) {
      uint16_t next = (uint16_t)(h[i] + d);
      if ((h[i] & 0x7fff) == 0 || (next >> 10 & 31) == 31) continue;
      double other = (double)of_f16(next), far = other < sum ? sum - other : other - sum;
      must(env, off < far || (off == far && !(h[i] & 1)), "fp16 %x + %x gave %x, and %x is nearer", a, b, h[i], next);
    }
  }
}

static void test_fp16_rounds_to_nearest(void **state) {
  (void)state;
  on_ranks(kinds[0].b, false, 2, run_f16, NULL);
}

/* --- messages ------------------------------------------------------------------------------------------------------------ */

static int64_t message_bytes(int from, int to, int k) {
  return k == 0 ? 1 : k == 1 ? 16384 + from : 300000 + 7 * from + to;
}

/* Every rank to every other at once, several messages a pair, received in the opposite order. */
static void run_messages(rank_env *env) {
  mal_error e = {0};
  mal_members all = {.dims = 1, .extent = {env->ranks}, .stride = {1}};
  int32_t group;
  must(env, !env->b->group(env->c, &all, "all", &group, &e), "%s", e.text);
  mal_comm_ticket t[MAL_COMM_OPEN];
  int open = 0, me = env->rank, n = env->ranks;
  char *at = env->room, *into[MOST_RANKS][3] = {{0}};
  int64_t sent = 0;
  for (int peer = 0; peer < n; peer++)
    for (int k = 0; k < 3; k++) {
      if (peer == me) continue;
      int64_t bytes = message_bytes(me, peer, k);
      memset(at, me * 16 + k + 1, (size_t)bytes);
      must(env, !env->b->send(env->c, group, peer, (uint64_t)k, at, bytes, &t[open++], &e), "%s", e.text);
      at += bytes;
      sent += bytes;
    }
  for (int peer = n - 1; peer >= 0; peer--)
    for (int k = 2; k >= 0; k--) {
      if (peer == me) continue;
      int64_t bytes = message_bytes(peer, me, k);
      into[peer][k] = at;
      must(env, !env->b->recv(env->c, group, peer, (uint64_t)k, at, bytes, &t[open++], &e), "%s", e.text);
      at += bytes;
    }
  while (open) must(env, !env->b->wait(env->c, t[--open], &e), "%s", e.text);
  for (int peer = 0; peer < n; peer++)
    for (int k = 0; k < 3; k++)
      for (int64_t i = 0; peer != me && i < message_bytes(peer, me, k); i++)
        must(env, into[peer][k][i] == (char)(peer * 16 + k + 1), "byte %lld of message %d from %d", (long long)i, k,
             peer);
  must(env, env->b->sent_bytes(env->c, group) == sent, "%lld bytes counted, %lld sent",
       (long long)env->b->sent_bytes(env->c, group), (long long)sent);
}

/* A pipeline's pattern: stage to stage, many micro-batches in flight, the same tag: first sent, first received. */
static void run_pipe(rank_env *env) {
  mal_error e = {0};
  mal_members all = {.dims = 1, .extent = {env->ranks}, .stride = {1}};
  int32_t group;
  must(env, !env->b->group(env->c, &all, "pp", &group, &e), "%s", e.text);
  enum { ROUNDS = 200, BYTES = 30000, DEPTH = 8 };
  mal_comm_ticket sends[DEPTH] = {0};
  char *in = env->room, *out = env->room + (1 << 20);
  for (int m = 0; m < ROUNDS && !env->said->failed; m++) {
    mal_comm_ticket t;
    char *buffer = out + (long)(m % DEPTH) * BYTES;
    if (m >= DEPTH && env->rank + 1 < env->ranks) must(env, !env->b->wait(env->c, sends[m % DEPTH], &e), "%s", e.text);
    if (env->rank) {
      must(env, !env->b->recv(env->c, group, env->rank - 1, 5, in, BYTES, &t, &e) && !env->b->wait(env->c, t, &e), "%s",
           e.text);
      must(env, in[0] == (char)(m + env->rank - 1) && in[BYTES - 1] == in[0], "message %d of stage %d", m, env->rank);
    }
    memset(buffer, m + env->rank, BYTES);
    if (env->rank + 1 < env->ranks)
      must(env, !env->b->send(env->c, group, env->rank + 1, 5, buffer, BYTES, &sends[m % DEPTH], &e), "%s", e.text);
  }
  for (int m = 0; m < DEPTH && env->rank + 1 < env->ranks; m++)
    must(env, !env->b->wait(env->c, sends[m], &e), "%s", e.text);
}

static void test_messages(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++)
    for (size_t i = 0; i < sizeof sizes_of_worlds / sizeof *sizes_of_worlds; i++) {
      on_ranks(kinds[k].b, kinds[k].processes, sizes_of_worlds[i], run_messages, NULL);
      on_ranks(kinds[k].b, kinds[k].processes, sizes_of_worlds[i], run_pipe, NULL);
    }
}

/* --- groups at once, overlap, counters ----------------------------------------------------------------------------------- */

/* tp=2, dp=2, pp=2. Calls of four groups are open at once; odd ranks wait for them in the opposite order. */
static void run_overlap(rank_env *env) {
  mal_error e = {0};
  int r = env->rank;
  const mal_members groups[] = {
      {.base = r & 6, .dims = 1, .extent = {2}, .stride = {1}},
      {.base = r & 5, .dims = 1, .extent = {2}, .stride = {2}},
      {.base = r & 3, .dims = 1, .extent = {2}, .stride = {4}},
      {.base = r & 2, .dims = 2, .extent = {2, 2}, .stride = {1, 4}},
  };
  enum { GROUPS = 4, ROUNDS = 100, N = 5000 };
  static const char *const names[GROUPS] = {"tp", "dp", "pp", "tp.pp"};
  int32_t id[GROUPS];
  for (int g = 0; g < GROUPS; g++) must(env, !env->b->group(env->c, &groups[g], names[g], &id[g], &e), "%s", e.text);
  for (int round = 0; round < ROUNDS && !env->said->failed; round++) {
    mal_comm_ticket t[GROUPS];
    int n = round % 2 ? N : 3;
    for (int g = 0; g < GROUPS; g++) {
      float *x = (float *)(void *)env->room + (long)g * N;
      for (int i = 0; i < n; i++) x[i] = (float)(r * 100 + g * 10 + i % 7 + round);
      mal_comm_call call = {.op = MAL_ALL_REDUCE, .dtype = MAL_F32, .in = {x}, .out = {x}, .elements = {n}};
      must(env, !env->b->start(env->c, id[g], &call, &t[g], &e), "%s", e.text);
    }
    for (int g = 0; g < GROUPS; g++) must(env, !env->b->wait(env->c, t[r % 2 ? GROUPS - 1 - g : g], &e), "%s", e.text);
    for (int g = 0; g < GROUPS; g++) {
      const float *x = (const float *)(const void *)env->room + (long)g * N;
      int size = mal_members_size(&groups[g]), base = 0;
      for (int i = 0; i < size; i++) base += mal_members_rank(&groups[g], i) * 100;
      for (int i = 0; i < n; i++)
        must(env, x[i] == (float)(base + size * (g * 10 + i % 7 + round)), "round %d, group %s, element %d: %g", round,
             names[g], i, (double)x[i]);
    }
  }
  int64_t bytes = ROUNDS / 2 * (N + 3) * 4;
  for (int g = 0; g < GROUPS; g++) {
    int64_t size = mal_members_size(&groups[g]), me = mal_members_index(&groups[g], r), each, mine = 0;
    for (int n = 3; n <= N; n += N - 3) { /* what others reduce, and its own piece to all */
      each = (n + size - 1) / size;
      int64_t piece = least((me + 1) * each, n) - least(me * each, n);
      mine += ROUNDS / 2 * 4 * (n - piece + (size - 1) * piece);
    }
    must(env, env->b->sent_bytes(env->c, id[g]) == mine, "group %s: %lld bytes counted, not %lld (of %lld)", names[g],
         (long long)env->b->sent_bytes(env->c, id[g]), (long long)mine, (long long)bytes);
  }
}

static void test_groups_overlap(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++) on_ranks(kinds[k].b, kinds[k].processes, 8, run_overlap, NULL);
}

/* Bytes of all members together: all-reduce 2 (n - 1) B, the others (n - 1) B. */
static void run_counts(rank_env *env) {
  const shape *s = env->context;
  mal_error e = {0};
  int32_t group, check;
  mal_members all = {.dims = 1, .extent = {env->ranks}, .stride = {1}};
  must(env, !env->b->group(env->c, &all, "all", &group, &e) && !env->b->group(env->c, &all, "check", &check, &e), "%s",
       e.text);
  mal_comm_call call = {.op = (int32_t)s->op, .dtype = (int32_t)s->type};
  char *at = env->room;
  for (int p = 0; p < MAL_COMM_PARTS; p++) lay_out(env, s, p, &at, &call);
  mal_comm_ticket t;
  for (int round = 0; round < 3; round++)
    must(env, !env->b->start(env->c, group, &call, &t, &e) && !env->b->wait(env->c, t, &e), "%s", e.text);
  int64_t *sum = (int64_t *)(void *)at, want = 0;
  sum[0] = env->b->sent_bytes(env->c, group);
  mal_comm_call add = {.op = MAL_ALL_REDUCE, .dtype = MAL_I64, .in = {sum}, .out = {sum}, .elements = {1}};
  must(env, !env->b->start(env->c, check, &add, &t, &e) && !env->b->wait(env->c, t, &e), "%s", e.text);
  for (int p = 0; p < MAL_COMM_PARTS; p++)
    want += 3 * (s->op == MAL_ALL_REDUCE ? 2 : 1) * (env->ranks - 1) * bytes_of(s->type, s->elements[p]);
  must(env, sum[0] == want, "%s: %lld bytes of all members, not %lld", mal_collective_name[s->op], (long long)sum[0],
       (long long)want);
}

static void test_counts(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++)
    for (int op = 0; op < MAL_COLLECTIVES; op++)
      for (size_t i = 0; i < sizeof sizes_of_worlds / sizeof *sizes_of_worlds; i++) {
        shape s = {.op = (mal_collective)op, .type = i % 2 ? MAL_BF16 : MAL_F32};
        for (int p = 0; p < MAL_COMM_PARTS; p++) s.elements[p] = legal(&s, sizes_of_worlds[i], 10007 * p + 5);
        on_ranks(kinds[k].b, kinds[k].processes, sizes_of_worlds[i], run_counts, &s);
      }
}

/* --- failing ------------------------------------------------------------------------------------------------------------- */

typedef struct failing {
  int what; /* 0 rank 2 never comes; 1 it gives up; 2 it calls another thing; 3 a message never comes; 4 it is killed */
  const char *words[4];
  double most_s;
} failing;

static mal_status fail_once(rank_env *env, const failing *f, int32_t group, mal_error *e) {
  int64_t *x = (int64_t *)(void *)env->room;
  mal_comm_call call = {.op = MAL_ALL_REDUCE,
                        .dtype = MAL_I64,
                        .in = {x},
                        .out = {x},
                        .elements = {100000},
                        .name = "grad.sum",
                        .step = 7,
                        .instruction = 41};
  mal_comm_ticket t;
  if (env->rank == 2) {
    if (f->what == 0) return MAL_FAULT;
    if (f->what == 1) {
      env->b->abort(env->world, env->rank, MAL_FAULT, "rank 2: the disk is full");
      return MAL_FAULT;
    }
    if (f->what == 2) call.elements[0] = 99999;
    if (f->what == 4) raise(SIGKILL);
  }
  mal_status status;
  if (f->what == 3)
    status = env->rank == 1 ? env->b->recv(env->c, group, 2, 9, x, 4096, &t, e) : MAL_FAULT;
  else
    status = env->b->start(env->c, group, &call, &t, e);
  return status ? status : env->b->wait(env->c, t, e);
}

static void run_failing(rank_env *env) {
  const failing *f = env->context;
  mal_error e = {0};
  int32_t group;
  mal_members all = {.dims = 1, .extent = {env->ranks}, .stride = {1}};
  must(env, !env->b->group(env->c, &all, "dp", &group, &e), "%s", e.text);
  double begin = now();
  mal_status status = fail_once(env, f, group, &e);
  must(env, status == MAL_FAULT, "status %d", status);
  must(env, now() - begin < f->most_s, "left after %g s", now() - begin);
  bool waits = f->what == 3 ? env->rank == 1 : env->rank != 2 || f->what == 2;
  for (int i = 0; i < 4 && f->words[i] && waits; i++)
    must(env, strstr(e.text, f->words[i]), "'%s' is not in: %s", f->words[i], e.text);
  if (!waits || f->what == 3) return;
  mal_comm_ticket t; /* and nothing starts any more */
  mal_error again = {0};
  must(env, env->b->send(env->c, group, 0, 1, env->room, 1, &t, &again) == MAL_FAULT && !strcmp(again.text, e.text),
       "after the failure: %s", again.text);
}

static void say_killed(const mal_comm_backend *b, mal_world *w, int32_t rank) {
  char text[64];
  snprintf(text, sizeof text, "rank %d was killed by signal 9", rank);
  b->abort(w, rank, MAL_FAULT, text);
}

static void test_failures_reach_all(void **state) {
  (void)state;
  static const failing cases[] = {
      {0, {"all-reduce 'grad.sum' of group dp", "step 7, instruction 41", "no answer from rank 2 within 0.3 s"}, 1.5},
      {1, {"rank 2: the disk is full"}, 0.25},
      {2, {"Group dp", "100000", "99999", "step 7"}, 0.25},
      {3, {"Rank 1: receive from rank 2, 4096 bytes, tag 9, group dp: no answer within 0.3 s"}, 1.5},
      {4, {"rank 2 was killed by signal 9"}, 0.28},
  };
  for (int k = 0; k < KINDS; k++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      for (int busy = 0; busy < 2; busy++) {
        if (cases[i].what == 4 && !kinds[k].processes) continue;
        mal_comm_options o = {.ranks = 4, .deadline_s = cases[i].what % 3 ? 20 : 0.3, .oversubscribed = busy};
        failing f = cases[i];
        if (o.deadline_s > 1)
          f.most_s = 10; /* of the 20 s that the deadline alone would take: this machine may be busy */
        on_ranks_until(kinds[k].b, kinds[k].processes, o, run_failing, &f, say_killed);
      }
}

static void run_refusals(rank_env *env) {
  mal_error e = {0};
  int32_t group;
  mal_members all = {.dims = 1, .extent = {env->ranks}, .stride = {1}},
              beyond = {.dims = 1, .extent = {3}, .stride = {1}}, others = {.base = 1 - env->rank, .dims = 0};
  must(env, env->b->group(env->c, &beyond, "beyond", &group, &e) && strstr(e.text, "beyond"), "%s", e.text);
  must(env, env->b->group(env->c, &others, "others", &group, &e) && strstr(e.text, "no member"), "%s", e.text);
  must(env, !env->b->group(env->c, &all, "all", &group, &e), "%s", e.text);
  void *x = env->room, *y = env->room + 4096;
  const struct {
    mal_comm_call call;
    const char *word;
  } wrong[] = {
      {{.op = MAL_ALL_REDUCE, .dtype = MAL_F8, .in = {x}, .out = {y}, .elements = {8}}, "no sums"},
      {{.op = MAL_ALL_TO_ALL, .dtype = MAL_F32, .in = {x}, .out = {y}, .elements = {9}}, "multiple"},
      {{.op = MAL_ALL_TO_ALL, .dtype = MAL_F32, .in = {x}, .out = {x}, .elements = {8}}, "in place"},
      {{.op = MAL_BROADCAST, .dtype = MAL_F32, .in = {x}, .out = {y}, .elements = {8}, .root = 2}, "root"},
      {{.op = MAL_ALL_GATHER, .dtype = MAL_F4, .in = {x}, .out = {y}, .elements = {6}}, "even"},
      {{.op = MAL_COLLECTIVES, .dtype = MAL_F32, .in = {x}, .out = {y}, .elements = {6}}, "operation"},
      {{.op = MAL_ALL_GATHER, .dtype = MAL_DTYPES, .in = {x}, .out = {y}, .elements = {6}}, "type"},
      {{.op = MAL_ALL_GATHER, .dtype = MAL_F32, .in = {x}, .out = {y}, .elements = {-6}}, "bounds"},
  };
  mal_comm_ticket t;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    must(env, env->b->start(env->c, group, &wrong[i].call, &t, &e) == MAL_FAULT && strstr(e.text, wrong[i].word),
         "'%s' is not in: %s", wrong[i].word, e.text);
  must(env, env->b->send(env->c, group, 5, 0, x, 1, &t, &e) == MAL_FAULT, "a message to member 5 of 2");
  for (int i = 0; i < MAL_COMM_OPEN; i++)
    must(env, !env->b->send(env->c, group, 1 - env->rank, (uint64_t)i, x, 1, &t, &e), "%s", e.text);
  must(env, env->b->send(env->c, group, 1 - env->rank, 1, x, 1, &t, &e) == MAL_FAULT && strstr(e.text, "64 calls"),
       "one call too many: %s", e.text);
}

static void test_wrong_calls_are_refused(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++) on_ranks(kinds[k].b, kinds[k].processes, 2, run_refusals, NULL);
}

static void test_members(void **state) {
  (void)state;
  const mal_members m = {.base = 3, .dims = 2, .extent = {2, 3}, .stride = {1, 8}};
  static const int ranks[] = {3, 4, 11, 12, 19, 20};
  assert_int_equal(mal_members_size(&m), 6);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(mal_members_rank(&m, i), ranks[i]);
    assert_int_equal(mal_members_index(&m, ranks[i]), i);
  }
  assert_int_equal(mal_members_index(&m, 5), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_members),
      cmocka_unit_test(test_all_reduce),
      cmocka_unit_test(test_all_gather),
      cmocka_unit_test(test_reduce_scatter),
      cmocka_unit_test(test_all_to_all),
      cmocka_unit_test(test_broadcast),
      cmocka_unit_test(test_sums_are_in_member_order_and_rounded_once),
      cmocka_unit_test(test_nan_stays),
      cmocka_unit_test(test_fp16_rounds_to_nearest),
      cmocka_unit_test(test_messages),
      cmocka_unit_test(test_groups_overlap),
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_failures_reach_all),
      cmocka_unit_test(test_wrong_calls_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
