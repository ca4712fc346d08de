/* The blanks of one row, filled (internal to src/check). */
#ifndef MAL_CHECK_ROW_FILL_H
#define MAL_CHECK_ROW_FILL_H
#include "check/rows.h"

typedef struct mal_filled {
  mal_arena *arena;
  mal_row *row;
  int64_t layers; /* of the model */
  char *notes;    /* "name=value" of each default taken */
} mal_filled;

void mal_filled_note(mal_filled *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets row->model_spec: a catalogue model whose printed sizes agree ("name;layers=4" when cut), else a bare description. */
mal_status mal_fill_model(mal_arena *a, mal_filled *f, mal_error *e);
/* Text of the profile that inherits from `base` with the switches of the row's recipe, and its name; NULL: none, *name is base. */
char *mal_row_switches(mal_arena *a, const mal_row *row, const char *base, char **name);
mal_status mal_row_load_model(mal_arena *a, const mal_row *row, mal_model *model, mal_error *e);
mal_status mal_fill_layout(mal_arena *a, mal_filled *f, const mal_model *model, const mal_machine *machine,
                           mal_job *job, mal_layout *layout, mal_error *e);
#endif
