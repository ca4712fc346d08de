/* Every reader of logs and every rule, and the reports of what they found. The catalogue is read from disk, so costs are left out. */
#include "core/file.h"
#include "report/health.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_paste p;
  mal_health h;
  mal_error e;
  mal_page page;
  mal_paste_make(&a, "fuzz", (const char *)data, size, &p);
  mal_health_init(&h, &a);
  mal_health_read(&h, &p, &e);
  mal_health_read(&h, &p, &e);
  if (h.has_topology) {
    mal_topology_derive(&h.topology);
    mal_judge_topology(&h);
    mal_judge_gpus(&h);
    mal_judge_nics(&h);
  }
  if (size % 16 == 0) {
    mal_judge_environment(&h);
    mal_judge_benches(&h);
  }
  mal_page_init(&page, &a, false);
  mal_report_health(&page, &h, true, "malha check");
  if (!mal_utf8_valid(page.text, page.used, NULL)) abort();
  json_t *json = mal_report_health_json(&h, "malha check");
  char *text = json_dumps(json, 0);
  if (!text) abort();
  free(text);
  json_decref(json);
  if (!mal_report_health_junit(&a, &h) || !mal_report_health_prometheus(&a, &h)) abort();
  mal_arena_free(&a);
  return 0;
}
