/* What simulate found: the step as played, what each fault costs, the long run. */
#ifndef MAL_REPORT_SIMULATION_H
#define MAL_REPORT_SIMULATION_H
#include "core/json.h"
#include "reliability/horizon.h"
#include "report/page.h"
#include "simulate/simulate.h"

enum { MAL_SIMULATION_VERSION = 1 };

typedef struct mal_fault_cost { /* one fault by itself */
  const mal_simulated_fault *fault;
  double step_s, cost_s;
  bool finished;
} mal_fault_cost;

typedef struct mal_simulation {
  const mal_plan *plan;
  const mal_program *program;
  const mal_simulate_options *options;
  double plan_step_s;
  mal_simulated healthy, step; /* without faults; with all of them */
  mal_fault_cost *faults;
  int n_faults;
  mal_horizon *horizon; /* NULL: not asked */
  double days;
  const char *routing, *command;
  const char *trace, *svg; /* files written, NULL */
} mal_simulation;

void mal_report_simulation(mal_page *p, const mal_simulation *s);
json_t *mal_report_simulation_json(const mal_simulation *s);
#endif
