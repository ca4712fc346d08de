/* DeepSeek-V2 and V3: multi-head latent attention, fine experts beside shared ones, dense first layers, and in V3 a
 * router bias trained apart and modules that predict further tokens.
 * Shapes: DeepSeek-V2, arXiv:2405.04434, section 2; DeepSeek-V3, arXiv:2412.19437, sections 2.1, 2.2.
 * Defaults: configuration_deepseek_v2.py, _v3.py of transformers; num_nextn_predict_layers is the checkpoints' own. */
#include "model/family.h"

typedef struct deepseek {
  mal_basics basics;
  int64_t experts, shared, top_k, expert_ffn, first_dense; /* top_k 0: must be given */
  double rope_theta;
  bool router_bias;
} deepseek;

static void put_mla(mal_reader *r, const mal_layer_kind *k, bool bias) {
  int64_t h = r->m->hidden, nope = k->head_dim - k->rope_dim, q = k->heads * k->head_dim;
  if (k->q_lora_rank) {
    mal_put_linear(r, MAL_W_Q_DOWN, MAL_SPLIT_NONE, "self_attn.q_a_proj", k->q_lora_rank, h, bias);
    mal_put_norm(r, MAL_W_NORM, "self_attn.q_a_layernorm", k->q_lora_rank, false);
    mal_put(r, MAL_W_Q_UP, MAL_SPLIT_OUT, "self_attn.q_b_proj", q, k->q_lora_rank);
  } else {
    mal_put(r, MAL_W_Q_UP, MAL_SPLIT_OUT, "self_attn.q_proj", q, h);
  }
  mal_put_linear(r, MAL_W_KV_DOWN, MAL_SPLIT_NONE, "self_attn.kv_a_proj_with_mqa", k->kv_lora_rank + k->rope_dim, h,
                 bias);
  mal_put_norm(r, MAL_W_NORM, "self_attn.kv_a_layernorm", k->kv_lora_rank, false);
  mal_put(r, MAL_W_KV_UP, MAL_SPLIT_OUT, "self_attn.kv_b_proj", k->heads * (nope + k->v_head_dim), k->kv_lora_rank);
  mal_put_linear(r, MAL_W_OUT, MAL_SPLIT_IN, "self_attn.o_proj", h, k->heads * k->v_head_dim, bias);
}

static int add_kind(mal_reader *r, const mal_layer_kind *k, bool router_bias) {
  mal_layer_names names = mal_llama_layer;
  names.shared_gate = "mlp.shared_experts.gate_proj";
  names.shared_up = "mlp.shared_experts.up_proj";
  names.shared_down = "mlp.shared_experts.down_proj";
  mal_begin(r, names.prefix);
  mal_put_norms(r, &names, k);
  put_mla(r, k, k->qkv_bias);
  mal_put_mlp(r, &names, k);
  if (k->mlp == MAL_MLP_MOE && router_bias)
    mal_put_vector(r, MAL_W_BUFFER, MAL_SPLIT_NONE, "mlp.gate.e_score_correction_bias", k->experts);
  return mal_end_kind(r, k);
}

/* Module d is a layer of the last kind, numbered after the others, behind norms of the hidden state and of the next
 * token's embedding and a projection of both. It shares embedding and head with the model. */
static void add_outer(mal_reader *r) {
  mal_model *m = r->m;
  mal_add_outer(r, &mal_llama_outer);
  for (int64_t d = 0; d < m->mtp_layers; d++) {
    r->prefix = mal_print(r->a, "model.layers.%lld.", (long long)(m->layers + d));
    mal_put_norm(r, MAL_W_MTP, "enorm", m->hidden, false);
    mal_put_norm(r, MAL_W_MTP, "hnorm", m->hidden, false);
    mal_put(r, MAL_W_MTP, MAL_SPLIT_NONE, "eh_proj", m->hidden, 2 * m->hidden);
    mal_put_norm(r, MAL_W_MTP, "shared_head.norm", m->hidden, false);
  }
  mal_end_model(r);
}

static mal_layer_kind read_attention(mal_reader *r, const deepseek *d) {
  mal_layer_kind k = mal_read_basics(r, &d->basics);
  k.mixer = MAL_MLA;
  k.kv_heads = k.heads;
  k.kv_lora_rank = mal_width(r, "kv_lora_rank", 512);
  k.q_lora_rank = mal_width(r, "q_lora_rank", mal_is_null(r, "q_lora_rank") ? 0 : 1536);
  k.rope_dim = mal_width(r, "qk_rope_head_dim", 64);
  k.head_dim = mal_width(r, "qk_nope_head_dim", 128) + k.rope_dim;
  k.v_head_dim = mal_width(r, "v_head_dim", 128);
  k.rope_theta = mal_key_rope_theta(r, d->rope_theta);
  k.qkv_bias = k.out_bias = mal_key_bool(r, "attention_bias", false);
  k.gated = true;
  mal_read_norm(r, &k, MAL_RMSNORM, "rms_norm_eps", 1e-6);
  return k;
}

static void read_experts(mal_reader *r, const deepseek *d, mal_layer_kind *k) {
  k->mlp = MAL_MLP_MOE;
  k->experts = mal_key(r, "n_routed_experts", 1, MAL_MAX_EXPERTS, d->experts);
  k->ffn = mal_width(r, "moe_intermediate_size", d->expert_ffn);
  k->shared_ffn = mal_key(r, "n_shared_experts", 0, 1024, mal_is_null(r, "n_shared_experts") ? 0 : d->shared) * k->ffn;
  k->top_k = mal_key(r, "num_experts_per_tok", 1, MAL_MAX_EXPERTS, d->top_k);
  if (!k->top_k) mal_reject(r, "num_experts_per_tok", _("is missing. Give the number of experts each token goes to."));
}

static void read_deepseek(mal_reader *r, const deepseek *d) {
  mal_model *m = r->m;
  mal_layer_kind dense = read_attention(r, d), moe = dense;
  read_experts(r, d, &moe);
  int64_t first = mal_key(r, "first_k_dense_replace", 0, MAL_MAX_LAYERS, d->first_dense);
  int64_t every = mal_key(r, "moe_layer_freq", 1, MAL_MAX_LAYERS, 1);
  m->mtp_layers = mal_key(r, "num_nextn_predict_layers", 0, MAL_MAX_MTP, 0);
  m->tied_embeddings = mal_key_bool(r, "tie_word_embeddings", false);
  if (r->status != MAL_OK) return;
  int dense_kind = -1, moe_kind = -1;
  for (int64_t l = 0; l < m->layers; l++)
    if (l < first || l % every) {
      if (dense_kind < 0) dense_kind = add_kind(r, &dense, false);
      m->kind_of[l] = (uint8_t)dense_kind;
    }
  for (int64_t l = first; l < m->layers; l++)
    if (l % every == 0) {
      if (moe_kind < 0) moe_kind = add_kind(r, &moe, d->router_bias);
      m->kind_of[l] = (uint8_t)moe_kind;
    }
  add_outer(r);
}

static void read_v2(mal_reader *r) {
  static const deepseek defaults = {.basics = {.vocab = 32000,
                                               .hidden = 4096,
                                               .ffn = 11008,
                                               .layers = 32,
                                               .heads = 32,
                                               .positions = 2048,
                                               .activation = MAL_SILU},
                                    .experts = 64,
                                    .shared = 2,
                                    .expert_ffn = 1407,
                                    .rope_theta = 10000};
  read_deepseek(r, &defaults);
}

static void read_v3(mal_reader *r) {
  static const deepseek defaults = {.basics = {.vocab = 129280,
                                               .hidden = 7168,
                                               .ffn = 18432,
                                               .layers = 61,
                                               .heads = 128,
                                               .positions = 4096,
                                               .activation = MAL_SILU},
                                    .experts = 256,
                                    .shared = 1,
                                    .top_k = 8,
                                    .expert_ffn = 2048,
                                    .first_dense = 3,
                                    .rope_theta = 10000,
                                    .router_bias = true};
  read_deepseek(r, &defaults);
}

const mal_family mal_family_deepseek_v2 = {"deepseek_v2", read_v2, "DeepseekV2ForCausalLM"};
const mal_family mal_family_deepseek_v3 = {"deepseek_v3", read_v3, "DeepseekV3ForCausalLM"};
