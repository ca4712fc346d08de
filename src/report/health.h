/* What malha check found: for people, as JSON (docs/schema/check.json), JUnit XML, and Prometheus text for the node exporter's
 * textfile folder. */
#ifndef MAL_REPORT_HEALTH_H
#define MAL_REPORT_HEALTH_H
#include "check/node/health.h"
#include "report/page.h"
#include <jansson.h>

enum { MAL_HEALTH_VERSION = 1 };
void mal_report_health(mal_page *p, const mal_health *h, bool all, const char *command);
json_t *mal_report_health_json(const mal_health *h, const char *command);
char *mal_report_health_junit(mal_arena *a, const mal_health *h);
char *mal_report_health_prometheus(mal_arena *a, const mal_health *h);
#endif
