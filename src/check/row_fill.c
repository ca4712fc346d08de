#include "check/row_fill.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { VPP_MOST = 12 }; /* chunks a stage when a framework's default is one layer a chunk */

void mal_filled_note(mal_filled *f, const char *format, ...) {
  char text[256];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  f->notes = f->notes ? mal_print(f->arena, "%s %s", f->notes, text) : mal_copy(f->arena, text);
}

static bool word(const char *text, const char *what) { return strcasecmp(text, what) == 0; }

/* The row's value, else the recipe's, else the framework's, else `otherwise`; whatever the row did not print is noted. */
static int64_t fill(mal_filled *f, const char *name, int64_t row, int64_t recipe, int64_t framework,
                    int64_t otherwise) {
  if (row >= 0) return row;
  int64_t value = recipe >= 0 ? recipe : framework >= 0 ? framework : otherwise;
  mal_filled_note(f, "%s=%lld%s", name, (long long)value, recipe >= 0 ? "(recipe)" : "");
  return value;
}

static const char *fill_text(mal_filled *f, const char *name, const char *row, const char *framework,
                             const char *otherwise) {
  if (*row) return row;
  const char *value = *framework ? framework : otherwise;
  mal_filled_note(f, "%s=%s", name, value);
  return value;
}

/* --- precision and job -------------------------------------------------------------------------------------------- */

static mal_status find_name(const char *const *names, const char *text, const char *what, int *value, mal_error *e) {
  for (int i = 0; names[i]; i++)
    if (word(names[i], text)) {
      *value = i;
      return MAL_OK;
    }
  return mal_fail(e, MAL_BAD, _("unknown %s %.40s"), what, text);
}

static mal_status fill_job(mal_filled *f, mal_job *job, mal_error *e) {
  const mal_trial *t = f->row->trial;
  const mal_framework *w = f->row->framework;
  mal_job_default(job);
  job->seq = t->seq;
  job->global_batch = t->global_batch;
  const char *train = *t->train_mode ? t->train_mode : "pretrain";
  if (word(train, "sft")) train = "finetune";
  mal_status s = find_name(mal_train_name, train, "train_mode", &job->train, e);
  const char *precision = fill_text(f, "precision", t->precision, w->precision, "bf16");
  if (s == MAL_OK) s = find_name(mal_precision_name, precision, "precision", &job->precision, e);
  if (s == MAL_OK && *w->optimizer) s = find_name(mal_optimizer_name, w->optimizer, "optimizer", &job->optimizer, e);
  if (s == MAL_OK && *w->lora_targets)
    s = find_name(mal_lora_targets_name, w->lora_targets, "lora_targets", &job->lora_targets, e);
  return s;
}

/* --- layout ------------------------------------------------------------------------------------------------------- */

/* Blank tp and pp with a printed dp: tensor parallel takes what is left, inside the node first. */
static void fill_split(mal_filled *f, const mal_machine *machine, mal_layout *l) {
  const mal_trial *t = f->row->trial;
  const mal_framework *w = f->row->framework;
  const mal_recipe *r = f->row->recipe;
  l->cp = fill(f, "cp", t->cp, r ? r->cp : MAL_BLANK, MAL_BLANK, 1);
  if (l->cp < 1) l->cp = 1;
  if (t->tp < 0 && t->pp < 0 && t->dp < 0 && w->tp > 0) {
    l->tp = fill(f, "tp", t->tp, MAL_BLANK, w->tp, 1);
    l->pp = fill(f, "pp", t->pp, MAL_BLANK, w->pp, 1);
    while (l->pp > 1 && t->gpus % (l->tp * l->pp * l->cp)) l->pp--;
  } else {
    int64_t rest = t->dp > 0 && t->gpus % t->dp == 0 ? t->gpus / t->dp / l->cp : MAL_BLANK;
    int64_t pp = t->pp > 0 ? t->pp : 1;
    int64_t tp = rest > 0 && rest % pp == 0 ? rest / pp : 1;
    if (t->pp < 0 && t->tp > 0 && rest > 0 && rest % t->tp == 0) pp = rest / t->tp;
    if (tp > machine->gpus_per_node && t->pp < 0) {
      pp = tp / machine->gpus_per_node;
      tp = machine->gpus_per_node;
    }
    l->tp = fill(f, "tp", t->tp, r ? r->tp : MAL_BLANK, MAL_BLANK, tp);
    l->pp = fill(f, "pp", t->pp, r ? r->pp : MAL_BLANK, MAL_BLANK, pp);
  }
  if (l->tp < 1) l->tp = 1;
  if (l->pp < 1) l->pp = 1;
  l->dp = 0;
}

static void fill_experts(mal_filled *f, const mal_model *m, mal_layout *l) {
  const mal_trial *t = f->row->trial;
  const mal_recipe *r = f->row->recipe;
  if (!mal_model_has_experts(m)) return;
  l->ep = fill(f, "ep", t->ep, r ? r->ep : MAL_BLANK, MAL_BLANK, 1);
  if (l->ep < 1) l->ep = 1;
  int64_t ranks = t->gpus / l->pp; /* tp · cp · dp of a stage */
  int64_t etp = r && r->etp > 0                      ? r->etp
                : word(f->row->framework->etp, "tp") ? l->tp
                : atoll(f->row->framework->etp) > 0  ? atoll(f->row->framework->etp)
                                                     : 1;
  if (ranks % (etp * l->ep)) etp = 1;
  l->etp = etp;
  mal_filled_note(f, "etp=%lld", (long long)etp);
}

static void fill_micro_batch(mal_filled *f, mal_layout *l) {
  const mal_trial *t = f->row->trial;
  const mal_framework *w = f->row->framework;
  const mal_recipe *r = f->row->recipe;
  int64_t ranks = t->gpus / (l->tp * l->pp * l->cp), share = ranks > 0 ? t->global_batch / ranks : 1;
  int64_t usual = l->pp > 1 && w->micro_batch_pp > 0 ? w->micro_batch_pp : w->micro_batch;
  if (usual > share) usual = share;
  while (usual > 1 && share % usual) usual--;
  l->micro_batch = fill(f, "micro-batch", t->micro_batch, r ? r->micro_batch : MAL_BLANK, usual, 1);
}

/* Pipelines whose layers do not divide count embedding and head as a layer each when that makes them divide. */
static void fill_chunks(mal_filled *f, const mal_model *m, mal_layout *l) {
  const mal_trial *t = f->row->trial;
  const mal_framework *w = f->row->framework;
  const mal_recipe *r = f->row->recipe;
  int64_t ranks = t->gpus / (l->tp * l->pp * l->cp);
  int64_t rounds = ranks > 0 && l->micro_batch > 0 ? t->global_batch / (ranks * l->micro_batch) : 0;
  int64_t layers = m->layers, usual = 1;
  l->embedding_in_layers = l->pp > 1 && layers % l->pp && (layers + 2) % l->pp == 0;
  if (l->embedding_in_layers) layers += 2;
  if (l->pp > 1 && word(w->vpp, "layer") && layers % l->pp == 0 && rounds % l->pp == 0) {
    usual = layers / l->pp < VPP_MOST ? layers / l->pp : VPP_MOST;
    while (layers / l->pp % usual) usual--;
    if (usual == 1) usual = layers / l->pp; /* a prime number of layers: one a chunk */
  } else if (l->pp > 1 && atoi(w->vpp) > 1 && layers % l->pp == 0 && rounds % l->pp == 0) {
    int64_t share = layers / l->pp;
    usual = atoi(w->vpp) < share ? atoi(w->vpp) : share;
    while (share % usual) usual++;
  }
  if (l->pp == 1) {
    l->vpp = 1;
    return;
  }
  l->vpp = fill(f, "vpp", t->vpp, r ? r->vpp : MAL_BLANK, usual, 1);
  if (l->vpp < 1) l->vpp = 1;
  if (!l->embedding_in_layers && l->vpp > 1 && m->layers % (l->pp * l->vpp) && (m->layers + 2) % (l->pp * l->vpp) == 0)
    l->embedding_in_layers = true;
}

static void fill_schedule(const mal_trial *t, mal_layout *l) {
  if (strcasestr(t->schedule, "ZB-2p") || strcasestr(t->schedule, "ZB-H2"))
    l->schedule = MAL_ZB_2P;
  else if (strcasestr(t->schedule, "ZB"))
    l->schedule = MAL_ZB_H1;
  else if (strcasestr(t->schedule, "DualPipe"))
    l->schedule = MAL_DUALPIPE;
  else if (strcasestr(t->schedule, "gpipe"))
    l->schedule = MAL_GPIPE;
  else
    l->schedule = l->vpp > 1 ? MAL_INTERLEAVED : MAL_1F1B;
  if (l->pp == 1) l->schedule = MAL_1F1B;
}

static mal_status fill_recompute(mal_filled *f, mal_layout *l, mal_error *e) {
  const mal_trial *t = f->row->trial;
  const mal_recipe *r = f->row->recipe;
  if (!*t->recompute && r && r->recompute_layers > 0) {
    l->recompute = MAL_RECOMPUTE_FULL;
    l->recompute_layers = r->recompute_layers;
    mal_filled_note(f, "recompute-layers=%lld(recipe)", (long long)r->recompute_layers);
    return MAL_OK;
  }
  bool inferred = word(f->row->framework->inferred, "recompute");
  const char *text = fill_text(f, "recompute", inferred ? "" : t->recompute, f->row->framework->recompute, "none");
  if (word(text, "selective") && word(f->row->framework->selective, "half")) {
    l->recompute = MAL_RECOMPUTE_FULL;
    l->recompute_layers = (f->layers / l->pp + 1) / 2;
    return MAL_OK;
  }
  return find_name(mal_recompute_name, text, "recompute", &l->recompute, e);
}

static mal_status fill_attention(mal_filled *f, mal_layout *l, mal_error *e) {
  const mal_framework *w = f->row->framework;
  static const char *const kernels[] = {"unfused", "flash1", "flash2", "cudnn", NULL};
  int64_t flash = fill(f, "flash", f->row->trial->flash, MAL_BLANK, w->flash, 1);
  if (!flash) {
    l->attention = MAL_ATT_UNFUSED;
    return MAL_OK;
  }
  return *w->attention ? find_name(kernels, w->attention, "attention", &l->attention, e) : MAL_OK;
}

mal_status mal_fill_layout(mal_arena *a, mal_filled *f, const mal_model *model, const mal_machine *machine,
                           mal_job *job, mal_layout *l, mal_error *e) {
  const mal_trial *t = f->row->trial;
  const mal_framework *w = f->row->framework;
  mal_layout_default(l);
  mal_status s = *w->layout ? mal_layout_parse(a, w->layout, l, e) : MAL_OK;
  if (s == MAL_OK) s = fill_job(f, job, e);
  if (s != MAL_OK) return s;
  f->layers = model->layers;
  fill_split(f, machine, l);
  fill_experts(f, model, l);
  fill_micro_batch(f, l);
  fill_chunks(f, model, l);
  fill_schedule(t, l);
  l->zero = (int)fill(f, "zero", t->zero, MAL_BLANK, w->zero, 1);
  if (l->zero > 3) return mal_fail(e, MAL_BAD, _("zero_stage_or_fsdp is %d"), l->zero);
  l->sequence_parallel = (int)fill(f, "sequence-parallel", t->seq_par, MAL_BLANK, w->seq_par, MAL_AUTO);
  if (l->tp == 1) l->sequence_parallel = MAL_OFF;
  s = fill_recompute(f, l, e);
  return s == MAL_OK ? fill_attention(f, l, e) : s;
}
