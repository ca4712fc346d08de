/* Published training runs: one CSV row each, typed. Columns are named by the header; unknown ones are ignored, absent
 * ones count as blank. A blank is not zero: it is MAL_BLANK, and rows.h says what takes its place. */
#ifndef MAL_CHECK_RUNS_H
#define MAL_CHECK_RUNS_H
#include "core/arena.h"
#include "core/csv.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { MAL_BLANK = -1 }; /* of an integer; a blank real is 0, no measured quantity is */

typedef struct mal_trial {
  int line; /* in the CSV */
  const char *id, *source, *year, *framework, *model_name, *gpu, *internode;
  const char *recompute, *precision, *train_mode, *kernels, *schedule, *mixed_precision, *offload, *family;
  const char *flops_convention, *notes;
  int64_t layers, hidden, ffn, heads, kv_heads, vocab, experts, top_k, gated;
  int64_t gpus, gpus_per_node, tp, pp, vpp, cp, ep, dp, zero, seq_par, micro_batch, global_batch, seq, flash;
  double params; /* of the model; the column counts in 10^9 */
  double step_s, tokens_per_s, tokens_per_s_per_gpu;
  double flops_per_gpu;   /* reported FLOP/s of one GPU; the column counts in 10^12 */
  double mfu;             /* reported, 0 .. 1; the column is in percent */
  double peak_bytes;      /* measured memory; the column counts in GiB */
  const char *unreadable; /* the first column whose cell is no number or beyond belief, NULL */
} mal_trial;

typedef struct mal_trials {
  const char *path;
  mal_trial *rows;
  int count;
} mal_trials;

/* MAL_BAD when the file is no CSV or has neither a gpu nor an n_gpus column. */
mal_status mal_trials_read(mal_arena *a, const char *path, mal_trials *t, mal_error *e);
mal_status mal_trials_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_trials *t,
                            mal_error *e);

/* Bandwidth of the compute network as people write it: "8x200Gb/s HDR IB per node", "NDR 400 Gb/s per GPU",
 * "1600 Gbps/node RoCE". Sets bytes/s of one node, one direction; false when the text gives no speed. */
bool mal_internode_speed(const char *text, int64_t gpus_per_node, double *bytes_per_s);
#endif
