/* What malha probe --measure says: text, and JSON by docs/schema/measure.json. */
#ifndef MAL_REPORT_MEASURED_H
#define MAL_REPORT_MEASURED_H
#include "core/json.h"
#include "engine/measure.h"
#include "report/page.h"

void mal_report_measured(mal_page *p, const mal_measured *m, const char *command);
json_t *mal_measured_json(const mal_measured *m, const char *command);
#endif
