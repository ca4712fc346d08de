/* How a framework lowers. (i) switches: booleans and bytes read from its public code; only these touch the program.
 * (ii) additive memory. (iii) at most three fitted numbers. catalog/profiles/NAME.yaml, `base: OTHER` inherits. */
#ifndef MAL_JOB_PROFILE_H
#define MAL_JOB_PROFILE_H
#include "job/job.h"
#include "machine/machine.h"

typedef enum mal_logits {
  MAL_LOGITS_SHARDED,
  MAL_LOGITS_GATHERED
} mal_logits; /* vocabulary-parallel loss, or whole logits on each rank */
typedef enum mal_launch {
  MAL_LAUNCH_EAGER,
  MAL_LAUNCH_GRAPH,
  MAL_LAUNCH_BLOCKING
} mal_launch; /* blocking: host time adds (CUDA_LAUNCH_BLOCKING) */

/* Selective recomputation: all is kept but the attention core; or what is named is kept and all else repeated. */
typedef enum mal_selective {
  MAL_SELECTIVE_CORE,      /* Megatron-LM (arXiv:2205.05198) */
  MAL_SELECTIVE_OPERATORS, /* attention and every second product: torchtitan */
  MAL_SELECTIVE_QKV,       /* the projections into attention: MaxText, save_qkv_proj */
  MAL_SELECTIVE_QKV_OUT,   /* and the one out of it: praxis, SAVE_QKV_OUT_PROJ */
  MAL_SELECTIVE_PRODUCTS,  /* every product: praxis, SAVE_DOT_ONLY */
  MAL_SELECTIVES
} mal_selective;

typedef struct mal_profile {
  char *name, *title, *base, *source; /* source: repository and commit that the switches were read from */

  /* (i) switches */
  /* states, bytes per parameter, for 16-bit and lower precision; fp32 training uses 4 for each */
  int64_t grad_bytes; /* the gradient buffer that accumulates: 2 or 4 */
  int64_t
      grad_extra_bytes; /* a second, transient or persistent gradient copy in the compute type (DeepSpeed bf16: 2) */
  bool grad_extra_is_bucket;   /* that copy is the reduction's bucket: none where gradients are not summed over ranks */
  int64_t reduce_bytes;        /* bytes an element has in the gradient reduction: 2 or 4 */
  bool master_fp32;            /* fp32 master weights beside 16-bit weights */
  int64_t sharded_param_bytes; /* ZeRO-3/FSDP: bytes of the sharded copy (4: it is itself the master; 2: pure) */
  bool fp8_params;             /* weights of 8-bit products are held in 8 bits alone, rows first and columns first */
  bool shard_with_master;      /* ZeRO-1 fp16 keeps an fp32 gradient shard too (DeepSpeed fp16) */
  bool
      empty_grads; /* accumulation fused into the product: autograd gets an empty 16-bit gradient of each weight all the same */
  bool flattens_shard; /* before the step, the owned shard's 16-bit gradients are copied into one buffer */
  /* what is fused: fewer passes over memory and fewer saved tensors */
  bool fused_softmax, fused_norm, fused_activation, fused_bias_dropout_add, fused_rope, fused_cross_entropy, fused_qkv,
      fused_optimizer,
      fused_adapters; /* LoRA's second product adds the frozen one's result, a frozen product's gradient that of the adapter */
  bool dropout;   /* hidden and attention dropout active (masks kept) */
  bool norm_fp32; /* norms compute on and save an fp32 copy (autocast) */
  int selective;  /* mal_selective: what selective recomputation means there */
  bool
      drops_unused; /* what is repeated although nothing in backward reads it is left out: the compiler sees the whole step */
  bool saves_gathered; /* sequence parallelism: gathered inputs of products are kept, not gathered again in backward */
  bool save_rotary_inputs;
  bool plain_rope_only; /* the fused rotation has no factor: models with one (YaRN) rotate by single operators */
  bool
      zero1_all_reduce; /* ZeRO-1 sums whole gradients on every rank (all-reduce) rather than its shard (reduce-scatter) */
  bool gate_enters_apart; /* gate and up are two column-parallel layers, each sums its own input gradient over tp */
  bool vocab_padded;      /* vocabulary padded to 128 × tp */
  bool runs_gpipe, runs_zero_bubble,
      runs_dualpipe;          /* schedules that the framework has beside 1F1B, interleaved or not */
  bool runs_sharded_pipeline; /* ZeRO-2 and 3 beside a pipeline */
  int attention;              /* default mal_attention_kernel */
  int logits;                 /* mal_logits */
  int64_t logits_bytes;       /* bytes held per logit at the peak of the loss, all copies together */
  int launch;                 /* mal_launch */
  int64_t permute_passes;     /* memory passes of a token permutation, over the one that a fused kernel makes; 0: 1 */
  bool
      overlap_ep; /* expert traffic of a micro-batch runs beside the products of another (combined forward and backward) */
  bool graph_attention, graph_router,
      graph_mlp; /* parts of a layer in CUDA graphs: attention with its norm, router with its norm and
                                                    the sorting of tokens, MLP of a dense layer; the rest is issued kernel by kernel */
  bool
      dispatch_once; /* a token goes once to a rank that has several of its experts (DeepEP, HybridEP), not once an expert */
  bool
      sorts_chunks; /* what arrives from several ranks is sorted by expert in one more pass, and back (all-to-all dispatcher) */
  bool pads_experts; /* low precision: tokens of each expert are copied to rows of a multiple of 16 or 32, and back */
  bool
      expert_bias_apart; /* bias of the experts' second product: added in fp32, expert by expert, then joined and cast */
  bool clamps_apart;     /* gate and up are clamped, and joined again, before the fused activation */
  bool remakes_expert_act; /* recomputation of the experts' activation alone (Megatron-Core: moe_act) */
  bool
      fused_experts; /* both products of the experts, activation and casts in one kernel on counts that stay on the device */
  bool fp8_attention;        /* attention core in 8 bits when the products are */
  bool fp8_amax_pass;        /* fp8 scales from the tensor itself: one more pass reads it before the cast */
  int64_t kernels_router;    /* of kernels_extra_moe, those inside the router's graph */
  int64_t kernels_extra_moe; /* the same of a layer with experts: sorting, splits, counts that the host reads back */
  int64_t kernels_extra;     /* small kernels per layer and pass beyond the lowered ones */
  /* overlap when the layout does not say */
  bool overlap_tp, overlap_dp_grad, overlap_dp_param, overlap_pp, overlap_cp;
  bool
      tp_backward_async; /* input-gradient sums over tp run beside the weight gradient (Megatron 2022 and later), forward waits */
  bool
      pp_scatter_gather; /* a message between stages is cut over tp and gathered behind (Megatron, SC 21, section 4.1) */
  int64_t bucket_elements_per_rank; /* the bucket is at least so large for each data-parallel rank */
  int64_t bucket_elements;          /* gradient bucket */
  bool stages_by_cost;              /* pipeline stages are cut by the cost of their products, the head's included */
  int64_t prefetch;                 /* FSDP units gathered ahead */
  bool regather_backward;           /* ZeRO-3: gather again for backward (reshard after forward) */
  int default_zero;
  bool seq_par_default, vpp_default_one_layer;

  /* (ii) additive memory, bytes */
  bool
      dynamic_memory; /* from an allocator, not in regions: what the head kept is free again when layers run backward */
  bool
      lazy_grads; /* gradients are made in backward and freed after the step: with one micro-batch they follow the stash */
  bool optimizer_in_backward; /* a weight is updated when its gradient is made: one block's gradients at a time */
  bool offloads_stash;        /* what forward keeps goes to the host, but for the logits */
  bool keeps_stage_input, keeps_stage_output; /* what stages hand over is held a second time until its backward */
  bool
      phases_add; /* blocks that the allocator cached in the passes do not serve the larger buffers of the step's end */
  int64_t context_bytes, communicator_bytes; /* CUDA context + library workspaces; per process group of size > 1 */
  double slack;                              /* allocator: share of dynamic memory lost to fragmentation and rounding */

  /* half width of the 80 % interval of step time, in its logarithm, dense models and those with experts: what suits the
   * errors of each source of this profile's runs best, that source left out of the fit (bench/fit); 0: by class of plan */
  double interval, interval_moe;
  /* sigma of log(peak of memory / estimate) over this profile's measured runs (bench/fit); 0: none, price/risk.h */
  double memory_sigma;

  /* (iii) fitted */
  mal_fitted memory_pass;       /* bytes moved by memory-bound kernels over the lowered ones */
  mal_fitted host_s_per_kernel; /* host time to issue one kernel on a host of speed 1 */
  mal_fitted dp_exposed;        /* share of the overlappable dp traffic that stays exposed all the same */
} mal_profile;

mal_status mal_profile_load(mal_arena *a, const char *name, mal_profile **p, mal_error *e);
mal_status mal_profile_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_profile **p,
                             mal_error *e);
extern const char *const mal_attention_name[MAL_ATT_KERNELS + 1]; /* "unfused", ... ; NULL ends it */
int mal_profile_constants(mal_profile *p, const char **names, mal_fitted **constants, int max);
/* "megatron" if tp, pp or ep > 1, else "fsdp2" on GPUs. */
const char *mal_profile_default(int64_t tp, int64_t pp, int64_t ep);
#endif
