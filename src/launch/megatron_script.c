/* The script that starts Megatron-LM with torchrun: run on each node, by hand or by a scheduler. */
#include "launch/export.h"
#include "launch/megatron.h"
#include "launch/script.h"
#include "price/upkeep.h"
#include <string.h>

typedef long long ll;

static const char target[] = "megatron";

static bool
blackwell(const mal_plan *p) { /* its GPUs issue copies and products from one queue in any number of connections */
  return p->machine.gpu->flops[MAL_F4].value > 0;
}

static void put_environment(mal_export *x, mal_writing *w) {
  const mal_layout *l = &x->plan->layout;
  mal_settings kept = {.arena = x->a};
  if (l->zero < 2 && (l->tp > 1 || l->cp > 1) && !blackwell(x->plan))
    mal_write(w, "export CUDA_DEVICE_MAX_CONNECTIONS=1 # collectives are issued before the products that hide them\n");
  mal_export_kept(x, "environment", &kept);
  for (int i = 0; i < kept.count; i++)
    if (kept.all[i].n_values)
      mal_write(w, "export %s=%s # kept\n", kept.all[i].key, mal_script_word(x->a, kept.all[i].values[0]));
}

/* What no plan says, but a run needs: taken from the environment. */
static void put_rest(mal_export *x, mal_writing *w) {
  const mal_plan *p = x->plan;
  bool lr = !mal_export_keeps(x, target, "--lr"), data = true, steps = p->job.tokens < 1, save, where;
  static const char *const own[] = {
      "--data-path",      "--mock-data", "--data-args-path", "--tokenizer-type", "--per-split-data-args-path",
      "--train-data-path"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) data = data && !mal_export_keeps(x, target, own[i]);
  steps = steps && !mal_export_keeps(x, target, "--train-iters") && !mal_export_keeps(x, target, "--train-samples");
  save = !mal_export_keeps(x, target, "--save-interval");
  where = !mal_export_keeps(x, target, "--save") && !mal_export_keeps(x, target, "--load");
  mal_write(w, "\n# What the plan does not say.\nREST=(\n");
  if (steps) mal_write(w, "  --train-iters \"${TRAIN_ITERS:?how many steps}\"\n");
  if (lr) mal_write(w, "  --lr \"${LR:-3e-4}\"\n");
  if (save && x->estimate->step_s > 0) {
    double every = mal_upkeep_of(x->program).interval_s;
    ll steps_between = every > 0 ? (ll)(every / x->estimate->step_s + 0.5) : 0;
    if (steps_between < 1) steps_between = 1;
    mal_write(w, "  --save-interval \"${SAVE_INTERVAL:-%lld}\" # by Young and Daly, at %.3g s a step\n", steps_between,
              x->estimate->step_s);
  }
  mal_write(w, ")\n");
  if (where)
    mal_write(w,
              "if [ -n \"${CHECKPOINTS:-}\" ]; then\n  REST+=(--save \"$CHECKPOINTS\" --load \"$CHECKPOINTS\")\nfi\n");
  if (!data) return;
  mal_write(w,
            "if [ -n \"${DATA_PATH:-}\" ]; then\n"
            "  DATA=(--data-path \"$DATA_PATH\" --tokenizer-type HuggingFaceTokenizer\n"
            "    --tokenizer-model \"${TOKENIZER_MODEL:?a tokenizer for DATA_PATH}\")\n"
            "else # noise instead of data, for a trial of the speed\n"
            "  DATA=(--mock-data --tokenizer-type NullTokenizer --vocab-size %lld)\nfi\n",
            (ll)p->model.vocab);
  mal_write(w, "REST+=(\"${DATA[@]}\")\n");
}

static void put_launch(mal_export *x, mal_writing *w) {
  mal_export_torchrun_options(x, w);
  mal_write(w, "\nexec torchrun \"${LAUNCH[@]}\" \"${BIND[@]}\" \"${MEGATRON:-.}/pretrain_gpt.py\" \\\n"
               "  \"${MODEL[@]}\" \"${SPLIT[@]}\" \"${KEPT[@]}\" \"${REST[@]}\" \"$@\"\n");
}

mal_status mal_export_megatron(mal_export *x, mal_error *e) {
  (void)e;
  mal_arena *a = x->a;
  mal_settings model = {.arena = a}, split = {.arena = a}, kept = {.arena = a};
  mal_bridge b = {.a = a, .plan = x->plan, .settings = &model, .target = "Megatron-LM"};
  mal_writing w = {.arena = a}, body = {.arena = a};
  int first = x->notes.count;
  mal_megatron_model(&b, &x->plan->model);
  b.settings = &split;
  mal_megatron_write(&b);
  mal_export_kept(x, target, &kept);
  if (mal_setting_find(&kept, "--train-iters") || mal_setting_find(&kept, "--train-samples"))
    for (int i = 0; i < split.count; i++)
      if (strcmp(split.all[i].key, "--train-iters") == 0) split.all[i] = split.all[--split.count];
  for (int i = 0; i < b.notes.count; i++) mal_note_add(a, &x->notes, NULL, 0, "%s", b.notes.all[i].text);
  put_environment(x, &body);
  if (body.used) mal_write(&body, "\n");
  mal_export_array(&body, "MODEL", &model);
  mal_export_array(&body, "SPLIT", &split);
  mal_write(&body, "\n# Settings that were there before and that the plan has no word for.\n");
  mal_export_array(&body, "KEPT", &kept);
  put_rest(x, &body);
  put_launch(x, &body);
  mal_write(&w, "#!/usr/bin/env bash\n");
  mal_export_head(x, &w, "#", mal_target_named("megatron"), first);
  mal_write(&w,
            "# On each of %lld nodes: bash train-megatron.sh, with MEGATRON the folder of Megatron-LM.\nset -euo "
            "pipefail\n\n%s",
            (ll)x->plan->machine.nodes, body.text);
  mal_export_file(x, "train-megatron.sh", w.text, true);
  return MAL_OK;
}
