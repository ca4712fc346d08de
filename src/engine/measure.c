#include "engine/measure.h"
#include "engine/rank.h"
#include "machine/here.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 7, STREAM_ELEMENTS = 1 << 23 /* 32 MiB an array: beyond the caches */, DISK_BYTES = 1 << 26 };
static const double TRY_S = 0.02; /* a try lasts at least so long */

typedef struct worker {
  mal_measured *shared;
  mal_world *world; /* NULL: one core */
  int32_t rank, ranks;
  pthread_t thread;
  pthread_barrier_t *together;
  double products[MAL_MEASURED_PRODUCTS], attention[2], stream, launch, copy, meeting;
  mal_status status;
  mal_error error;
} worker;

/* --- one thread ---------------------------------------------------------------------------------------------------------- */

typedef void work(void *context);

/* What the thread itself used: others on the machine do not count. */
static double own_time_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one call, the best try. */
static double time_of(worker *w, work *f, void *context) {
  double best = INFINITY;
  int64_t calls = 1;
  pthread_barrier_wait(w->together);
  for (int t = 0; t < TRIES;) {
    double from = own_time_s();
    for (int64_t i = 0; i < calls; i++) f(context);
    double took = own_time_s() - from;
    if (took < TRY_S) {
      calls *= 2;
      continue;
    }
    t++;
    if (took / (double)calls < best) best = took / (double)calls;
  }
  return best;
}

typedef struct kernel_work {
  mal_kernel *kernel;
  mal_kernel_call call;
  mal_instruction instruction;
  int64_t sizes[8];
} kernel_work;

static void run_kernel(void *context) {
  kernel_work *k = context;
  k->call.i = &k->instruction, k->call.v = k->sizes;
  k->kernel(&k->call);
}

enum { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, PASSES, RAMP = 4 };
static const char *const pass_name[PASSES] = {"forward", "input-gradient", "weight-gradient"};
static const struct {
  int pass;
  int64_t m, n, k;
} shapes[MAL_MEASURED_PRODUCTS] = {
    {FORWARD, 512, 512, 32},           {FORWARD, 512, 512, 128},  {FORWARD, 512, 512, 512},
    {FORWARD, 512, 512, 2048},         {FORWARD, 512, 1536, 512}, {INPUT_GRADIENT, 512, 1536, 512},
    {WEIGHT_GRADIENT, 512, 1536, 512},
};

/* As lowering writes a layer's product and its two gradients: x [m, k], w [n, k], y [m, n]. */
static kernel_work product(int s, float *at) {
  int64_t m = shapes[s].m, n = shapes[s].n, k = shapes[s].k;
  float *x = at, *w = x + m * k, *y = w + n * k, *made = y + m * n;
  kernel_work p = {.kernel = mal_cpu.kernel[MAL_OP_MATMUL], .instruction = {.op = MAL_OP_MATMUL}};
  int64_t sizes[PASSES][3] = {{m, n, k}, {m, k, n}, {n, k, m}};
  for (int i = 0; i < 3; i++) p.sizes[i] = sizes[shapes[s].pass][i];
  p.call.out[0] = made;
  if (shapes[s].pass == FORWARD) {
    p.instruction.flags = MAL_INS_TRANSPOSE_B;
    p.call.in[0] = x, p.call.in[1] = w, p.call.n_out[0] = m * n;
    return p;
  }
  bool weight = shapes[s].pass == WEIGHT_GRADIENT;
  p.instruction.flags = MAL_INS_GRAD;
  if (weight) p.instruction.flags |= MAL_INS_WEIGHT_GRAD | MAL_INS_TRANSPOSE_A | MAL_INS_ACCUMULATE;
  p.call.in[0] = y, p.call.n_in[0] = m * n;
  p.call.in[3] = weight ? x : w;
  return p;
}

static void measure_products(worker *w, float *at) {
  for (int s = 0; s < MAL_MEASURED_PRODUCTS; s++) {
    kernel_work p = product(s, at);
    double flops = 2.0 * (double)shapes[s].m * (double)shapes[s].n * (double)shapes[s].k;
    w->products[s] = flops / time_of(w, run_kernel, &p);
  }
}

enum { HEADS = 4, LENGTH = 512, WIDTH = 64 };

static void measure_attention(worker *w, float *at) {
  int64_t n = (int64_t)HEADS * LENGTH * WIDTH;
  kernel_work x = {.kernel = mal_cpu.kernel[MAL_OP_ATTENTION],
                   .instruction = {.op = MAL_OP_ATTENTION, .flags = MAL_INS_CAUSAL},
                   .sizes = {1, LENGTH, LENGTH, HEADS, HEADS, WIDTH, WIDTH, 0}};
  for (int k = 0; k < 3; k++) x.call.in[k] = at + k * n;
  float *out = at + 3 * n, *lse = at + 4 * n;
  x.call.out[0] = out, x.call.out[1] = lse;
  double pairs = (double)HEADS * LENGTH * LENGTH / 2;
  w->attention[0] = pairs * 4 * WIDTH / time_of(w, run_kernel, &x);
  x.instruction.flags |= MAL_INS_GRAD;
  x.call.in[3] = out, x.call.in[4] = at, x.call.in[5] = lse;
  for (int k = 0; k < 3; k++) x.call.out[k] = at + (5 + k) * n, x.call.n_out[k] = n;
  x.call.scratch = at + 8 * n;
  w->attention[1] = pairs * 10 * WIDTH / time_of(w, run_kernel, &x);
}

static void measure_memory(worker *w, float *at) {
  kernel_work x = {.kernel = mal_cpu.kernel[MAL_OP_ADD], .instruction = {.op = MAL_OP_ADD}};
  for (int k = 0; k < 2; k++) x.call.in[k] = at + (int64_t)k * STREAM_ELEMENTS, x.call.n_in[k] = STREAM_ELEMENTS;
  x.call.out[0] = at + 2 * (int64_t)STREAM_ELEMENTS, x.call.n_out[0] = STREAM_ELEMENTS;
  w->stream = 3.0 * STREAM_ELEMENTS * sizeof(float) / time_of(w, run_kernel, &x);
  x.call.n_in[0] = x.call.n_in[1] = x.call.n_out[0] = 16;
  w->launch = time_of(w, run_kernel, &x);
}

/* --- two ranks ------------------------------------------------------------------------------------------------------------- */

enum { COPY_ELEMENTS = 1 << 20, MEETINGS = 2000 };

static mal_status reduce(worker *w, mal_comm *c, int32_t group, float *at, int64_t n, int times, double *each) {
  mal_comm_call call = {
      .op = MAL_ALL_REDUCE, .dtype = MAL_F32, .in = {at}, .out = {at}, .elements = {n}, .name = "measure"};
  *each = INFINITY;
  for (int t = 0; t < TRIES; t++) {
    double from = mal_now_s();
    for (int i = 0; i < times; i++) {
      mal_comm_ticket ticket;
      mal_status status = mal_comm_shm.start(c, group, &call, &ticket, &w->error);
      if (!status) status = mal_comm_shm.wait(c, ticket, &w->error);
      if (status) return status;
    }
    double took = (mal_now_s() - from) / times;
    if (took < *each) *each = took;
  }
  return MAL_OK;
}

static mal_status measure_copies(worker *w, float *at) {
  double large, small;
  if (!w->world || w->rank > 1) return MAL_OK;
  mal_comm *c = mal_comm_shm.end(w->world, w->rank);
  mal_members pair = {.base = 0, .dims = 1, .extent = {2}, .stride = {1}};
  int32_t group;
  mal_status status = mal_comm_shm.group(c, &pair, "pair", &group, &w->error);
  if (!status) status = reduce(w, c, group, at, 1, MEETINGS, &small);
  if (!status) status = reduce(w, c, group, at, COPY_ELEMENTS, 8, &large);
  if (status) return status;
  w->meeting = small;
  w->copy = (double)COPY_ELEMENTS * sizeof(float) / (large - small); /* 2 (n - 1) / n = 1 of the buffer */
  return MAL_OK;
}

static void *measure_core(void *context) {
  worker *w = context;
  int64_t n = 3 * (int64_t)STREAM_ELEMENTS;
  float *at = aligned_alloc(64, (size_t)n * sizeof *at);
  w->status = at ? MAL_OK
                 : mal_fail(&w->error, MAL_FAULT, _("there are not %lld bytes to measure in."),
                            (long long)n * (long long)sizeof *at);
  mal_cpu.enter();
  for (int64_t i = 0; at && i < n; i++) at[i] = (float)(i % 7 - 3) * 0.1f;
  pthread_barrier_wait(w->together);
  if (at) {
    measure_products(w, at);
    measure_attention(w, at);
    measure_memory(w, at);
    for (int64_t i = 0; i < COPY_ELEMENTS; i++) at[i] = 0;
  }
  pthread_barrier_wait(w->together);
  if (at) w->status = measure_copies(w, at);
  free(at);
  return NULL;
}

/* --- disk --------------------------------------------------------------------------------------------------------------------- */

static mal_status disk_fault(const char *path, mal_error *e) {
  return mal_fail(e, MAL_BAD, _("%s: the disk cannot be measured there: %s"), path, strerror(errno));
}

static mal_status measure_disk(mal_arena *a, const char *folder, mal_measured *m, mal_error *e) {
  char *path = mal_print(a, "%s/malha-measure-XXXXXX", folder), *data = mal_alloc(a, 1 << 20);
  int file = mkstemp(path);
  if (file < 0) return disk_fault(folder, e);
  unlink(path);
  memset(data, 1, 1 << 20);
  double from = mal_now_s();
  for (int64_t i = 0; i < DISK_BYTES >> 20; i++)
    if (write(file, data, 1 << 20) != 1 << 20) {
      close(file);
      return disk_fault(folder, e);
    }
  bool synced = fsync(file) == 0;
  m->disk_write_bytes_per_s = DISK_BYTES / (mal_now_s() - from);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  from = mal_now_s();
  bool read_all = synced && lseek(file, 0, SEEK_SET) == 0;
  for (int64_t i = 0; i < DISK_BYTES >> 20 && read_all; i++) read_all = read(file, data, 1 << 20) == 1 << 20;
  m->disk_read_bytes_per_s = DISK_BYTES / (mal_now_s() - from);
  close(file);
  return read_all ? MAL_OK : disk_fault(folder, e);
}

/* --- together --------------------------------------------------------------------------------------------------------------------- */

/* Rate(k) = rate · k / (k + half): from the rates at the shortest and the longest k. */
static double half_point(const mal_measured *m) {
  const mal_measured_product *s = &m->products[0], *l = &m->products[RAMP - 1];
  double a = s->flops_per_s / l->flops_per_s, ks = (double)s->k, kl = (double)l->k;
  double half = a < 1 ? ks * (1 - a) / (a - ks / kl) : 0;
  return half > 0 && a > ks / kl ? half : 0;
}

static void sum_up(const worker *w, int32_t n, mal_measured *m) {
  double forward = 0, back = 0;
  for (int32_t i = 0; i < n; i++) {
    for (int s = 0; s < MAL_MEASURED_PRODUCTS; s++) m->products[s].flops_per_s += w[i].products[s] / n;
    forward += w[i].attention[0] / n, back += w[i].attention[1] / n;
    m->memory_bytes_per_s += w[i].stream / n;
    m->launch_s += w[i].launch / n;
  }
  double passes_s = 0;
  for (int s = 0; s < MAL_MEASURED_PRODUCTS; s++) {
    m->products[s].m = shapes[s].m, m->products[s].n = shapes[s].n, m->products[s].k = shapes[s].k;
    m->products[s].pass = pass_name[shapes[s].pass];
    if (s >= RAMP) passes_s += 1 / m->products[s].flops_per_s;
    if (m->products[s].flops_per_s > m->flops_per_s) m->flops_per_s = m->products[s].flops_per_s;
  }
  m->gemm = PASSES / passes_s / m->flops_per_s;
  m->k_half = half_point(m);
  m->attention = forward / m->flops_per_s, m->attention_backward = back / forward;
  m->copy_bytes_per_s = w[0].copy, m->meeting_s = w[0].meeting;
}

mal_status mal_measure(mal_arena *a, const char *folder, mal_measured *m, mal_error *e) {
  *m = (mal_measured){.cores = mal_here_cores(), .memory_bytes = mal_here_memory_bytes()};
  int32_t n = (int32_t)m->cores, started = 0;
  worker *w = MAL_ARRAY(a, worker, n);
  mal_world *world = NULL;
  pthread_barrier_t together;
  mal_status status = measure_disk(a, folder, m, e);
  mal_comm_options options = {.ranks = 2, .deadline_s = 60};
  if (!status && n > 1) status = mal_comm_shm.open(a, &options, &world, e);
  if (status) return status;
  pthread_barrier_init(&together, NULL, (unsigned)n);
  for (; started < n; started++) {
    w[started] = (worker){.shared = m, .world = world, .rank = started, .ranks = n, .together = &together};
    if (pthread_create(&w[started].thread, NULL, measure_core, &w[started]) != 0) break;
  }
  if (started < n) { /* the others wait for it: there is nothing to measure on such a machine */
    for (int32_t i = 0; i < started; i++) pthread_cancel(w[i].thread);
    status = mal_fail(e, MAL_FAULT, _("core %d gets no thread."), (int)started);
  }
  for (int32_t i = 0; i < started; i++) pthread_join(w[i].thread, NULL);
  for (int32_t i = 0; i < started && !status; i++)
    if ((status = w[i].status) != MAL_OK) *e = w[i].error;
  pthread_barrier_destroy(&together);
  if (world) mal_comm_shm.close(world);
  if (!status) sum_up(w, n, m);
  return status;
}

char *mal_measured_machine(mal_arena *a, const mal_measured *m, int64_t ranks) {
  mal_writing w = {.arena = a};
  const char *source = "malha probe --measure";
  mal_write(&w, "# Measured by malha probe --measure: one rank a core, all cores at once.\n");
  mal_write(&w, "name: here\nnodes: 1\ngpus_per_node: %lld\nnode:\n  base: computer\n", (long long)ranks);
  mal_write(&w, "  cpu_cores: {value: %lld, source: \"%s\"}\n", (long long)m->cores, source);
  mal_write(&w, "  ram_bytes: {value: %lld, source: \"%s\"}\n", (long long)m->memory_bytes, source);
  mal_write(&w, "  ram_bytes_per_s: {value: %.4g, source: \"%s\"}\n", m->memory_bytes_per_s * (double)m->cores, source);
  mal_write(&w, "  nvme_write_bytes_per_s: {value: %.4g, source: \"%s\"}\n", m->disk_write_bytes_per_s, source);
  mal_write(&w, "  nvme_read_bytes_per_s: {value: %.4g, source: \"%s\"}\n", m->disk_read_bytes_per_s, source);
  mal_write(&w, "gpu:\n  base: cpu\n");
  const char *const types[] = {"fp32", "bf16", "fp16"};
  for (int t = 0; t < 3; t++)
    mal_write(&w, "  %s_flops: {value: %.4g, source: \"%s\"}\n", types[t], m->flops_per_s, source);
  mal_write(&w, "  memory_bytes: {value: %lld, source: \"%s\"}\n", (long long)(m->memory_bytes / ranks), source);
  mal_write(&w, "  memory_bytes_per_s: {value: %.4g, source: \"%s\"}\n", m->memory_bytes_per_s, source);
  if (m->copy_bytes_per_s > 0)
    mal_write(&w, "  pcie_bytes_per_s: {value: %.4g, source: \"%s\"}\n", m->copy_bytes_per_s, source);
  mal_write(&w, "  calibration:\n");
  const struct {
    const char *key;
    double value;
  } fitted[] = {{"gemm_fp32", m->gemm},
                {"gemm_bf16", m->gemm},
                {"gemm_k_half", m->k_half},
                {"attention_flash2", m->attention},
                {"attention_backward", m->attention_backward},
                {"launch_s", m->launch_s},
                {"link_latency_s", m->meeting_s > 0 ? m->meeting_s / 2 : 5e-6}};
  for (size_t i = 0; i < sizeof fitted / sizeof *fitted; i++)
    mal_write(&w, "    %s: {value: %.4g, lo: 0, hi: %.4g, prior: %.4g, source: \"%s\"}\n", fitted[i].key,
              fitted[i].value, fmax(fitted[i].value, i < 2 || i == 3 ? 1 : fitted[i].value), fitted[i].value, source);
  return w.text;
}
