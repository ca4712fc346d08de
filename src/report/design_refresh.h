/* A refresh and a node that serves, for people and as JSON. */
#ifndef MAL_REPORT_DESIGN_REFRESH_H
#define MAL_REPORT_DESIGN_REFRESH_H
#include "design/inference.h"
#include "design/refresh.h"
#include "report/page.h"
#include <jansson.h>

void mal_report_refresh(mal_page *p, const mal_refresh *r);
json_t *mal_report_refresh_json(const mal_refresh *r);

typedef struct mal_served { /* what was asked of inference, and its rows */
  const mal_machine *machine;
  const mal_model *model;
  int64_t context;
  const mal_serving *rows;
  int n;
} mal_served;
void mal_report_serving(mal_page *p, const mal_served *s);
json_t *mal_report_serving_json(const mal_served *s);
#endif
