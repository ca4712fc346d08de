#include "program/builder.h"

mal_group mal_instruction_group(const mal_plan *plan, unsigned axes) {
  if (axes == MAL_AXES_SHARD) return mal_layout_shard_group(&plan->layout, &plan->machine);
  if (axes == MAL_AXES_REPLICA) return mal_layout_replica_group(&plan->layout, &plan->machine);
  return mal_layout_group(&plan->layout, &plan->machine, axes);
}

static const char *block_name(mal_arena *a, const mal_block_request *r) {
  static const char *const names[MAL_B_CLASSES] = {"embedding", "layer", "mtp", "head", "gradient sync", "optimizer"};
  if (r->block_class != MAL_B_LAYER) return names[r->block_class];
  const mal_layer_kind *k = &r->plan->model.kinds[r->kind];
  return mal_print(a, "layer(%s%s) recompute=%s", k->mlp == MAL_MLP_MOE ? "experts" : "dense",
                   k->window ? ", window" : "", mal_recompute_name[r->recompute]);
}

static mal_status check(const mal_block_request *r, mal_error *e) {
  const mal_layout *l = &r->plan->layout;
  if (l->offload_params != MAL_OFFLOAD_NONE && l->zero != 3)
    return mal_fail(e, MAL_BAD,
                    _("offload of parameters needs zero=3: only sharded parameters can be fetched block by block."));
  return MAL_OK;
}

mal_status mal_block_lower(mal_arena *a, const mal_block_request *r, mal_block *out, mal_error *e) {
  static void (*const forward[MAL_B_CLASSES])(mal_builder *) = {
      [MAL_B_EMBED] = mal_embed_block, [MAL_B_LAYER] = mal_layer_block, [MAL_B_MTP] = mal_mtp_block,
      [MAL_B_HEAD] = mal_head_block,   [MAL_B_SYNC] = mal_sync_block,   [MAL_B_OPTIMIZER] = mal_optimizer_block,
  };
  if (check(r, e) != MAL_OK) return MAL_BAD;
  mal_builder b;
  *out =
      (mal_block){.block_class = r->block_class, .kind = r->kind, .recompute = r->recompute, .name = block_name(a, r)};
  mal_builder_init(&b, a, r, out, e);
  forward[r->block_class](&b);
  if (b.status != MAL_OK) return b.status;
  if (r->block_class < MAL_B_SYNC) {
    mal_params_rest(&b);
    if (r->block_class == MAL_B_LAYER && !r->unit_only) mal_recompute_list(&b);
    if (!r->unit_only) {
      mal_backward(&b);
      mal_drop_unused(&b);
    }
    mal_unit_lists(&b);
  }
  return mal_builder_finish(&b, out);
}
