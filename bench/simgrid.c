/* Flows on a fat tree of 1,024 hosts, ours and SimGrid's: ring in rank order, ring in random order, recursive halving and doubling,
 * all-to-all: each host sends to the 63 after it (64,512 flows at once; SimGrid takes some three minutes). By name also smaller ones,
 * and all-to-all-spread: groups of hosts that lie anywhere, which SimGrid takes minutes for with groups of 16 and did not end in 40
 * minutes with groups of 64. Both get the same links (50 GB/s, 1 µs, two levels of 32 × 32, D-mod-k routing), both are timed here, in
 * CPU seconds. Exit 1 when finishing times differ by more than 5 % or we are not 20 times faster.
 *
 * SimGrid (Debian's libsimgrid-dev) with max-min fair sharing pure: latency and bandwidth factors 1, no TCP window, no weight by
 * round-trip time, no cross traffic; for all-to-all it solves anew from scratch (network/optim:Full), which is there its faster
 * way. usage: bench_simgrid [WORKLOAD [HOSTS OF A GROUP]] */
#include "simulate/flows.h"
#include "simulate/topology.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS = 1024, LEAF = 32, ROUNDS = 10, RANDOM_STEPS = 20, MOST_GROUP = 64, MOST_STEPS = 2 * HOSTS };
static const double rate = 50e9, latency = 1e-6, chunk = 1 << 20;

typedef enum workload { RING, RANDOM_RING, HALVING, ALL_TO_ALL, SPREAD_ALL_TO_ALL, WORKLOADS } workload;
static const char *const workload_name[WORKLOADS] = {"ring", "random-ring", "halving-doubling", "all-to-all",
                                                     "all-to-all-spread"};

typedef struct script {
  workload what;
  int group;                      /* hosts of an all-to-all, with itself */
  int order[HOSTS], place[HOSTS]; /* the ring: host at each place, and back */
} script;

static void make_script(script *s, workload w, int group) {
  uint64_t x = 42;
  s->what = w;
  s->group = group;
  for (int i = 0; i < HOSTS; i++) s->order[i] = i;
  for (int i = HOSTS - 1; (w == RANDOM_RING || w == SPREAD_ALL_TO_ALL) && i > 0; i--) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    int j = (int)((x >> 33) % (uint64_t)(i + 1)), t = s->order[i];
    s->order[i] = s->order[j], s->order[j] = t;
  }
  for (int i = 0; i < HOSTS; i++) s->place[s->order[i]] = i;
}

static int steps_of(const script *s) {
  switch (s->what) {
  case RING: return MOST_STEPS - 2;
  case RANDOM_RING: return RANDOM_STEPS;
  case HALVING: return 2 * ROUNDS;
  default: return 1;
  }
}

static int sends_of(const script *s) { return s->what >= ALL_TO_ALL ? s->group - 1 : 1; }

/* Spread: groups of hosts that lie anywhere. */
static int group_of(const script *s, int host) { return s->place[host] / s->group * s->group; }

static int target_of(const script *s, int host, int step, int k) {
  switch (s->what) {
  case ALL_TO_ALL: return (host + k + 1) % HOSTS;
  case HALVING: return host ^ (1 << (step < ROUNDS ? ROUNDS - 1 - step : step - ROUNDS));
  case SPREAD_ALL_TO_ALL: return s->order[group_of(s, host) + (s->place[host] + k + 1) % s->group];
  default: return s->order[(s->place[host] + 1) % HOSTS];
  }
}

static int source_of(const script *s, int host, int step, int k) {
  switch (s->what) {
  case ALL_TO_ALL: return (host - k - 1 + HOSTS) % HOSTS;
  case HALVING: return target_of(s, host, step, k);
  case SPREAD_ALL_TO_ALL: return s->order[group_of(s, host) + (s->place[host] - k - 1 + 2 * s->group) % s->group];
  default: return s->order[(s->place[host] + HOSTS - 1) % HOSTS];
  }
}

static double bytes_of(const script *s, int step) {
  if (s->what != HALVING) return chunk;
  int round = step < ROUNDS ? step : 2 * ROUNDS - 1 - step;
  return chunk * HOSTS / (double)(2 << round);
}

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- ours --------------------------------------------------------------------------------------------------------------------- */

typedef struct pending {
  double at;
  int32_t from, to, step;
} pending;

typedef struct delay { /* messages on their way to the first byte: in order, since all wait equally long */
  pending *items;
  int64_t first, count, room;
  double seconds;
} delay;

typedef struct ours {
  script s;
  mal_switch_tree tree;
  mal_flows *flows;
  delay near, far;           /* under one leaf; over a spine */
  int32_t *from, *to, *step; /* [flow] */
  int32_t room;
  int *left, *at, *begun; /* [host]: transfers of its step that have not ended; its step; the step it has begun */
  double now;
} ours;

static void add_delay(delay *d, double now, int from, int to, int step) {
  if (d->count == d->room) {
    int64_t room = d->room ? 2 * d->room : 1024;
    pending *items = malloc((size_t)room * sizeof *items);
    for (int64_t i = 0; i < d->count; i++) items[i] = d->items[(d->first + i) % d->room];
    free(d->items);
    d->items = items, d->room = room, d->first = 0;
  }
  d->items[(d->first + d->count++) % d->room] = (pending){now + d->seconds, from, to, step};
}

static void post(ours *o, int from, int to, int step) {
  add_delay(to / LEAF == from / LEAF ? &o->near : &o->far, o->now, from, to, step);
}

/* A message starts when both its ends are in the step. */
static void begin_step(ours *o, int host) {
  int step = o->begun[host] = o->at[host];
  for (int k = 0; k < sends_of(&o->s); k++) {
    int to = target_of(&o->s, host, step, k), from = source_of(&o->s, host, step, k);
    if (o->begun[to] >= step) post(o, host, to, step);
    if (o->begun[from] >= step) post(o, from, host, step);
  }
}

static void start(ours *o, const pending *p) {
  mal_flow_use uses[2 + MAL_ROUTE_MOST] = {{p->from, 1}, {HOSTS + p->to, 1}};
  int32_t links[MAL_ROUTE_MOST];
  int n = mal_topology_route(&o->tree, p->from, p->from / LEAF, p->to, p->to / LEAF, links);
  for (int i = 0; i < n; i++) uses[2 + i] = (mal_flow_use){2 * HOSTS + links[i], 1};
  int32_t id = mal_flow_start(o->flows, o->now, bytes_of(&o->s, p->step), INFINITY, uses, 2 + n);
  if (id >= o->room) {
    int32_t room = o->room ? 2 * o->room : 4096;
    while (room <= id) room *= 2;
    o->from = realloc(o->from, (size_t)room * sizeof(int32_t)), o->to = realloc(o->to, (size_t)room * sizeof(int32_t));
    o->room = room;
  }
  o->from[id] = p->from, o->to[id] = p->to;
}

static void ended(ours *o, int host) {
  if (--o->left[host] > 0 || o->at[host] >= steps_of(&o->s)) return;
  o->left[host] += 2 * sends_of(&o->s);
  if (++o->at[host] < steps_of(&o->s)) begin_step(o, host);
}

static double when(const delay *d) { return d->count ? d->items[d->first].at : INFINITY; }

static double play_ours(workload w, int group) {
  static const double slack = 1e-3; /* ends within a thousandth of a flow's age count as one */
  ours o = {.near = {.seconds = 2 * latency}, .far = {.seconds = 4 * latency}};
  make_script(&o.s, w, group);
  o.tree = (mal_switch_tree){.hosts = HOSTS, .down = LEAF, .up = LEAF, .leaves = HOSTS / LEAF, .port_rate = rate};
  o.tree.routing = MAL_ROUTE_DMODK;
  int32_t fabric = mal_topology_links(&o.tree);
  double *capacity = malloc((size_t)(2 * HOSTS + fabric) * sizeof *capacity);
  for (int i = 0; i < 2 * HOSTS; i++) capacity[i] = rate;
  mal_topology_capacity(&o.tree, 0, capacity + 2 * HOSTS);
  o.flows = mal_flows_new(2 * HOSTS + fabric, capacity, slack);
  o.left = calloc(HOSTS, sizeof *o.left), o.at = calloc(HOSTS, sizeof *o.at), o.begun = malloc(HOSTS * sizeof *o.begun);
  for (int h = 0; h < HOSTS; h++) o.begun[h] = -1;
  for (int h = 0; h < HOSTS; h++) o.left[h] = 2 * sends_of(&o.s); /* what it sends and what it gets */
  for (int h = 0; h < HOSTS; h++) begin_step(&o, h);
  for (;;) {
    double near = when(&o.near), far = when(&o.far), next = fmin(near, far);
    double flow = next <= o.now ? INFINITY : mal_flows_when(o.flows); /* first all that starts now */
    if (isinf(flow) && isinf(next)) break;
    if (flow < next) {
      int32_t id = mal_flows_next(o.flows, &o.now);
      int from = o.from[id], to = o.to[id];
      ended(&o, from), ended(&o, to);
      continue;
    }
    delay *d = near <= far ? &o.near : &o.far;
    pending p = d->items[d->first];
    d->first = (d->first + 1) % d->room, d->count--;
    if (p.at > o.now) o.now = p.at; /* flows that end a little early may have passed it */
    start(&o, &p);
  }
  mal_flows_free(o.flows);
  free(capacity), free(o.left), free(o.at), free(o.begun), free(o.near.items), free(o.far.items), free(o.from),
      free(o.to);
  return o.now;
}

/* --- SimGrid ------------------------------------------------------------------------------------------------------------------- */

#ifdef MALHA_SIMGRID
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>

static script shared;

static sg_mailbox_t mailbox(int from, int to) {
  char name[32];
  snprintf(name, sizeof name, "%d-%d", from, to);
  return sg_mailbox_by_name(name);
}

static void host_main(int argc, char *argv[]) {
  static int token;
  void *got[MOST_GROUP];
  sg_comm_t comm[2 * MOST_GROUP];
  int host = atoi(argv[1]), n = sends_of(&shared);
  (void)argc;
  for (int step = 0; step < steps_of(&shared); step++) {
    for (int k = 0; k < n; k++)
      comm[n + k] = sg_mailbox_get_async(mailbox(source_of(&shared, host, step, k), host), &got[k]);
    for (int k = 0; k < n; k++)
      comm[k] =
          sg_mailbox_put_async(mailbox(host, target_of(&shared, host, step, k)), &token, (long)bytes_of(&shared, step));
    for (int k = 0; k < 2 * n; k++) sg_comm_wait(comm[k]);
  }
}

static double play_simgrid(workload w, int group) {
  char path[] = "/tmp/malha-simgrid-XXXXXX.xml";
  int file = mkstemps(path, 4);
  FILE *f = fdopen(file, "w");
  fprintf(
      f,
      "<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\"><platform version=\"4.1\">"
      "<cluster id=\"c\" prefix=\"h\" suffix=\"\" radical=\"0-%d\" speed=\"1Gf\" bw=\"50GBps\" lat=\"1us\" "
      "topology=\"FAT_TREE\" topo_parameters=\"2;32,32;1,32;1,1\" sharing_policy=\"SPLITDUPLEX\"/></platform>",
      HOSTS - 1);
  fclose(f);
  char *arguments[] = {"bench",
                       "--log=root.thres:critical",
                       "--cfg=network/latency-factor:1",
                       "--cfg=network/bandwidth-factor:1",
                       "--cfg=network/TCP-gamma:0",
                       "--cfg=network/weight-S:0",
                       "--cfg=network/crosstraffic:0",
                       "--cfg=contexts/stack-size:64",
                       w >= ALL_TO_ALL ? "--cfg=network/optim:Full" : NULL,
                       NULL};
  int count = w >= ALL_TO_ALL ? 9 : 8;
  make_script(&shared, w, group);
  simgrid_init(&count, arguments);
  simgrid_load_platform(path);
  for (int h = 0; h < HOSTS; h++) {
    char name[16], *args[] = {"host", name, NULL};
    snprintf(name, sizeof name, "h%d", h);
    sg_host_t where = sg_host_by_name(name);
    snprintf(name, sizeof name, "%d", h);
    sg_actor_create("host", where, host_main, 2, (void *)args);
  }
  simgrid_run();
  unlink(path);
  return simgrid_get_clock();
}
#else
static double play_simgrid(workload w, int group) { return (void)w, (void)group, NAN; }
#endif

/* Each in a process of its own: SimGrid starts once a process, and neither shall profit from the other's memory. */
static void measure(double (*play)(workload, int), workload w, int group, double *result) {
  int ends[2];
  result[0] = result[1] = NAN;
  if (pipe(ends)) return;
  pid_t child = fork();
  if (child == 0) {
    double got[2], from = cpu_s();
    got[0] = play(w, group);
    got[1] = cpu_s() - from;
    _exit(write(ends[1], got, sizeof got) == (ssize_t)sizeof got ? 0 : 1);
  }
  close(ends[1]);
  if (read(ends[0], result, 2 * sizeof *result) != (ssize_t)(2 * sizeof *result)) result[0] = result[1] = NAN;
  close(ends[0]);
  waitpid(child, NULL, 0);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median of a few; what takes long once. */
static void measure_some(double (*play)(workload, int), workload w, int group, double *result) {
  enum { TIMES = 5 };
  static const double long_s = 2;
  double cpu[TIMES];
  for (int i = 0; i < TIMES; i++) {
    measure(play, w, group, result);
    cpu[i] = result[1];
    if (!(result[1] < long_s)) return;
  }
  qsort(cpu, TIMES, sizeof *cpu, by_value);
  result[1] = cpu[TIMES / 2];
}

typedef struct row {
  workload what;
  int group;
  bool always; /* else only when named: SimGrid takes too long */
} row;

int main(int argc, char **argv) {
  static const double most_apart = 0.05, least_faster = 20;
  static const row rows[] = {{RING, 0, true},         {RANDOM_RING, 0, true},         {HALVING, 0, true},
                             {ALL_TO_ALL, 64, true},  {SPREAD_ALL_TO_ALL, 16, false}, {ALL_TO_ALL, 16, false},
                             {ALL_TO_ALL, 32, false}, {SPREAD_ALL_TO_ALL, 64, false}};
  int failed = 0, group = argc > 2 ? atoi(argv[2]) : 0;
  printf("%-18s %8s %10s %10s %8s %10s %10s %8s\n", "workload", "flows", "ours end", "simgrid", "apart", "ours CPU",
         "simgrid", "faster");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    double ours[2], theirs[2];
    if (argc > 1 ? strcmp(argv[1], workload_name[r->what]) != 0 || (group && group != r->group) : !r->always) continue;
    script s;
    fflush(stdout);
    make_script(&s, r->what, r->group);
    measure_some(play_ours, r->what, r->group, ours);
    measure_some(play_simgrid, r->what, r->group, theirs);
    double apart = ours[0] / theirs[0] - 1, faster = theirs[1] / ours[1];
    printf("%-18s %8d %8.4f s %8.4f s %7.2f%% %8.3f s %8.2f s %7.0fx\n", workload_name[r->what],
           HOSTS * steps_of(&s) * sends_of(&s), ours[0], theirs[0], 100 * apart, ours[1], theirs[1], faster);
    if (!isnan(theirs[0]) && !(fabs(apart) <= most_apart && faster >= least_faster)) failed = 1;
  }
  return failed;
}
