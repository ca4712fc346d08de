/* What a design says of software and of the tests on delivery. */
#ifndef MAL_REPORT_DESIGN_KIT_H
#define MAL_REPORT_DESIGN_KIT_H
#include "design/design.h"
#include "report/page.h"
#include <jansson.h>

void mal_report_compute(mal_page *p, const mal_design *d);
void mal_report_software(mal_page *p, const mal_design *d);
void mal_report_acceptance(mal_page *p, const mal_design *d);
json_t *mal_report_compute_json(const mal_design *d);
json_t *mal_report_software_json(const mal_design *d);
json_t *mal_report_acceptance_json(mal_arena *a, const mal_design *d);
#endif
