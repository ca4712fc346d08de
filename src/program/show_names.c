#include "program/show.h"
#include <assert.h>

const char *const mal_region_name[] = {"param",  "grad",   "master", "opt",    "stash",
                                       "gather", "bucket", "work",   "kernel", "io"};
const char *const mal_list_name[] = {"F", "B", "W", "BW", "R", "GATHER", "REDUCE"};
const char *const mal_step_name[] = {"F", "B", "W", "BW", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "SYNC", "OPT"};
const char *const mal_class_name[] = {"embedding", "layer", "mtp", "head", "sync", "optimizer"};
const char *const mal_axis_name[] = {"tp", "cp", "dp", "pp", "ep", "etp", "edp"};
static_assert(sizeof mal_region_name / sizeof *mal_region_name == MAL_REGIONS, "a name for each");
static_assert(sizeof mal_list_name / sizeof *mal_list_name == MAL_LISTS, "a name for each");
static_assert(sizeof mal_step_name / sizeof *mal_step_name == MAL_STEP_OPS, "a name for each");
static_assert(sizeof mal_class_name / sizeof *mal_class_name == MAL_B_CLASSES, "a name for each");
static_assert(sizeof mal_axis_name / sizeof *mal_axis_name == MAL_AXES, "a name for each");

const mal_flag_row mal_flag_rows[] = {
    {MAL_INS_GRAD, "grad"},
    {MAL_INS_WEIGHT_GRAD, "weight-grad"},
    {MAL_INS_ACCUMULATE, "accumulate"},
    {MAL_INS_CAUSAL, "causal"},
    {MAL_INS_TRANSPOSE_A, "transpose-a"},
    {MAL_INS_TRANSPOSE_B, "transpose-b"},
    {MAL_INS_CHUNKED, "chunked"},
    {MAL_INS_RECOMPUTED, "recomputed"},
    {MAL_INS_GROUPED, "grouped"},
    {MAL_INS_SAVES_INPUT, "saves-input"},
    {MAL_INS_MAX, "max"},
    {MAL_INS_INSIDE, "inside"},
    {MAL_INS_LOW_CORE, "8-bit-core"},
};
static_assert(sizeof mal_flag_rows / sizeof *mal_flag_rows == MAL_FLAG_ROWS, "as declared");

const char *const *mal_size_names(int op) {
  static const char *const matmul[] = {"m", "n", "k", "batch", "window", NULL};
  static const char *const attention[] = {"sequences", "q_len", "kv_len", "q_heads", "kv_heads",
                                          "d_qk",      "d_v",   "window", NULL};
  static const char *const table[] = {"rows", "cols", NULL}, *const list[] = {"elements", NULL};
  static const char *const bytes[] = {"bytes", NULL}, *const moved[] = {"elements", "moved", NULL};
  static const char *const table_moved[] = {"rows", "cols", "moved", NULL};
  switch (op) {
  case MAL_OP_MATMUL: return matmul;
  case MAL_OP_ATTENTION: return attention;
  case MAL_OP_SOFTMAX: return table_moved;
  case MAL_OP_CAST:
  case MAL_OP_PERMUTE: return moved;
  case MAL_OP_NORM:
  case MAL_OP_CROSS_ENTROPY:
  case MAL_OP_ROUTE:
  case MAL_OP_REDUCE_ROWS: return table;
  case MAL_OP_COLLECTIVE:
  case MAL_OP_SEND:
  case MAL_OP_RECV:
  case MAL_OP_COPY: return bytes;
  default: return list;
  }
}

const char *mal_instruction_name(const mal_instruction *i) {
  bool collective = i->op == MAL_OP_COLLECTIVE && i->variant < MAL_COLLECTIVES;
  return collective ? mal_collective_name[i->variant] : mal_ops[i->op].name;
}

int mal_size_count(const mal_instruction *i, const mal_sizes *s) {
  int n = 0, used = 1;
  for (const char *const *name = mal_size_names(i->op); name[n]; n++)
    if (s->v[n]) used = n + 1;
  return used;
}
