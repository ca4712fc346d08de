/* How the job is split over ranks. world = tp · cp · dp · pp, rank = mixed radix in that order (tp fastest);
 * experts re-view a stage's tp · cp · dp ranks as etp · ep · edp. A group is a mask of axes: base + Σ i · stride, never a list. */
#ifndef MAL_LAYOUT_LAYOUT_H
#define MAL_LAYOUT_LAYOUT_H
#include "job/job.h"
#include "job/profile.h"

typedef enum mal_schedule_kind {
  MAL_1F1B,
  MAL_INTERLEAVED,
  MAL_GPIPE,
  MAL_ZB_H1,
  MAL_ZB_2P,
  MAL_DUALPIPE,
  MAL_SCHEDULES
} mal_schedule_kind;
typedef enum mal_recompute {
  MAL_RECOMPUTE_NONE,
  MAL_RECOMPUTE_SELECTIVE,
  MAL_RECOMPUTE_FULL,
  MAL_RECOMPUTES
} mal_recompute;
typedef enum mal_cp_kind { MAL_CP_RING, MAL_CP_ALLTOALL, MAL_CP_ALLGATHER } mal_cp_kind;
typedef enum mal_offload { MAL_OFFLOAD_NONE, MAL_OFFLOAD_CPU, MAL_OFFLOAD_NVME } mal_offload;
typedef enum mal_tristate { MAL_AUTO = -1, MAL_OFF = 0, MAL_ON = 1 } mal_tristate; /* AUTO: the profile's default */

typedef enum mal_axis {
  MAL_AXIS_TP,
  MAL_AXIS_CP,
  MAL_AXIS_DP,
  MAL_AXIS_PP,
  MAL_AXIS_EP,
  MAL_AXIS_ETP,
  MAL_AXIS_EDP,
  MAL_AXES
} mal_axis;

typedef struct mal_layout {
  int64_t tp, cp, dp, pp;   /* dp 0: derived from the GPUs */
  int64_t vpp;              /* chunks per stage (virtual stages); 0: the profile's default */
  int64_t ep, etp;          /* etp 0: tp where that divides the experts' ranks (Megatron's default), else 1 */
  int zero;                 /* 0..3; 3 = FSDP. -1: the profile's */
  int64_t hybrid;           /* ZeRO-3/FSDP shard group, ranks; 0 = whole dp·cp (HSDP: GPUs of a node) */
  int sequence_parallel;    /* mal_tristate; only with tp > 1 */
  int64_t micro_batch;      /* sequences; 0: derived */
  int recompute;            /* mal_recompute */
  int64_t recompute_layers; /* FULL on this many layers of each stage, the rest NONE; -1 = all */
  int schedule;             /* mal_schedule_kind */
  int cp_kind;
  int attention; /* mal_attention_kernel, -1 the profile's */
  int overlap_tp, overlap_dp_grad, overlap_dp_param, overlap_pp, overlap_cp; /* mal_tristate */
  int offload_optimizer, offload_params;                                     /* mal_offload */
  int64_t first_stage_layers, last_stage_layers;                             /* uneven stages; -1 = even */
  double
      head_layers; /* derived: stages are cut by cost, and the head costs as much as so many layers; 0: they are even */
  bool
      embedding_in_layers; /* count embedding and head as a layer each when dividing stages (Megatron's account_for_*) */
} mal_layout;

/* "tp=8,pp=2,dp=1,zero=1,micro-batch=1,recompute=selective": keys are the option names of mal_layout_options. */
extern const mal_option mal_layout_options[];
extern const int mal_layout_option_count;
void mal_layout_default(mal_layout *l); /* one GPU of everything, dp and the batch derived, the rest the profile's */
mal_status mal_layout_parse(mal_arena *a, const char *text, mal_layout *l, mal_error *e);
char *mal_layout_show(mal_arena *a, const mal_layout *l); /* the shortest text that parses to the same layout */

/* Derives what was left out (dp from the GPU count; any two of micro-batch, accumulation, global batch; tristates from the
 * profile; seq) and checks everything against model, machine and job: divisibility, group sizes, schedule needs. The first
 * thing wrong is said with the numbers and the nearest values that work. *arithmetic gets "1024 = 2 × 8 × 64". */
mal_status mal_layout_complete(mal_arena *a, const mal_model *m, const mal_machine *machine, const mal_profile *p,
                               mal_job *job, mal_layout *l, char **arithmetic, mal_error *e);

/* Size of the group over a mask of axes (1 << MAL_AXIS_TP | ...), and how it lies on nodes: price sees only this. */
typedef struct mal_group {
  int64_t size, ranks_per_node,
      nodes; /* ranks_per_node: members in one node, or in one NVLink domain where that is larger (NVL72) */
  int64_t ranks_per_nvlink; /* members that reach each other over NVLink; 1 where there is none */
  int64_t stride;           /* between neighbours, ranks */
  double nic_share; /* groups of this kind that share a node's NICs at the same time, as ranks: NICs per member */
} mal_group;
mal_group mal_layout_group(const mal_layout *l, const mal_machine *machine, unsigned axes);
/* Members of a group: base + Σ i · stride with i < extent. The spans over a mask of axes, of extents above 1, by stride;
 * returns their count. */
typedef struct mal_span {
  int64_t stride, extent;
} mal_span;
int mal_layout_spans(const mal_layout *l, unsigned axes, mal_span spans[MAL_AXES]);
mal_span mal_layout_shard_span(const mal_layout *l);
mal_span mal_layout_replica_span(const mal_layout *l);
/* ZeRO's shard group (dp·cp, or `hybrid` of it) and the group of the ranks that hold the same shard (size 1 unless hybrid). */
mal_group mal_layout_shard_group(const mal_layout *l, const mal_machine *machine);
mal_group mal_layout_replica_group(const mal_layout *l, const mal_machine *machine);
/* GPUs of the machine that reach each other over NVLink at full rate, as whole nodes where the domain spans several. Racks
 * are filled evenly: of 256 GPUs in NVL72 racks, 64 a rack. */
int64_t mal_machine_domain(const mal_machine *machine);
int64_t mal_layout_world(const mal_layout *l);
int64_t mal_layout_edp(const mal_layout *l); /* expert data parallel: tp·cp·dp / (etp·ep) */

/* Layers of each chunk: chunk c of stage s is virtual stage c·pp + s. first[] and count[] have pp·vpp entries, by virtual stage. */
void mal_layout_stages(const mal_layout *l, int64_t layers, int64_t *first, int64_t *count);

extern const char *const mal_schedule_name[], *const mal_recompute_name[], *const mal_cp_name[],
                                                                               *const mal_offload_name[];
#endif
