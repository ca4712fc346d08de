/* A timeline as a picture: one row a process, its computations as boxes, its traffic as lines beneath, and how many of the rows
 * compute or send over time. */
#ifndef MAL_TIMELINE_SVG_H
#define MAL_TIMELINE_SVG_H
#include "timeline/timeline.h"

typedef struct mal_svg_row {
  int32_t rank;
  const char *label;
} mal_svg_row;

typedef struct mal_svg_options {
  const char *title, *subtitle;
  const mal_svg_row *rows; /* from top to bottom; events of other ranks are left out */
  int n_rows;
  double end_s; /* right edge */
} mal_svg_options;

/* Passes are known by their names: F, B, W, BW; anything else on stream 0 is the end of the step. */
char *mal_timeline_svg(mal_arena *a, const mal_timeline *t, const mal_svg_options *o);
#endif
