/* Inside the schedules: the order of a stage's computations, and the logical clock that orders its messages.
 *
 * A schedule family says two things. (1) The order of F, B and W (or BW) on each stage. (2) A logical time for every F and
 * B such that time grows along every stage's order and from producer to consumer. A message takes the time of what
 * produced it; every stage issues computations and messages by (time, computations first, message rank). So the tables of all
 * stages are parts of one global sequence, and no stage can wait in a circle, even where each SEND waits for its RECV.
 *
 * Sources: GPipe (Huang et al. 2019); 1F1B (Narayanan et al., PipeDream-Flush); interleaved 1F1B (Narayanan et al. 2021,
 * and Megatron-LM's pipeline_parallel/schedules.py); ZB-H1 and ZB-H2 (Qi et al., Zero Bubble Pipeline Parallelism, 2024, sections 2.1 and 2.2; their
 * ZB-1p and ZB-2p search for orders within the same memory);
 * DualPipe (DeepSeek-V3 report, section 3.2.1, and github.com/deepseek-ai/DualPipe). */
#ifndef MAL_PROGRAM_SCHEDULE_H
#define MAL_PROGRAM_SCHEDULE_H
#include "program/program.h"

typedef struct mal_pipe {
  int kind; /* mal_schedule_kind, 1F1B with chunks already read as interleaved */
  int64_t pp, chunks, micro_batches;
  int32_t *times; /* DualPipe: by stage, chunk, F or B, micro-batch; else NULL */
} mal_pipe;

mal_pipe mal_pipe_of(const mal_layout *l, int64_t micro_batches);
/* Virtual stages of one micro-batch: pp · vpp, DualPipe pp. */
int64_t mal_pipe_depth(const mal_pipe *p);
/* The virtual stage that chunk c of stage s is, for its micro-batches. */
int64_t mal_pipe_virtual(const mal_pipe *p, int64_t stage, int64_t chunk);
/* Stage and chunk of the virtual stage that lies `by` (±1) after this one, for the same micro-batch. */
void mal_pipe_neighbour(const mal_pipe *p, int64_t stage, int64_t chunk, int by, int64_t *peer, int64_t *peer_chunk);

typedef void mal_pipe_emit(void *context, mal_step_op op, int64_t chunk, int64_t micro_batch);
/* Calls emit for each computation of a stage, in order. */
void mal_pipe_order(const mal_pipe *p, int64_t stage, mal_pipe_emit *emit, void *context);
/* Logical time of F or B (BW counts as B). */
int64_t mal_pipe_time(const mal_pipe *p, int64_t stage, bool backward, int64_t chunk, int64_t micro_batch);
/* Fills p->times where the family has no closed form. */
void mal_pipe_clock(mal_arena *a, mal_pipe *p);
#endif
