/* A cluster design for people and for programs. */
#ifndef MAL_REPORT_DESIGN_H
#define MAL_REPORT_DESIGN_H
#include "design/compare.h"
#include "design/design.h"
#include "design/target.h"
#include "report/design_refresh.h"
#include "report/page.h"
#include <jansson.h>

enum { MAL_DESIGN_VERSION = 1 }; /* of docs/schema/design.json */

typedef struct mal_design_more { /* what else was asked; NULL: was not */
  const mal_target *target;
  const mal_refresh *refresh;
  const mal_served *served;
} mal_design_more;
void mal_report_design(mal_page *p, const mal_design *d, const mal_design_more *more, const char *command);
json_t *mal_report_design_json(mal_arena *a, const mal_design *d, const mal_design_more *more, const char *command);
/* One self-contained page. */
char *mal_report_design_html(mal_arena *a, const mal_design *d, const char *command);
/* Values in use that nobody verified: "chassis.ru"; at most max are named, the count of all is returned. */
int mal_design_unverified(mal_arena *a, const mal_design *d, const char **names, int max);

void mal_report_cabling(mal_page *p, const mal_design *d, const mal_comparison *c, const char *command);
json_t *mal_report_cabling_json(const mal_comparison *c, const char *command);
#endif
