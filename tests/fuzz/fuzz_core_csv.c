#include "core/csv.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mal_arena a = {0};
  mal_csv csv;
  mal_error e;
  size_t bytes = 0;
  if (mal_csv_parse(&a, "fuzz.csv", (const char *)data, size, &csv, &e) == MAL_OK) {
    for (int i = 0; i < csv.columns; i++)
      if (*csv.header[i] && mal_csv_column(&csv, csv.header[i]) != i) abort();
    for (int row = 0; row < csv.rows; row++)
      for (int i = 0; i < csv.columns; i++) bytes += strlen(mal_csv_cell(&csv, row, i));
    if (bytes > size) abort();
  }
  mal_arena_free(&a);
  return 0;
}
