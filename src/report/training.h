/* What a training run says: what was chosen, a line a step, planned beside measured. JSON by docs/schema/train.json. */
#ifndef MAL_REPORT_TRAINING_H
#define MAL_REPORT_TRAINING_H
#include "engine/train.h"
#include "price/price.h"
#include "report/page.h"

typedef struct mal_training { /* what stays the same over a run */
  const mal_plan *plan;
  const mal_program *program;
  const mal_estimate *estimate;
  int64_t steps, first_step, data_tokens, cores;
  bool chosen, processes;                 /* the layout was not given; a rank is a process */
  const char *resumed_from, *passed_over; /* checkpoints; NULL: none */
  const char *init, *saved;               /* folders of weights: begun with, written in the end; NULL: none */
  const char *command;
} mal_training;

enum { MAL_TRAINING_VERSION = 1 };

void mal_report_training_start(mal_page *p, const mal_training *t);
void mal_report_training_step(mal_page *p, const mal_training *t, const mal_train_step *s);
void mal_report_training_end(mal_page *p, const mal_training *t, const mal_train_summary *s);
/* One object a line. */
json_t *mal_training_start_json(const mal_training *t, mal_arena *a);
json_t *mal_training_step_json(const mal_train_step *s);
json_t *mal_training_evaluation_json(int64_t step, double loss);
json_t *mal_training_end_json(const mal_training *t, const mal_train_summary *s);
#endif
