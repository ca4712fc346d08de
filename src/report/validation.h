/* Predictions beside published runs, as text and JSON. */
#ifndef MAL_REPORT_VALIDATION_H
#define MAL_REPORT_VALIDATION_H
#include "check/validate.h"
#include "core/json.h"
#include "report/page.h"

enum { MAL_VALIDATION_VERSION = 1 }; /* of docs/schema/validate.json */

/* Groups and summary; with `rows` every row first. */
void mal_report_validation(mal_page *p, const mal_validation *v, bool rows);
/* One row at length: its defaults, its layout, its time by cause. False: no such id. */
bool mal_report_validation_row(mal_page *p, const mal_validation *v, const char *id);
/* What takes the place of blanks, by framework. */
void mal_report_defaults(mal_page *p, const mal_defaults *d);
json_t *mal_report_validation_json(const mal_validation *v);
#endif
