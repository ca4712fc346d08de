/* What the cluster costs to have and to run, in the site's currency, and when owning beats renting. */
#ifndef MAL_DESIGN_COST_H
#define MAL_DESIGN_COST_H
#include "design/design.h"

typedef struct mal_cost {
  double capex;             /* of the parts that have a price; 0 when none has */
  int priced, parts;        /* rows of the bill */
  bool nodes_priced;        /* without the nodes' price the rest says little: nothing below is given */
  double years;             /* of use */
  double energy_per_hour;   /* at training load, facility included; 0: no price of energy */
  double upkeep_per_hour;   /* people, repair, room: ask.upkeep of capex a year */
  double per_gpu_hour;      /* all of that over GPUs that work, all hours */
  double rent_per_gpu_hour; /* asked, or of the catalogue; 0 not known */
  const char *rent_source;
  double break_even_s; /* owning has cost as much as renting would have; < 0: never */
} mal_cost;
void mal_design_cost(const mal_design *d, mal_cost *c);
#endif
