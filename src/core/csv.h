/* RFC 4180 CSV with a header row: quoted fields, doubled quotes, CR LF, newlines inside quotes. */
#ifndef MAL_CORE_CSV_H
#define MAL_CORE_CSV_H
#include "core/arena.h"
#include "core/status.h"

enum { MAL_CSV_LIMIT_BYTES = 256 << 20 };

typedef struct mal_csv {
  const char *path;
  int columns, rows;   /* rows without the header */
  const char **header; /* [columns] */
  const char **cells;  /* [rows * columns]; a short row is padded with "" */
  int *line;           /* [rows]: line where the row starts, 1-based */
} mal_csv;

mal_status mal_csv_read(mal_arena *a, const char *path, mal_csv *csv, mal_error *e);
mal_status mal_csv_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_csv *csv, mal_error *e);
int mal_csv_column(const mal_csv *csv, const char *name);          /* -1 when absent */
const char *mal_csv_cell(const mal_csv *csv, int row, int column); /* "" when absent */
#endif
