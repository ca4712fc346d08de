/* The catalogue for people and as JSON: what malha models and malha machines show. */
#ifndef MAL_REPORT_CATALOG_H
#define MAL_REPORT_CATALOG_H
#include "core/json.h"
#include "machine/machine.h"
#include "model/model.h"
#include "report/page.h"

typedef struct mal_catalog_models {
  mal_model *models;
  size_t count;
} mal_catalog_models;

typedef struct mal_catalog_machines {
  mal_gpu **gpus; /* aliases left out */
  mal_node **nodes;
  const char **aliases, **node_aliases; /* [gpus], [nodes]: "h100, h100-80", "" none */
  size_t n_gpus, n_nodes;
} mal_catalog_machines;

mal_status mal_catalog_load_models(mal_arena *a, mal_catalog_models *all, mal_error *e);
mal_status mal_catalog_load_machines(mal_arena *a, mal_catalog_machines *all, mal_error *e);

void mal_report_models(mal_page *p, const mal_catalog_models *all);
void mal_report_model(mal_page *p, const mal_model *m);
json_t *mal_report_models_json(const mal_catalog_models *all);
json_t *mal_report_model_json(const mal_model *m);

void mal_report_machines(mal_page *p, const mal_catalog_machines *all);
/* only: "gpu", "node" or "fabric" alone, NULL all three. */
void mal_report_machine(mal_page *p, const mal_machine *m, const char *only);
json_t *mal_report_machines_json(const mal_catalog_machines *all);
json_t *mal_report_machine_json(const mal_machine *m, const char *only);
#endif
