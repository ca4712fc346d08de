/* Is a node well? Findings about a found node, logs of benchmarks and of NCCL, kernel logs and the environment.
 *
 * A finding has a severity, the evidence (file and line), the likely cause, what it costs and what to do. The cost comes from the
 * model: the fault is a change of the machine (fewer NVLinks, a slower PCIe link, fewer NICs, a lower clock), and all-reduce bandwidth
 * and the step of a reference job are priced on the machine before and after. */
#ifndef MAL_CHECK_NODE_HEALTH_H
#define MAL_CHECK_NODE_HEALTH_H
#include "core/csv.h"
#include "machine/topology/identify.h"
#include "plan/plan.h"
#include "price/expected.h"
#include "price/price.h"

typedef enum mal_severity { MAL_SEV_NOTE, MAL_SEV_WARNING, MAL_SEV_ERROR, MAL_SEVERITIES } mal_severity;
extern const char *const mal_severity_name[MAL_SEVERITIES];

/* One rule a kind of fault: what JUnit and Prometheus count. */
typedef enum mal_rule {
  MAL_RULE_GPU_COUNT,
  MAL_RULE_NVLINK_PATH,
  MAL_RULE_NVLINK_LINKS,
  MAL_RULE_NVLINK_ERRORS,
  MAL_RULE_NVSWITCH,
  MAL_RULE_PEER_ACCESS,
  MAL_RULE_PCIE_LINK,
  MAL_RULE_ACS,
  MAL_RULE_NIC_DISTANCE,
  MAL_RULE_NIC_COUNT,
  MAL_RULE_RAIL_ORDER,
  MAL_RULE_AFFINITY,
  MAL_RULE_GPUDIRECT,
  MAL_RULE_NVLS,
  MAL_RULE_THROTTLING,
  MAL_RULE_POWER_LIMIT,
  MAL_RULE_TEMPERATURE,
  MAL_RULE_ECC,
  MAL_RULE_ROW_REMAP,
  MAL_RULE_MIG,
  MAL_RULE_RESET,
  MAL_RULE_MIXED,
  MAL_RULE_PORT_STATE,
  MAL_RULE_PORT_ERRORS,
  MAL_RULE_XID,
  MAL_RULE_SXID,
  MAL_RULE_KERNEL,
  MAL_RULE_ENVIRONMENT,
  MAL_RULE_NCCL_TRANSPORT,
  MAL_RULE_NCCL_NETWORK,
  MAL_RULE_NCCL_ERRORS,
  MAL_RULE_BENCHMARK,
  MAL_RULE_BENCHMARK_SHAPE,
  MAL_RULE_BENCHMARK_DATA,
  MAL_RULE_SICK_NODE,
  MAL_RULE_STORAGE,
  MAL_RULE_LISTINGS,
  MAL_RULE_ANSWERS,
  MAL_RULES
} mal_rule;
extern const char *const mal_rule_name[MAL_RULES];  /* "nvlink-path" */
extern const char *const mal_rule_title[MAL_RULES]; /* for people */

/* What a fault does to the machine: factors on bandwidths and FLOP/s, 1 where it does nothing. */
typedef struct mal_damage {
  double nvlink, pcie, nic, compute;
  bool no_nvlink, no_nvls, no_p2p;
} mal_damage;
extern const mal_damage mal_no_damage;

typedef struct mal_finding {
  mal_rule rule;
  mal_severity severity;
  const char *device; /* "GPU3", "mlx5_1"; "" */
  const char *what, *cause, *todo;
  mal_evidence from, last; /* last: the last line of those counted */
  int count;               /* of the same: on other devices or lines */
  mal_damage damage;
  bool costed;
  double busbw[2];  /* all-reduce of 1 GiB over the node's GPUs (or two nodes, for NICs): before, after; bytes/s */
  int busbw_nodes;  /* 1 or 2 */
  double step_s[2]; /* of the reference job: before, after */
  double found, expected; /* of a benchmark, bytes/s; 0 */
} mal_finding;

/* One measured point of a benchmark. */
typedef enum mal_bench_kind { MAL_BENCH_NCCL, MAL_BENCH_IB, MAL_BENCH_COPY, MAL_BENCH_STORAGE } mal_bench_kind;

typedef struct mal_bench_point {
  double bytes, algbw, busbw; /* bytes/s */
  int line, repeats;
} mal_bench_point;

typedef struct mal_bench { /* one table of one log */
  mal_bench_kind kind;
  const char *file, *tool, *what; /* what: "all_reduce", "read", "host_to_device_memcpy_ce" */
  mal_collective collective;
  bool is_collective;    /* one that the model prices */
  bool either;           /* an all-gather or an all-to-all, the log does not say which */
  bool rooted;           /* reduce, broadcast: busbw = algbw */
  int64_t ranks, nodes;  /* 0 not said; ranks also from busbw/algbw */
  const char *gpu;       /* product name; NULL */
  const char *machine;   /* by name, as a table of results says it; NULL */
  const char *hosts[16]; /* distinct */
  int n_hosts;
  mal_bench_point *points;
  int n_points;
  int line;
  bool no_nvls, no_p2p; /* said so: NCCL_NVLS_ENABLE=0, NCCL_P2P_DISABLE=1 */
  const char *said;     /* of a table of results: its own verdict */
  const char *device;   /* NIC, drive */
  double best;          /* its highest busbw, where its reader keeps count; 0 */
  double rate;          /* line rate, bytes/s; 0 */
  double expected;      /* at its largest point; 0 not judged */
  int verdict;          /* -1 not judged, 0 healthy, 1 unhealthy */
  const char *why;      /* in words */
} mal_bench;

typedef struct mal_health {
  mal_arena *arena;
  mal_topology topology;
  bool has_topology, live; /* live: this machine */
  const char *on;          /* --on; NULL */
  bool has_machine;
  mal_machine machine;     /* the node as it should be */
  const char *machine_why; /* how it is known */
  mal_finding *findings;
  int n_findings;
  int *finding_of;  /* findings by hash of rule, device and words; number + 1 */
  int64_t left_out; /* lines whose findings are not kept: there are too many different ones */
  mal_bench *benches;
  int n_benches;
  struct mal_variable *variables; /* of environments, in the order they were read */
  int n_variables;
  int *variable_of; /* variables by hash; number + 1 */
  unsigned variable_changes;
  mal_csv tables[3];      /* of catalog/checks, read when first asked for */
  bool judged[MAL_RULES]; /* something was there to judge */
  const char **inputs;    /* "FILE: nvidia-smi topo -m" */
  int n_inputs;
  const char **unread; /* files of no known kind */
  int n_unread;
  int64_t nccl_lines, log_bytes;
} mal_health;

void mal_health_init(mal_health *h, mal_arena *a);
/* One pasted file, or a log: listings of a node, nccl-tests, NCCL, perftest, fio, nvbandwidth, gdsio, dmesg, Fabric Manager, env, a
 * table of results (CSV). A file may hold several. What is of none goes to h->unread. */
mal_status mal_health_read(mal_health *h, const mal_paste *p, mal_error *e);
/* The same of a file of any length, "-" standard input: what is longer than a listing may be is read in pieces and not kept. */
mal_status mal_health_read_file(mal_health *h, const char *file, mal_error *e);
/* This machine; and watching it: sample once a second, then end, which lets the rules judge the worst that was seen. */
mal_status mal_health_live(mal_health *h, mal_error *e);
typedef struct mal_watch mal_watch;
mal_watch *mal_watch_begin(mal_health *h);
void mal_watch_sample(mal_health *h, mal_watch *w);
void mal_watch_end(mal_health *h, mal_watch *w);
/* This process's environment. */
void mal_health_environment(mal_health *h, char **environment);
/* After the last file: judges everything. on: the machine as it should be, NULL to take what was found. */
mal_status mal_health_judge(mal_health *h, const char *on, mal_error *e);
mal_severity mal_health_worst(const mal_health *h); /* NOTE when there is nothing */
int mal_health_judged(const mal_health *h);         /* rules that there was something to judge by */
int mal_health_count(const mal_health *h, mal_severity severity);
/* What the log kinds are, for messages. */
const char *mal_health_kinds(mal_arena *a);

/* For the rules. */
typedef enum mal_check_table { MAL_TABLE_XID, MAL_TABLE_SXID, MAL_TABLE_NCCL_ENV } mal_check_table;
const mal_csv *mal_health_table(mal_health *h, mal_check_table t); /* without rows where the catalogue lacks it */
mal_finding *mal_find(mal_health *h, mal_rule rule, mal_severity severity, const char *device, mal_evidence from,
                      const char *what, const char *cause, const char *todo);
int mal_find_number(const mal_health *h, const mal_finding *f); /* -1 where it was not kept */
/* The same finding on another line; number -1: one that was not kept. */
void mal_find_again(mal_health *h, int number, mal_evidence from);
mal_bench *mal_health_bench(mal_health *h, mal_bench_kind kind, const char *file, const char *tool, const char *what,
                            int line);
mal_bench_point *mal_bench_add(mal_health *h, mal_bench *b);
bool mal_collective_named(const char *name, mal_collective *c, bool *rooted, const char **canonical);

void mal_judge_topology(mal_health *h); /* rules_links.c, rules_gpu.c, rules_nic.c */
void mal_judge_gpus(mal_health *h);
void mal_judge_nics(mal_health *h);
void mal_judge_benches(mal_health *h);
void mal_cost_findings(mal_health *h);

/* Readers of whole files: true when the file is of that kind. Those of lines are in log.h. */
typedef bool mal_log_reader(mal_health *h, const mal_paste *p);
mal_log_reader mal_read_fio_json, mal_read_results_csv;

/* The GPU, node and count of nodes that a benchmark ran on, as it should be; false when not known. */
bool mal_bench_machine(mal_health *h, const mal_bench *b, mal_machine *m);
typedef struct mal_variable {
  const char *name, *value;
  mal_evidence from;
  bool gone; /* unset, or set again, further down in the same file */
} mal_variable;
/* Notes a variable; mal_judge_environment judges it once all files are read. */
void mal_note_variable(mal_health *h, const char *name, const char *value, mal_evidence from);
/* The same; what this file set it to before is gone. */
void mal_replace_variable(mal_health *h, const char *name, const char *value, mal_evidence from);
void mal_forget_variable(mal_health *h, const char *name, const char *file);
void mal_judge_environment(mal_health *h);
#endif
