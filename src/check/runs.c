#include "check/runs.h"
#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum column_kind { TEXT, COUNT, REAL } column_kind;

typedef struct column {
  const char *name;
  column_kind kind;
  size_t offset;
  double unit; /* of a REAL, in SI; of a COUNT: the largest that is believed */
} column;

#define AT(field) offsetof(mal_trial, field)
static const column columns[] = {
    {"id", TEXT, AT(id), 0},
    {"source", TEXT, AT(source), 0},
    {"year", TEXT, AT(year), 0},
    {"framework", TEXT, AT(framework), 0},
    {"model_name", TEXT, AT(model_name), 0},
    {"gpu", TEXT, AT(gpu), 0},
    {"internode", TEXT, AT(internode), 0},
    {"recompute", TEXT, AT(recompute), 0},
    {"precision", TEXT, AT(precision), 0},
    {"train_mode", TEXT, AT(train_mode), 0},
    {"kernels", TEXT, AT(kernels), 0},
    {"schedule", TEXT, AT(schedule), 0},
    {"mixed_precision", TEXT, AT(mixed_precision), 0},
    {"offload", TEXT, AT(offload), 0},
    {"family", TEXT, AT(family), 0},
    {"flops_convention", TEXT, AT(flops_convention), 0},
    {"notes", TEXT, AT(notes), 0},
    {"layers", COUNT, AT(layers), 4096},
    {"hidden", COUNT, AT(hidden), 1 << 24},
    {"ffn_hidden", COUNT, AT(ffn), 1 << 24},
    {"heads", COUNT, AT(heads), 1 << 20},
    {"kv_heads", COUNT, AT(kv_heads), 1 << 20},
    {"vocab", COUNT, AT(vocab), 1 << 24},
    {"moe_experts", COUNT, AT(experts), 65536},
    {"moe_topk", COUNT, AT(top_k), 65536},
    {"gated_mlp", COUNT, AT(gated), 1},
    {"n_gpus", COUNT, AT(gpus), 1 << 24},
    {"gpus_per_node", COUNT, AT(gpus_per_node), 1024},
    {"tp", COUNT, AT(tp), 1 << 16},
    {"pp", COUNT, AT(pp), 4096},
    {"vpp", COUNT, AT(vpp), 4096},
    {"cp", COUNT, AT(cp), 1 << 16},
    {"ep", COUNT, AT(ep), 65536},
    {"dp", COUNT, AT(dp), 1 << 24},
    {"zero_stage_or_fsdp", COUNT, AT(zero), 3},
    {"seq_par", COUNT, AT(seq_par), 1},
    {"micro_batch", COUNT, AT(micro_batch), 1 << 20},
    {"global_batch_sequences", COUNT, AT(global_batch), 1 << 28},
    {"seq_len", COUNT, AT(seq), 1 << 28},
    {"flash_attn", COUNT, AT(flash), 1},
    {"params_b", REAL, AT(params), 1e9},
    {"step_time_s", REAL, AT(step_s), 1},
    {"tokens_per_s_total", REAL, AT(tokens_per_s), 1},
    {"tokens_per_s_per_gpu", REAL, AT(tokens_per_s_per_gpu), 1},
    {"tflops_per_gpu_reported", REAL, AT(flops_per_gpu), 1e12},
    {"mfu_reported", REAL, AT(mfu), 0.01},
    {"peak_mem_gib", REAL, AT(peak_bytes), 1073741824.0},
};
enum { COLUMNS = sizeof columns / sizeof *columns };
#undef AT

static bool is_blank(const char *cell) {
  while (isspace((unsigned char)*cell)) cell++;
  return *cell == 0;
}

/* A number with nothing but space around it, not negative, below 2^53. */
static bool read_number(const char *cell, double *value) {
  char *end;
  if (strpbrk(cell, "xXpP")) return false; /* hexadecimal */
  *value = strtod(cell, &end);
  return end != cell && is_blank(end) && isfinite(*value) && *value >= 0 && *value < 9007199254740992.0;
}

static void set_cell(const column *c, const char *cell, mal_trial *t) {
  void *field = (char *)t + c->offset;
  double value = 0;
  bool blank = is_blank(cell);
  if (c->kind == TEXT) {
    *(const char **)field = cell;
    return;
  }
  if (!blank && (!read_number(cell, &value) || (c->kind == COUNT && (value != floor(value) || value > c->unit)))) {
    if (!t->unreadable) t->unreadable = c->name;
    blank = true;
    value = 0;
  }
  if (c->kind == COUNT)
    *(int64_t *)field = blank ? MAL_BLANK : (int64_t)value;
  else
    *(double *)field = value * c->unit;
}

static mal_status from_csv(mal_arena *a, const mal_csv *csv, mal_trials *t, mal_error *e) {
  int at[COLUMNS];
  if (mal_csv_column(csv, "gpu") < 0 || mal_csv_column(csv, "n_gpus") < 0)
    return mal_fail(e, MAL_BAD,
                    _("%s: the header has no columns gpu and n_gpus; published runs need the columns that "
                      "docs/validate.md lists."),
                    csv->path);
  for (int c = 0; c < COLUMNS; c++) at[c] = mal_csv_column(csv, columns[c].name);
  t->path = csv->path;
  t->count = csv->rows;
  t->rows = MAL_ARRAY(a, mal_trial, csv->rows > 0 ? csv->rows : 1);
  for (int r = 0; r < csv->rows; r++) {
    t->rows[r].line = csv->line[r];
    for (int c = 0; c < COLUMNS; c++) set_cell(&columns[c], mal_csv_cell(csv, r, at[c]), &t->rows[r]);
  }
  return MAL_OK;
}

mal_status mal_trials_read(mal_arena *a, const char *path, mal_trials *t, mal_error *e) {
  mal_csv csv;
  mal_status s = mal_csv_read(a, path, &csv, e);
  return s ? s : from_csv(a, &csv, t, e);
}

mal_status mal_trials_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_trials *t,
                            mal_error *e) {
  mal_csv csv;
  mal_status s = mal_csv_parse(a, path, text, length, &csv, e);
  return s ? s : from_csv(a, &csv, t, e);
}

bool mal_internode_speed(const char *text, int64_t gpus_per_node, double *bytes_per_s) {
  for (const char *p = text; *p; p++) {
    char *end;
    if (!isdigit((unsigned char)*p) || (p > text && (isdigit((unsigned char)p[-1]) || p[-1] == '.'))) continue;
    double count = 1, speed = strtod(p, &end);
    if (*end == 'x' || *end == 'X') { /* "8x200Gb/s", "8x NDR 400 Gb/s" */
      const char *next = end + 1 + strcspn(end + 1, "0123456789");
      if (!*next) continue;
      count = speed;
      speed = strtod(next, &end);
    }
    while (*end == ' ') end++;
    if (end[0] != 'G' || end[1] != 'b' || !(speed > 0 && speed < 1e6 && count > 0 && count < 1024)) continue;
    bool per_gpu = strcasestr(end, "per GPU") || strcasestr(end, "/GPU");
    *bytes_per_s = speed * 1e9 / 8 * count * (per_gpu ? (double)gpus_per_node : 1);
    return true;
  }
  return false;
}
