/* Kernels of the CPU against the same functions written here in fp64: forward values, and gradients by central differences.
 *
 * A case says how many elements its inputs and outputs have, and its function in fp64. L = Σ c · out for fixed c; the kernel's
 * gradients of L, with dy = c, must be (L(x + h) - L(x - h)) / 2h. */
#include "engine/device/device.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

enum { MOST_INPUTS = 4, MOST_OUTPUTS = 3, PROBES = 24 };
static const double STEP = 1e-5;

typedef struct kase kase;
typedef void reference(const kase *k, double *const in[], double *const out[]);
struct kase {
  const char *name;
  int op, variant, flags;
  int64_t v[8], n_in[MOST_INPUTS], n_out[MOST_OUTPUTS]; /* outputs that are values of the function; not what is kept */
  reference *f;
  int kept; /* elements of the extra output (statistics), as the output after the values */
};

static const mal_layer_kind kinds[1] = {{.head_dim = 8, .rope_dim = 6, .rope_theta = 10000}};
static float table[64 * 6];
static const float *const rope_tables[1] = {table};
static const mal_rank_facts facts = {
    .tokens = 12, .seq = 6, .vocab = 37, .norm_eps = 1e-5f, .loss_scale = 1, .rope = rope_tables, .kinds = kinds};

static uint32_t dice = 5;
static double uniform(void) {
  dice = dice * 1664525u + 1013904223u;
  return (double)(dice >> 8) / (1 << 24) * 2 - 1;
}

/* --- references -------------------------------------------------------------------------------------------------------- */

static void ref_matmul(const kase *k, double *const in[], double *const out[]) {
  int64_t m = k->v[0], width = k->v[2], from = 0;
  for (int p = 0; p < MOST_OUTPUTS; p++) {
    int64_t cols = k->n_out[p] / m;
    for (int64_t r = 0; r < m; r++)
      for (int64_t c = 0; c < cols; c++) {
        double sum = k->n_in[2] ? in[2][from + c] : 0;
        for (int64_t j = 0; j < width; j++) sum += in[0][r * width + j] * in[1][(from + c) * width + j];
        out[p][r * cols + c] = sum;
      }
    from += cols;
  }
}

static void ref_norm(const kase *k, double *const in[], double *const out[]) {
  int64_t rows = k->v[0], cols = k->v[1];
  for (int64_t r = 0; r < rows; r++) {
    const double *x = in[0] + r * cols;
    double mean = 0, squares = 0;
    for (int64_t j = 0; j < cols && k->variant == MAL_LAYERNORM; j++) mean += x[j] / (double)cols;
    for (int64_t j = 0; j < cols; j++) squares += (x[j] - mean) * (x[j] - mean) / (double)cols;
    for (int64_t j = 0; j < cols; j++)
      out[0][r * cols + j] =
          (x[j] - mean) / sqrt(squares + (double)facts.norm_eps) * in[1][j] + (k->n_in[2] ? in[2][j] : 0);
  }
}

static double act(int variant, double x) {
  switch (variant) {
  case MAL_GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
  case MAL_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
  case MAL_SILU: return x / (1 + exp(-x));
  case MAL_RELU: return x > 0 ? x : 0;
  default: return x > 0 ? x * x : 0;
  }
}

static void ref_activation(const kase *k, double *const in[], double *const out[]) {
  for (int64_t j = 0; j < k->n_out[0]; j++) out[0][j] = act(k->variant, in[0][j]) * (k->n_in[1] ? in[1][j] : 1);
}

static void ref_rope(const kase *k, double *const in[], double *const out[]) {
  int64_t d = kinds->head_dim, half = kinds->rope_dim / 2;
  for (int p = 0; p < 2; p++)
    for (int64_t at = 0; at < k->n_out[p]; at += d) {
      int64_t token = at / (k->n_out[p] / facts.tokens), position = token % facts.seq;
      for (int64_t j = 0; j < d; j++) out[p][at + j] = in[p][at + j];
      for (int64_t j = 0; j < half; j++) {
        double angle = (double)position / pow(kinds->rope_theta, 2.0 * (double)j / (double)kinds->rope_dim);
        double a = in[p][at + j], b = in[p][at + half + j];
        out[p][at + j] = a * cos(angle) - b * sin(angle);
        out[p][at + half + j] = b * cos(angle) + a * sin(angle);
      }
    }
}

static void ref_attention(const kase *k, double *const in[], double *const out[]) {
  int64_t s = k->v[0], q_len = k->v[1], kv = k->v[2], hq = k->v[3], hk = k->v[4], d = k->v[5], dv = k->v[6],
          w = k->v[7];
  double *p = malloc((size_t)kv * sizeof *p);
  for (int64_t b = 0; b < s; b++)
    for (int64_t h = 0; h < hq; h++)
      for (int64_t i = 0; i < q_len; i++) {
        int64_t g = h / (hq / hk), from = w > 0 && i - w + 1 > 0 ? i - w + 1 : 0;
        double sum = 0, *o = out[0] + ((b * q_len + i) * hq + h) * dv;
        for (int64_t j = from; j <= i; j++) {
          double score = 0;
          for (int64_t c = 0; c < d; c++)
            score += in[0][((b * q_len + i) * hq + h) * d + c] * in[1][((b * kv + j) * hk + g) * d + c];
          sum += p[j] = exp(score / sqrt((double)d));
        }
        for (int64_t c = 0; c < dv; c++) {
          o[c] = 0;
          for (int64_t j = from; j <= i; j++) o[c] += p[j] / sum * in[2][((b * kv + j) * hk + g) * dv + c];
        }
      }
  free(p);
}

/* --- one case ------------------------------------------------------------------------------------------------------------ */

typedef struct values {
  double *in[MOST_INPUTS], *out[MOST_OUTPUTS], *c[MOST_OUTPUTS];
  float *in32[MOST_INPUTS], *out32[MOST_OUTPUTS], *c32[MOST_OUTPUTS], *kept, *d32[MOST_INPUTS], *scratch;
} values;

static void *room(int64_t n, size_t size) { return calloc((size_t)(n ? n : 1), size); }

static void prepare(const kase *k, values *x) {
  for (int p = 0; p < MOST_INPUTS; p++) {
    x->in[p] = room(k->n_in[p], sizeof(double)), x->in32[p] = room(k->n_in[p], sizeof(float));
    x->d32[p] = room(k->n_in[p], sizeof(float));
    for (int64_t j = 0; j < k->n_in[p]; j++) x->in[p][j] = (double)(x->in32[p][j] = (float)uniform());
  }
  for (int p = 0; p < MOST_OUTPUTS; p++) {
    x->out[p] = room(k->n_out[p], sizeof(double)), x->out32[p] = room(k->n_out[p], sizeof(float));
    x->c[p] = room(k->n_out[p], sizeof(double)), x->c32[p] = room(k->n_out[p], sizeof(float));
    for (int64_t j = 0; j < k->n_out[p]; j++) x->c[p][j] = (double)(x->c32[p][j] = (float)uniform());
  }
  x->kept = room(k->kept, sizeof(float));
  x->scratch = room(1 << 16, sizeof(float));
}

static void release(values *x) {
  for (int p = 0; p < MOST_INPUTS; p++) free(x->in[p]), free(x->in32[p]), free(x->d32[p]);
  for (int p = 0; p < MOST_OUTPUTS; p++) free(x->out[p]), free(x->out32[p]), free(x->c[p]), free(x->c32[p]);
  free(x->kept), free(x->scratch);
}

static double loss(const kase *k, values *x) {
  double sum = 0;
  k->f(k, x->in, x->out);
  for (int p = 0; p < MOST_OUTPUTS; p++)
    for (int64_t j = 0; j < k->n_out[p]; j++) sum += x->c[p][j] * x->out[p][j];
  return sum;
}

static void call_forward(const kase *k, values *x) {
  mal_instruction i = {.op = (uint8_t)k->op, .variant = (uint8_t)k->variant, .flags = (uint16_t)k->flags};
  mal_kernel_call c = {.i = &i, .v = k->v, .scratch = x->scratch, .facts = &facts, .kind = kinds};
  int outs = 0;
  for (int p = 0; p < MOST_INPUTS; p++)
    if (k->n_in[p]) c.in[p] = x->in32[p], c.n_in[p] = k->n_in[p];
  for (; outs < MOST_OUTPUTS && k->n_out[outs]; outs++) c.out[outs] = x->out32[outs], c.n_out[outs] = k->n_out[outs];
  if (k->kept) c.out[outs] = x->kept, c.n_out[outs] = k->kept;
  mal_cpu.kernel[k->op](&c);
}

/* Operands of gradients as instruction.h orders them. */
static void call_backward(const kase *k, values *x) {
  mal_instruction i = {
      .op = (uint8_t)k->op, .variant = (uint8_t)k->variant, .flags = (uint16_t)(k->flags | MAL_INS_GRAD)};
  mal_kernel_call c = {.i = &i, .v = k->v, .scratch = x->scratch, .facts = &facts, .kind = kinds};
  switch (k->op) {
  case MAL_OP_NORM:
    c.in[0] = x->in32[0], c.in[1] = x->in32[1], c.in[2] = x->kept, c.in[3] = x->c32[0];
    c.out[0] = x->d32[0], c.out[1] = x->d32[1], c.out[2] = k->n_in[2] ? x->d32[2] : NULL;
    break;
  case MAL_OP_ACTIVATION:
    c.in[0] = x->in32[0], c.in[1] = k->n_in[1] ? x->in32[1] : NULL, c.in[2] = x->c32[0];
    c.out[0] = x->d32[0], c.out[1] = x->d32[1];
    break;
  case MAL_OP_ROPE: c.in[0] = x->c32[0], c.in[1] = x->c32[1], c.out[0] = x->d32[0], c.out[1] = x->d32[1]; break;
  default: /* attention */
    for (int p = 0; p < 3; p++) c.in[p] = x->in32[p], c.out[p] = x->d32[p];
    c.in[3] = x->out32[0], c.in[4] = x->c32[0], c.in[5] = x->kept;
  }
  for (int p = 0; p < MOST_OUTPUTS; p++) c.n_out[p] = c.out[p] ? k->n_in[p] : 0;
  mal_cpu.kernel[k->op](&c);
}

static void call_product_backward(const kase *k, values *x) {
  int64_t m = k->v[0], n = k->v[1], width = k->v[2];
  int64_t input[4] = {m, width, n, 1}, weight[4] = {n, width, m, 1};
  mal_instruction i = {.op = MAL_OP_MATMUL, .flags = MAL_INS_GRAD};
  mal_kernel_call c = {.i = &i, .v = input, .facts = &facts};
  for (int p = 0; p < MOST_OUTPUTS; p++) c.in[p] = x->c32[p], c.n_in[p] = k->n_out[p];
  c.in[3] = x->in32[1], c.out[0] = x->d32[0];
  mal_cpu.kernel[MAL_OP_MATMUL](&c);
  i.flags = MAL_INS_GRAD | MAL_INS_WEIGHT_GRAD | MAL_INS_TRANSPOSE_A | MAL_INS_ACCUMULATE;
  c.v = weight, c.in[3] = x->in32[0], c.out[0] = x->d32[1];
  mal_cpu.kernel[MAL_OP_MATMUL](&c);
  if (!k->n_in[2]) return;
  int64_t rows[2] = {m, n};
  i = (mal_instruction){.op = MAL_OP_REDUCE_ROWS, .flags = MAL_INS_GRAD | MAL_INS_ACCUMULATE};
  c.v = rows, c.out[0] = x->d32[2], c.n_out[0] = n;
  mal_cpu.kernel[MAL_OP_REDUCE_ROWS](&c);
}

static void check_forward(const kase *k, values *x) {
  loss(k, x);
  for (int p = 0; p < MOST_OUTPUTS; p++)
    for (int64_t j = 0; j < k->n_out[p]; j++)
      if (!(fabs((double)x->out32[p][j] - x->out[p][j]) <= 2e-6 * (1 + fabs(x->out[p][j]))))
        fail_msg("%s: output %d[%lld] is %.9g, in fp64 %.9g", k->name, p, (long long)j, (double)x->out32[p][j],
                 x->out[p][j]);
}

static void check_gradients(const kase *k, values *x) {
  for (int p = 0; p < MOST_INPUTS; p++)
    for (int probe = 0; probe < PROBES && k->n_in[p]; probe++) {
      int64_t j = k->n_in[p] <= PROBES ? probe % k->n_in[p] : (int64_t)((uniform() + 1) / 2 * (double)k->n_in[p]);
      double at = x->in[p][j];
      x->in[p][j] = at + STEP;
      double up = loss(k, x);
      x->in[p][j] = at - STEP;
      double slope = (up - loss(k, x)) / (2 * STEP);
      x->in[p][j] = at;
      if (fabs(at) < 2 * STEP) continue; /* a corner of relu */
      if (!(fabs((double)x->d32[p][j] - slope) <= 2e-5 * (1 + fabs(slope))))
        fail_msg("%s: gradient %d[%lld] is %.9g, by differences %.9g", k->name, p, (long long)j, (double)x->d32[p][j],
                 slope);
    }
}

static const kase cases[] = {
    {"product", MAL_OP_MATMUL, 0, MAL_INS_TRANSPOSE_B, {7, 20, 9, 1}, {63, 180}, {140}, ref_matmul, 0},
    {"product of three pieces",
     MAL_OP_MATMUL,
     0,
     MAL_INS_TRANSPOSE_B,
     {6, 14, 5, 1},
     {30, 70, 14},
     {36, 24, 24},
     ref_matmul,
     0},
    {"layer norm", MAL_OP_NORM, MAL_LAYERNORM, 0, {5, 24}, {120, 24, 24}, {120}, ref_norm, 10},
    {"rms norm", MAL_OP_NORM, MAL_RMSNORM, 0, {5, 24}, {120, 24}, {120}, ref_norm, 5},
    {"gelu", MAL_OP_ACTIVATION, MAL_GELU, 0, {100}, {100}, {100}, ref_activation, 0},
    {"gelu by tanh", MAL_OP_ACTIVATION, MAL_GELU_TANH, 0, {100}, {100}, {100}, ref_activation, 0},
    {"silu", MAL_OP_ACTIVATION, MAL_SILU, 0, {100}, {100}, {100}, ref_activation, 0},
    {"relu", MAL_OP_ACTIVATION, MAL_RELU, 0, {100}, {100}, {100}, ref_activation, 0},
    {"squared relu", MAL_OP_ACTIVATION, MAL_RELU2, 0, {100}, {100}, {100}, ref_activation, 0},
    {"gated silu", MAL_OP_ACTIVATION, MAL_SILU, 0, {60}, {60, 60}, {60}, ref_activation, 0},
    {"gated gelu", MAL_OP_ACTIVATION, MAL_GELU_TANH, 0, {60}, {60, 60}, {60}, ref_activation, 0},
    {"rope, heads partly rotated", MAL_OP_ROPE, 0, 0, {288}, {192, 96}, {192, 96}, ref_rope, 0},
    {"attention",
     MAL_OP_ATTENTION,
     0,
     MAL_INS_CAUSAL,
     {2, 9, 9, 2, 2, 8, 8, 0},
     {288, 288, 288},
     {288},
     ref_attention,
     36},
    {"attention, grouped keys",
     MAL_OP_ATTENTION,
     0,
     MAL_INS_CAUSAL,
     {1, 11, 11, 4, 2, 6, 6, 0},
     {264, 132, 132},
     {264},
     ref_attention,
     44},
    {"attention in a window",
     MAL_OP_ATTENTION,
     0,
     MAL_INS_CAUSAL,
     {1, 20, 20, 2, 1, 4, 4, 5},
     {160, 80, 80},
     {160},
     ref_attention,
     40},
    {"attention over tiles",
     MAL_OP_ATTENTION,
     0,
     MAL_INS_CAUSAL,
     {1, 300, 300, 1, 1, 8, 8, 0},
     {2400, 2400, 2400},
     {2400},
     ref_attention,
     300},
    {"attention over tiles in a window",
     MAL_OP_ATTENTION,
     0,
     MAL_INS_CAUSAL,
     {1, 300, 300, 1, 1, 8, 8, 140},
     {2400, 2400, 2400},
     {2400},
     ref_attention,
     300},
};

static void kernels(void **state) {
  (void)state;
  mal_cpu.enter();
  for (int64_t t = 0; t < facts.seq; t++)
    for (int64_t j = 0; j < 3; j++) {
      double angle = (double)t / pow(kinds->rope_theta, 2.0 * (double)j / (double)kinds->rope_dim);
      table[t * 6 + j] = (float)cos(angle), table[t * 6 + 3 + j] = (float)sin(angle);
    }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    values x;
    prepare(&cases[i], &x);
    call_forward(&cases[i], &x);
    check_forward(&cases[i], &x);
    if (cases[i].op == MAL_OP_MATMUL)
      call_product_backward(&cases[i], &x);
    else
      call_backward(&cases[i], &x);
    check_gradients(&cases[i], &x);
    release(&x);
  }
}

/* The loss of all rows and its gradient, whole and as two ranks see it: sums over ranks by hand, padding beyond the vocabulary. */
static void cross_entropy(void **state) {
  (void)state;
  enum { ROWS = 5, VOCAB = 37, HALF = 24 };
  float x[ROWS * VOCAB], d[ROWS * VOCAB], sums[2 * ROWS], part[2][ROWS * HALF], most[ROWS], both[2 * ROWS] = {0};
  int64_t labels[ROWS] = {0, 36, 23, 24, 11}, v[2] = {ROWS, VOCAB};
  double wanted = 0;
  for (int i = 0; i < ROWS * VOCAB; i++) x[i] = (float)(uniform() * 5);
  mal_instruction i = {.op = MAL_OP_CROSS_ENTROPY};
  mal_kernel_call c = {.i = &i, .v = v, .in = {x, labels}, .out = {sums}, .facts = &facts};
  mal_cpu.kernel[MAL_OP_CROSS_ENTROPY](&c);
  i.flags = MAL_INS_GRAD;
  c = (mal_kernel_call){.i = &i, .v = v, .in = {x, labels, sums}, .out = {d}, .facts = &facts};
  mal_cpu.kernel[MAL_OP_CROSS_ENTROPY](&c);
  for (int r = 0; r < ROWS; r++) {
    double sum = 0;
    for (int j = 0; j < VOCAB; j++) sum += exp((double)x[r * VOCAB + j]);
    wanted += log(sum) - (double)x[r * VOCAB + labels[r]];
    for (int j = 0; j < VOCAB; j++)
      assert_true(fabs((double)d[r * VOCAB + j] - (exp((double)x[r * VOCAB + j]) / sum - (j == labels[r]))) < 1e-6);
  }
  assert_true(fabs(c.loss_sum - wanted) < 1e-5);
  double two = 0;
  for (int pass = 0; pass < 3; pass++)
    for (int rank = 0; rank < 2; rank++) {
      mal_rank_facts mine = facts;
      int64_t half[2] = {ROWS, HALF};
      float maxima[ROWS], own[2 * ROWS];
      mine.vocab_from = rank * HALF;
      for (int r = 0; r < ROWS && pass == 0; r++)
        for (int j = 0; j < HALF; j++)
          part[rank][r * HALF + j] = rank * HALF + j < VOCAB ? x[r * VOCAB + rank * HALF + j] : 99; /* padding */
      i = (mal_instruction){.op = pass == 0 ? MAL_OP_REDUCE_ROWS : MAL_OP_CROSS_ENTROPY, .variant = pass == 0};
      c = (mal_kernel_call){.i = &i, .v = half, .in = {part[rank], labels, most}, .out = {own}, .facts = &mine};
      if (pass == 0) c.out[0] = maxima;
      if (pass == 2) i.flags = MAL_INS_GRAD, c.in[2] = both, c.in[3] = most, c.out[0] = part[rank];
      mal_cpu.kernel[i.op](&c);
      for (int r = 0; r < ROWS && pass == 0; r++) most[r] = rank == 0 || maxima[r] > most[r] ? maxima[r] : most[r];
      for (int r = 0; r < 2 * ROWS && pass == 1; r++) both[r] += own[r];
      if (pass == 2) two = c.loss_sum;
    }
  assert_true(fabs(two - wanted) < 1e-5);
  for (int r = 0; r < ROWS; r++)
    for (int j = 0; j < 2 * HALF; j++) {
      double got = (double)part[j / HALF][r * HALF + j % HALF];
      assert_true(fabs(got - (j < VOCAB ? (double)d[r * VOCAB + j] : 0)) < 1e-6);
    }
}

/* torch.optim.AdamW's first steps, followed in fp64. */
static void adamw(void **state) {
  (void)state;
  float w[9], g[9], m[9] = {0}, v[9] = {0};
  double W[9], M[9] = {0}, V[9] = {0};
  for (int j = 0; j < 9; j++) W[j] = (double)(w[j] = (float)uniform());
  for (int step = 1; step <= 5; step++) {
    mal_adamw a = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, (float)(1 - pow(0.9, step)), (float)(1 - pow(0.95, step))};
    for (int j = 0; j < 9; j++) g[j] = (float)uniform();
    mal_cpu.adamw(&a, w, g, m, v, 9);
    for (int j = 0; j < 9; j++) {
      double d = (double)g[j];
      W[j] *= 1 - 1e-2 * 0.1;
      M[j] = 0.9 * M[j] + 0.1 * d, V[j] = 0.95 * V[j] + 0.05 * d * d;
      W[j] -= 1e-2 * (M[j] / (1 - pow(0.9, step))) / (sqrt(V[j] / (1 - pow(0.95, step))) + 1e-8);
      assert_true(fabs((double)w[j] - W[j]) < 1e-6);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels),
      cmocka_unit_test(cross_entropy),
      cmocka_unit_test(adamw),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
