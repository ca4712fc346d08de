/* One copy of the text is cut into cells in place: a cell never grows when its quotes are taken off.
 * The table's size is known before it is made, so a wide header over many short rows is refused, not allocated. */
#include "core/csv.h"
#include "core/file.h"
#include <stdbool.h>
#include <string.h>

enum { MOST_COLUMNS = 4096, SPARE_CELLS = 1 << 20 };

typedef struct reader {
  mal_arena *arena;
  const char *path;
  char *at, *end;
  int line;
  size_t most_cells; /* a full row has a byte for each cell; short rows are padded up to this */
  mal_error *e;
} reader;

typedef struct row {
  const char *cell[MOST_COLUMNS];
  int count, line;
} row;

/* At a field's end: 0 for more fields in the row, 1 for the end of the row. Steps over what ends it. */
static int step_over_end(reader *r) {
  if (r->at == r->end) return 1;
  if (*r->at == ',') {
    *r->at++ = '\0';
    return 0;
  }
  if (*r->at == '\r') *r->at++ = '\0';
  *r->at++ = '\0';
  r->line++;
  return 1;
}

static bool at_field_end(const reader *r) {
  return r->at == r->end || *r->at == ',' || *r->at == '\n' ||
         (*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n');
}

static mal_status quoted(reader *r, const char **cell) {
  int first_line = r->line;
  char *out = ++r->at, *start = out;
  for (;; r->at++) {
    if (r->at == r->end)
      return mal_fail(r->e, MAL_BAD,
                      _("%s:%d: a quoted field begins here and is never closed; the file may be cut short."), r->path,
                      first_line);
    if (*r->at == '"') {
      if (r->at + 1 == r->end || r->at[1] != '"') break;
      r->at++;
    }
    if (*r->at == '\n') r->line++;
    *out++ = *r->at;
  }
  r->at++;
  if (!at_field_end(r))
    return mal_fail(r->e, MAL_BAD, _("%s:%d: text after a closing quote. Double the quotes inside a quoted field."),
                    r->path, r->line);
  *out = '\0'; /* on the closing quote or before it */
  *cell = start;
  return MAL_OK;
}

static mal_status bare(reader *r, const char **cell) {
  *cell = r->at;
  for (; !at_field_end(r); r->at++)
    if (*r->at == '"')
      return mal_fail(r->e, MAL_BAD,
                      _("%s:%d: a quote inside a field that is not quoted. Quote the field and double the quote."),
                      r->path, r->line);
  return MAL_OK;
}

/* Reads the next row that is not an empty line; count 0 at the end of the text. */
static mal_status next_row(reader *r, row *into) {
  into->count = 0;
  for (; r->at < r->end && at_field_end(r) && *r->at != ',';) step_over_end(r);
  into->line = r->line;
  if (r->at == r->end) return MAL_OK;
  for (int last = 0; !last;) {
    if (into->count == MOST_COLUMNS)
      return mal_fail(r->e, MAL_BAD, _("%s:%d: more than %d fields in a row. Is it a CSV file?"), r->path, into->line,
                      MOST_COLUMNS);
    const char **cell = &into->cell[into->count++];
    mal_status status = r->at < r->end && *r->at == '"' ? quoted(r, cell) : bare(r, cell);
    if (status) return status;
    last = step_over_end(r);
  }
  return MAL_OK;
}

static mal_status check_text(const char *path, const char *text, size_t length, mal_error *e) {
  size_t at;
  if (length > MAL_CSV_LIMIT_BYTES)
    return mal_fail(e, MAL_BAD, _("%s: larger than %d MiB, the most a CSV file may have."), path,
                    MAL_CSV_LIMIT_BYTES >> 20);
  const char *nul = length ? memchr(text, '\0', length) : NULL;
  if (nul)
    return mal_fail(e, MAL_BAD, _("%s:%d: byte %zu is NUL, so this is not a text file. Is it the right file?"), path,
                    mal_line_of(text, (size_t)(nul - text)), (size_t)(nul - text));
  if (!mal_utf8_valid(text, length, &at))
    return mal_fail(e, MAL_BAD, _("%s:%d: byte %zu is not UTF-8. Save the file as UTF-8."), path, mal_line_of(text, at),
                    at);
  return MAL_OK;
}

static mal_status read_header(reader *r, row *into, mal_csv *csv) {
  mal_status status = next_row(r, into);
  if (status) return status;
  if (!into->count)
    return mal_fail(r->e, MAL_BAD, _("%s: is empty; a first row with the names of the columns was expected."), r->path);
  csv->columns = into->count;
  csv->header = MAL_ARRAY(r->arena, const char *, into->count);
  for (int i = 0; i < into->count; i++) {
    csv->header[i] = into->cell[i];
    for (int k = 0; k < i; k++)
      if (*into->cell[i] && strcmp(into->cell[i], into->cell[k]) == 0)
        return mal_fail(r->e, MAL_BAD, _("%s:%d: two columns are named '%s'. Rename one."), r->path, into->line,
                        into->cell[i]);
  }
  return MAL_OK;
}

static mal_status add_row(reader *r, const row *from, mal_csv *csv, size_t *room) {
  if (from->count > csv->columns)
    return mal_fail(r->e, MAL_BAD,
                    _("%s:%d: the row has %d fields, the header %d. Quote a field that contains a comma."), r->path,
                    from->line, from->count, csv->columns);
  if ((size_t)csv->rows + 1 > r->most_cells / (size_t)csv->columns)
    return mal_fail(r->e, MAL_BAD,
                    _("%s:%d: the header has %d columns, and too many rows have nearly none. Is it a CSV file?"),
                    r->path, from->line, csv->columns);
  if ((size_t)csv->rows == *room) {
    size_t grown = *room ? 2 * *room : 64, columns = (size_t)csv->columns;
    csv->cells = mal_grow(r->arena, csv->cells, *room * columns, grown * columns, sizeof *csv->cells);
    csv->line = mal_grow(r->arena, csv->line, *room, grown, sizeof *csv->line);
    *room = grown;
  }
  for (int i = 0; i < csv->columns; i++)
    csv->cells[(size_t)csv->rows * (size_t)csv->columns + (size_t)i] = i < from->count ? from->cell[i] : "";
  csv->line[csv->rows++] = from->line;
  return MAL_OK;
}

mal_status mal_csv_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_csv *csv, mal_error *e) {
  *csv = (mal_csv){.path = path};
  mal_status status = check_text(path, text, length, e);
  if (status) return status;
  char *copy = mal_alloc(a, length + 1);
  if (length) memcpy(copy, text, length);
  bool marked = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0; /* byte order mark */
  reader r = {a, path, copy + (marked ? 3 : 0), copy + length, 1, SPARE_CELLS + 2 * length, e};
  row *next = MAL_NEW(a, row);
  size_t room = 0;
  status = read_header(&r, next, csv);
  while (!status) {
    status = next_row(&r, next);
    if (status || !next->count) break;
    status = add_row(&r, next, csv, &room);
  }
  if (status) *csv = (mal_csv){.path = path};
  return status;
}

mal_status mal_csv_read(mal_arena *a, const char *path, mal_csv *csv, mal_error *e) {
  char *text;
  size_t length;
  *csv = (mal_csv){.path = path};
  mal_status status = mal_file_read(a, path, MAL_CSV_LIMIT_BYTES, &text, &length, e);
  return status ? status : mal_csv_parse(a, path, text, length, csv, e);
}

int mal_csv_column(const mal_csv *csv, const char *name) {
  for (int i = 0; i < csv->columns; i++)
    if (strcmp(csv->header[i], name) == 0) return i;
  return -1;
}

const char *mal_csv_cell(const mal_csv *csv, int row_index, int column) {
  if (row_index < 0 || row_index >= csv->rows || column < 0 || column >= csv->columns) return "";
  return csv->cells[(size_t)row_index * (size_t)csv->columns + (size_t)column];
}
