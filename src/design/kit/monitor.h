/* Watching the cluster: which DCGM counters to switch on, a dashboard, alert rules, and whom Prometheus asks. The rows are those of
 * catalog/monitoring; {names} in them are filled in from the design. */
#ifndef MAL_DESIGN_KIT_MONITOR_H
#define MAL_DESIGN_KIT_MONITOR_H
#include "design/design.h"

mal_status mal_monitor_counters(mal_arena *a, const mal_design *d, char **text, mal_error *e); /* dcgm-exporter -f */
mal_status mal_monitor_alerts(mal_arena *a, const mal_design *d, char **text, mal_error *e);   /* rules of Prometheus */
mal_status mal_monitor_dashboard(mal_arena *a, const mal_design *d, char **text, mal_error *e); /* Grafana */
char *mal_monitor_prometheus(mal_arena *a, const mal_design *d);                                /* prometheus.yml */
#endif
