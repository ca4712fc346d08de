/* The readable form of a program, 80 columns: blocks with their lists, then stages with their memory and schedule. */
#include "program/show.h"
#include "core/units.h"
#include "core/utf8.h"
#include "program/lower_block.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 80, MAX_PERIOD = 96 };

/* A line built of words that breaks before column 80; what follows a break is indented. */
typedef struct line {
  mal_writing *p;
  int indent;
  size_t width;
  bool fresh; /* nothing but blanks yet */
} line;

static line begin(mal_writing *p, int at, int indent) {
  mal_write(p, "%*s", at, "");
  return (line){p, indent, (size_t)at, true};
}

static void word(line *l, const char *text) {
  size_t width = mal_utf8_width(text);
  if (!l->fresh && l->width + 1 + width > COLUMNS) {
    mal_write(l->p, "\n%*s", l->indent, "");
    l->width = (size_t)l->indent;
  } else if (!l->fresh) {
    mal_write(l->p, " ");
    l->width++;
  }
  mal_write(l->p, "%s", text);
  l->width += width;
  l->fresh = false;
}

/* A label that fills the line's indent, so that what follows stands in one column with what is wrapped. */
static line labelled(mal_writing *p, const char *label, int indent) {
  mal_write(p, "  %-*s", indent - 2, label);
  return (line){p, indent, (size_t)indent, true};
}

/* "weights 4.2 GiB", kept on one line. */
static void amount(line *l, const char *name, double bytes, bool last) {
  char text[128];
  snprintf(text, sizeof text, "%s %s%s", name, mal_show_bytes(bytes), last ? "" : ",");
  word(l, text);
}

static void amounts(mal_writing *p, const char *label, const char *const *names, const int64_t *bytes, int n) {
  line l = labelled(p, label, 12);
  int last = n - 1;
  while (last > 0 && !bytes[last]) last--;
  for (int i = 0; i <= last; i++)
    if (bytes[i]) amount(&l, names[i], (double)bytes[i], i == last);
  mal_write(p, "\n");
}

static void words(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void words(line *l, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *save = NULL, *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) word(l, w);
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* --- instructions ------------------------------------------------------------------------------------------------------- */

static void put_operands(line *l, const mal_block *b, const uint16_t *operands, int n) {
  for (int i = 0; i < n; i++) {
    if (operands[i] == MAL_NO_BUFFER) continue;
    const mal_buffer *f = &b->buffers[operands[i]];
    char text[128];
    snprintf(text, sizeof text, "%s:%s", f->name, mal_region_name[f->region]);
    word(l, text);
  }
}

static void put_group(line *l, const mal_plan *plan, unsigned axes) {
  bool shard = axes == MAL_AXES_SHARD, replica = axes == MAL_AXES_REPLICA;
  char text[64] = "";
  if (shard || replica) snprintf(text, sizeof text, "over %s", shard ? "shard" : "replica");
  for (int i = 0; i < MAL_AXES && !shard && !replica; i++)
    if (axes & 1u << i) {
      size_t used = strlen(text);
      snprintf(text + used, sizeof text - used, "%s%s", used ? "+" : "over ", mal_axis_name[i]);
    }
  words(l, "%s(%lld)", text, (long long)mal_instruction_group(plan, axes).size);
}

static void put_instruction(mal_writing *p, const mal_plan *plan, const mal_block *b, const mal_instruction *i) {
  const mal_sizes *s = &b->sizes[i->sizes];
  const char *const *names = mal_size_names(i->op);
  line l = begin(p, 6, 10);
  words(&l, "%s %s", mal_instruction_name(i), mal_dtype_name[i->dtype]);
  for (int k = 0, n = mal_size_count(i, s); k < n; k++) words(&l, "%s=%lld", names[k], (long long)s->v[k]);
  put_operands(&l, b, i->in, MAL_INPUTS);
  word(&l, "->");
  put_operands(&l, b, i->out, MAL_OUTPUTS);
  if (i->axes) put_group(&l, plan, i->axes);
  for (int k = 0; k < MAL_FLAG_ROWS; k++)
    if (i->flags & mal_flag_rows[k].flag) word(&l, mal_flag_rows[k].name);
  if (i->stream != MAL_STREAM_COMPUTE) words(&l, "@%s", mal_stream_name[i->stream]);
  for (int k = 0; k < 2; k++)
    if (i->wait[k] != MAL_NO_EVENT) words(&l, "wait#%d", i->wait[k]);
  if (i->record != MAL_NO_EVENT) words(&l, "record#%d", i->record);
  mal_write(p, "\n");
}

static void put_block(mal_writing *p, const mal_plan *plan, const mal_block *b, int index) {
  line l = begin(p, 0, 4);
  words(&l, "block %d: %s", index, b->name ? b->name : mal_class_name[b->block_class]);
  mal_write(p, "\n");
  l = begin(p, 2, 4);
  if (b->dense_elements + b->expert_elements > 0)
    words(&l, "%s trained,", mal_show_count((double)(b->dense_elements + b->expert_elements)));
  if (b->frozen_dense_elements + b->frozen_expert_elements > 0)
    words(&l, "%s frozen,", mal_show_count((double)(b->frozen_dense_elements + b->frozen_expert_elements)));
  words(&l, "stash %s", mal_show_bytes((double)b->stash_bytes));
  mal_write(p, "\n");
  for (int list = 0; list < MAL_LISTS; list++) {
    if (b->count[list] == 0) continue;
    mal_write(p, "    %s: %d instruction%s, %s FLOPs, work %s\n", mal_list_name[list], b->count[list],
              plural(b->count[list]), mal_show_count(b->flops[list]), mal_show_bytes((double)b->work_bytes[list]));
    for (int i = 0; i < b->count[list]; i++) put_instruction(p, plan, b, &b->list[list][i]);
  }
  mal_write(p, "\n");
}

/* --- schedules ---------------------------------------------------------------------------------------------------------- */

static bool alike(const mal_step *x, const mal_step *y) { return x->op == y->op && x->chunk == y->chunk; }

/* Times that the `period` steps from here on come after one another. */
static int64_t repeats(const mal_step *s, int64_t left, int64_t period) {
  int64_t same = 0;
  while (same < left - period && alike(&s[same], &s[same + period])) same++;
  return same / period + 1;
}

static void put_period(line *l, const mal_step *s, int64_t period, int64_t times, bool chunks) {
  char text[1024] = "";
  for (int64_t i = 0; i < period; i++) {
    size_t used = strlen(text);
    const char *open = i == 0 && period > 1 && times > 1 ? "(" : "", *gap = i ? " " : "";
    if (used > sizeof text - 16) break;
    if (chunks)
      snprintf(text + used, sizeof text - used, "%s%s%s%d", gap, open, mal_step_name[s[i].op], s[i].chunk);
    else
      snprintf(text + used, sizeof text - used, "%s%s%s", gap, open, mal_step_name[s[i].op]);
  }
  if (times > 1)
    words(l, "%s%s×%lld", text, period > 1 ? ")" : "", (long long)times);
  else
    words(l, "%s", text);
}

/* The computations of a stage, repeated parts folded: "F×3 (F BW)×13 BW×3". */
static void put_schedule(mal_writing *p, const mal_program *program, int64_t stage) {
  mal_error e;
  mal_step *steps;
  int64_t count, n = 0;
  line l = labelled(p, "schedule:", 12);
  if (mal_schedule_stage(p->arena, &program->plan->layout, program->micro_batches, stage, &steps, &count, &e)) return;
  for (int64_t i = 0; i < count; i++)
    if (steps[i].op <= MAL_S_BW || steps[i].op >= MAL_S_SYNC) steps[n++] = steps[i];
  for (int64_t i = 0; i < n;) {
    int64_t best = 1, times = repeats(&steps[i], n - i, 1);
    for (int64_t period = 2; period <= MAX_PERIOD && i + 2 * period <= n; period++) {
      int64_t r = repeats(&steps[i], n - i, period);
      if (r > 1 && r * period > times * best) best = period, times = r;
    }
    put_period(&l, &steps[i], best, times, program->stages[stage].n_chunks > 1 && steps[i].op <= MAL_S_BW);
    i += best * times;
  }
  mal_write(p, "\n");
}

/* --- stages ------------------------------------------------------------------------------------------------------------- */

static void put_chunk(mal_writing *p, const mal_chunk *c, int index) {
  line l = begin(p, 2, 12);
  words(&l, "chunk %d: part %d, %lld micro-batch%s, %lld in flight", index, c->part, (long long)c->micro_batches,
        c->micro_batches == 1 ? "" : "es", (long long)c->slots);
  amount(&l, "of", (double)c->stash_bytes, false);
  word(&l, "blocks");
  for (int i = 0; i < c->n_runs; i++) words(&l, "%d×%lld", c->runs[i].block, (long long)c->runs[i].count);
  mal_write(p, "\n");
}

static void put_stage(mal_writing *p, const mal_program *program, int64_t index) {
  const mal_stage *s = &program->stages[index];
  mal_write(p, "stage %lld of %lld: %s%s\n", (long long)index + 1, (long long)program->plan->layout.pp,
            mal_show_bytes((double)s->total_bytes), index == program->worst_stage ? ", the most" : "");
  for (int c = 0; c < s->n_chunks; c++) put_chunk(p, &s->chunks[c], c);
  mal_write(p, "  end: sync block %d, optimizer block %d\n", s->sync, s->optimizer);
  amounts(p, "regions:", mal_region_name, s->region_bytes, MAL_REGIONS);
  amounts(p, "memory:", mal_memory_name, s->memory_bytes, MAL_MEM_CAUSES);
  if (s->host_bytes || s->nvme_bytes)
    mal_write(p, "  offload:  host %s, NVMe %s\n", mal_show_bytes((double)s->host_bytes),
              mal_show_bytes((double)s->nvme_bytes));
  put_schedule(p, program, index);
  mal_write(p, "\n");
}

static void put_head(mal_writing *p, const mal_program *program) {
  const mal_plan *plan = program->plan;
  line l = begin(p, 0, 2);
  words(&l, "%s on %s, profile %s:", plan->model.name, plan->machine.name, plan->profile->name);
  for (char *save = NULL, *w = strtok_r(mal_layout_show(p->arena, &plan->layout), ",", &save); w;
       w = strtok_r(NULL, ",", &save))
    word(&l, w);
  mal_write(p, "\n");
  l = begin(p, 0, 2);
  const char *defaults = mal_model_defaults_words(p->arena, &plan->model);
  if (defaults) {
    words(&l, "%s", defaults);
    mal_write(p, "\n");
    l = begin(p, 0, 2);
  }
  words(&l, "%lld micro-batch%s; a step of all ranks: %.4g model FLOPs, %.4g executed",
        (long long)program->micro_batches, program->micro_batches == 1 ? "" : "es", program->model_flops,
        program->hardware_flops);
  mal_write(p, "\n");
  l = begin(p, 0, 2);
  words(&l, "a rank of the busiest stage sends in a step:");
  for (int i = 0; i <= MAL_AXES; i++)
    if (program->bytes_sent[i] > 0)
      amount(&l, i < MAL_AXES ? mal_axis_name[i] : "stages", program->bytes_sent[i], true);
  mal_write(p, "\n\n");
}

char *mal_program_text(mal_arena *a, const mal_program *program) {
  mal_writing p = {.arena = a};
  put_head(&p, program);
  for (int i = 0; i < program->n_blocks; i++) put_block(&p, program->plan, &program->blocks[i], i);
  for (int64_t s = 0; s < program->plan->layout.pp; s++) put_stage(&p, program, s);
  return p.text;
}
