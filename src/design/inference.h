/* What a training node gives when it serves: memory for the cache of keys and values, and bounds on tokens a second.
 *
 * Bounds are rooflines (Williams, Waterman, Patterson 2009) as Pope et al., "Efficiently scaling transformer inference", 2022
 * (arXiv 2211.05102), section 2 and 3.1, apply them to tensor parallelism:
 *   decode step of b sequences:  max(bytes read / memory bandwidth, FLOPs / peak, bytes sent / link) + latency of 2 all-reduces a layer of b · hidden values, each two
 *                                latencies of the link and 2 (tp - 1) / tp of its bytes at the data sheet's rate
 *   bytes read on a GPU:         its weights (of experts those that b tokens meet) + b · context · its keys and values
 *   FLOPs on a GPU:              b · 2 · active parameters / tp + attention over the context
 *   keys and values of a token:  Σ layers 2 · kv heads · head width · bytes; latent attention (MLA): (rank + rotary) · bytes, on
 *                                every rank; fewer kv heads than ranks are copied; a sliding window ends the context
 * No engine passes them; good ones reach 50 to 80 %. Servers: vLLM gives weights, work and cache 0.9 of memory
 * (gpu_memory_utilization, its default), TGI the whole (cuda-memory-fraction 1.0, its default); Kwon et al. 2023 (arXiv 2309.06180)
 * for the paged cache, of which nearly all is usable. */
#ifndef MAL_DESIGN_INFERENCE_H
#define MAL_DESIGN_INFERENCE_H
#include "machine/machine.h"
#include "model/model.h"

typedef struct mal_serving {
  int64_t tp, replicas;          /* replicas on one node */
  int type;                      /* mal_dtype of weights: bf16 or fp8; the cache is bf16 */
  bool fits;                     /* one sequence of the context beside the weights, under vLLM's share */
  double weight_bytes;           /* on one GPU */
  double kv_token_bytes;         /* of one token, one GPU */
  double kv_bytes, kv_bytes_tgi; /* of all tp GPUs */
  int64_t tokens, sequences;     /* of cache, of the context; one replica, vLLM */
  double one_tokens_per_s;       /* a sequence alone */
  double most_tokens_per_s;      /* all sequences that fit, one replica */
  const char *bound;             /* of that: "memory", "compute", "traffic" */
  double prefill_tokens_per_s;   /* one replica */
} mal_serving;

enum { MAL_SERVING_MOST = 16 };
extern const double mal_serving_share; /* of memory that vLLM takes */
/* Keys and values of one token in all layers, on one of tp ranks; context: of sliding windows. */
double mal_kv_token_bytes(const mal_model *m, int64_t tp, int64_t context, double value_bytes);
/* Rows for tp = 1, 2, 4 .. GPUs of the node, bf16 and, where the GPU has it, fp8; returns how many. */
int mal_serving_list(const mal_machine *machine, const mal_model *m, int64_t context, mal_serving *list);
#endif
