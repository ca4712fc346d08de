/* Every reader of listings, and what is made of what they found. */
#include "core/file.h"
#include "report/node.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_paste p;
  mal_topology t;
  mal_rank_place places[64];
  mal_ride rides[MAL_RIDES_MAX];
  mal_layout l;
  mal_error e;
  mal_page page;
  bool known;
  char *yaml;
  mal_paste_make(&a, "fuzz", (const char *)data, size, &p);
  mal_topology_init(&t, &a);
  mal_topology_read(&t, &p, &known);
  mal_topology_read(&t, &p, &known); /* a file given twice says nothing new */
  mal_topology_derive(&t);
  mal_layout_default(&l);
  l.tp = 4;
  mal_node_report r = {.topology = &t, .places = places, .rides = rides, .command = "malha probe"};
  r.n_places = mal_place_ranks(&a, &t, places, 64);
  r.n_rides = mal_layout_rides(&a, &t, &l, rides);
  mal_page_init(&page, &a, false);
  mal_report_node(&page, &r);
  if (!mal_utf8_valid(page.text, page.used, NULL)) abort();
  json_t *json = mal_report_node_json(&r);
  char *text = json_dumps(json, 0);
  if (!text) abort();
  free(text);
  json_decref(json);
  if (!mal_report_node_svg(&a, &r)) abort();
  /* the catalogue is read from disk: now and then is enough */
  if (size % 16 == 0 && mal_topology_machine_file(&a, &t, "h100-80-sxm", &yaml, &e) == MAL_OK) {
    mal_machine m;
    if (mal_machine_parse(&a, "fuzz", yaml, strlen(yaml), &m, &e) != MAL_OK && m.node && m.node->gpus <= 1024 &&
        m.node->gpus > 0 && !strstr(e.text, "between"))
      abort();
  }
  mal_arena_free(&a);
  return 0;
}
