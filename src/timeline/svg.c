#include "timeline/svg.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 1200, LEFT = 110, RIGHT = 20, TOP = 92, BINS = 400, CURVE = 110, GAP = 46 };
enum { STREAM_COMPUTE, STREAM_TP, STREAM_DP, STREAM_PP };

typedef struct colour {
  const char *name, *fill, *words;
} colour;
/* Told apart in grey and by colour-blind eyes: Okabe and Ito's palette. */
static const colour passes[] = {{"F", "#56b4e9", N_("forward")},
                                {"BW", "#0072b2", N_("backward")},
                                {"B", "#0072b2", N_("input gradient")},
                                {"W", "#009e73", N_("weight gradient")},
                                {"checkpoint", "#cc79a7", N_("checkpoint")}};
static const char *const end_fill = "#e69f00", *const data_fill = "#d55e00", *const send_fill = "#555555";
enum { PASSES = sizeof passes / sizeof *passes };

static void put_escaped(mal_writing *w, const char *text) {
  for (; *text; text++) switch (*text) {
    case '<': mal_write(w, "&lt;"); break;
    case '>': mal_write(w, "&gt;"); break;
    case '&': mal_write(w, "&amp;"); break;
    case '"': mal_write(w, "&quot;"); break;
    default:
      if ((unsigned char)*text >= 0x20) mal_write(w, "%c", *text);
    }
}

static void put_text(mal_writing *w, double x, double y, const char *more, const char *text) {
  mal_write(w, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
  put_escaped(w, text);
  mal_write(w, "</text>\n");
}

typedef struct drawing {
  mal_writing w;
  const mal_timeline *t;
  const mal_svg_options *o;
  double row_height, scale;
  double (*share)[3]; /* [BINS]: of rows that compute, have data-parallel traffic, send messages */
} drawing;

static double x_of(const drawing *d, double seconds) { return LEFT + seconds * d->scale; }
static double y_of(const drawing *d, int row) { return TOP + row * d->row_height; }

static const char *fill_of(const mal_event *e) {
  for (int i = 0; i < PASSES; i++)
    if (e->name && strcmp(e->name, passes[i].name) == 0) return passes[i].fill;
  return end_fill;
}

static int row_of(const mal_svg_options *o, int32_t rank) {
  for (int i = 0; i < o->n_rows; i++)
    if (o->rows[i].rank == rank) return i;
  return -1;
}

static void add_share(drawing *d, const mal_event *e, int what) {
  double width = d->o->end_s / BINS;
  int from = (int)(e->start_s / width), to = (int)(e->end_s / width);
  for (int b = from < 0 ? 0 : from; b <= to && b < BINS; b++) {
    double low = fmax(e->start_s, b * width), high = fmin(e->end_s, (b + 1) * width);
    if (high > low) d->share[b][what] += (high - low) / width / d->o->n_rows;
  }
}

static void put_box(drawing *d, const mal_event *e, int row) {
  double x = x_of(d, e->start_s), width = (e->end_s - e->start_s) * d->scale, y = y_of(d, row),
         high = d->row_height * 0.62;
  if (width < 0.05) return;
  mal_write(&d->w, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"", x, y + 2, width, high,
            fill_of(e));
  if (width > 2) mal_write(&d->w, " stroke=\"#ffffff\" stroke-width=\"0.6\"");
  mal_write(&d->w, "/>\n");
  if (width > 14 && d->row_height >= 18 && e->micro_batch >= 0)
    mal_write(&d->w, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"9\" fill=\"#ffffff\" text-anchor=\"middle\">%d</text>\n",
              x + width / 2, y + high / 2 + 5, e->micro_batch);
}

static void put_line(drawing *d, const mal_event *e, int row, double at, const char *fill) {
  double width = fmax((e->end_s - e->start_s) * d->scale, 0.4);
  mal_write(&d->w, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"/>\n", x_of(d, e->start_s),
            y_of(d, row) + d->row_height * at, width, fmax(1.5, d->row_height * 0.1), fill);
}

static void put_events(drawing *d) {
  for (int64_t i = 0; i < d->t->count; i++) {
    const mal_event *e = &d->t->events[i];
    int row = row_of(d->o, e->rank);
    if (row < 0) continue;
    if (e->stream == STREAM_COMPUTE) put_box(d, e, row), add_share(d, e, 0);
    if (e->stream == STREAM_DP) put_line(d, e, row, 0.72, data_fill), add_share(d, e, 1);
    if (e->stream == STREAM_PP) put_line(d, e, row, 0.86, send_fill), add_share(d, e, 2);
  }
}

static void put_axis(drawing *d, double y) {
  double step = pow(10, floor(log10(d->o->end_s / 6)));
  if (d->o->end_s / step > 12) step *= 2;
  if (d->o->end_s / step > 12) step *= 2.5;
  char text[32];
  for (double s = 0; s <= d->o->end_s * 1.0001; s += step) {
    mal_write(&d->w, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n", x_of(d, s),
              x_of(d, s), TOP, y);
    snprintf(text, sizeof text, "%g %s", d->o->end_s < 1 ? s * 1000 : s, d->o->end_s < 1 ? "ms" : "s");
    put_text(&d->w, x_of(d, s), y + 14, "font-size=\"11\" fill=\"#555555\" text-anchor=\"middle\"", text);
  }
}

static bool has(const drawing *d, const char *name) {
  for (int64_t i = 0; i < d->t->count; i++)
    if (d->t->events[i].name && strcmp(d->t->events[i].name, name) == 0) return true;
  return false;
}

static void put_key(drawing *d, double *x, const char *fill, const char *words) {
  mal_write(&d->w, "<rect x=\"%.1f\" y=\"62\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", *x, fill);
  put_text(&d->w, *x + 17, 72, "font-size=\"12\" fill=\"#333333\"", words);
  *x += 17 + 7.2 * (double)strlen(words) + 18;
}

static void put_keys(drawing *d) {
  double x = LEFT;
  for (int i = 0; i < PASSES; i++)
    if (has(d, passes[i].name)) put_key(d, &x, passes[i].fill, _(passes[i].words));
  put_key(d, &x, end_fill, _("end of step"));
  put_key(d, &x, data_fill, _("data-parallel traffic"));
  put_key(d, &x, send_fill, _("messages between stages"));
}

static void put_curves(drawing *d, double top) {
  static const struct {
    const char *fill, *words;
  } curve[3] = {{"#0072b2", N_("compute")}, {"#d55e00", N_("dp traffic")}, {"#555555", N_("messages")}};
  double bin = d->o->end_s / BINS, bottom = top + CURVE;
  put_text(&d->w, LEFT, top - 8, "font-size=\"12\" fill=\"#333333\"", _("share of the rows that are busy"));
  mal_write(&d->w, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#999999\"/>\n", LEFT, WIDTH - RIGHT,
            bottom, bottom);
  put_text(&d->w, LEFT - 8, top + 5, "font-size=\"11\" fill=\"#555555\" text-anchor=\"end\"", "100 %");
  put_text(&d->w, LEFT - 8, bottom + 4, "font-size=\"11\" fill=\"#555555\" text-anchor=\"end\"", "0 %");
  for (int c = 0; c < 3; c++) {
    mal_write(&d->w, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.4\" points=\"", curve[c].fill);
    for (int b = 0; b < BINS; b++)
      mal_write(&d->w, "%.1f,%.1f ", x_of(d, (b + 0.5) * bin), bottom - CURVE * fmin(1, d->share[b][c]));
    mal_write(&d->w, "\"/>\n");
    put_text(&d->w, WIDTH - RIGHT - 230 + 85 * c, top - 8,
             c == 0   ? "font-size=\"11\" fill=\"#0072b2\""
             : c == 1 ? "font-size=\"11\" fill=\"#d55e00\""
                      : "font-size=\"11\" fill=\"#555555\"",
             _(curve[c].words));
  }
}

char *mal_timeline_svg(mal_arena *a, const mal_timeline *t, const mal_svg_options *o) {
  drawing d = {.w = {.arena = a}, .t = t, .o = o};
  d.row_height = o->n_rows <= 8 ? 40 : o->n_rows <= 16 ? 30 : o->n_rows <= 32 ? 20 : 12;
  d.scale = (WIDTH - LEFT - RIGHT) / (o->end_s > 0 ? o->end_s : 1);
  d.share = mal_alloc_array(a, BINS, sizeof *d.share);
  double rows = TOP + o->n_rows * d.row_height, height = rows + GAP + CURVE + 24;
  mal_write(&d.w,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
            "font-family=\"Helvetica,Arial,sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            WIDTH, height, WIDTH, height);
  put_text(&d.w, LEFT, 26, "font-size=\"17\" font-weight=\"bold\" fill=\"#111111\"", o->title);
  put_text(&d.w, LEFT, 46, "font-size=\"12\" fill=\"#555555\"", o->subtitle);
  put_keys(&d);
  put_axis(&d, rows);
  for (int i = 0; i < o->n_rows; i++) {
    if (i % 2)
      mal_write(&d.w,
                "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"#f5f5f5\" fill-opacity=\"0.6\"/>\n",
                LEFT, y_of(&d, i), WIDTH - LEFT - RIGHT, d.row_height);
    put_text(&d.w, LEFT - 8, y_of(&d, i) + d.row_height * 0.45, "font-size=\"11\" fill=\"#333333\" text-anchor=\"end\"",
             o->rows[i].label);
  }
  put_events(&d);
  put_curves(&d, rows + GAP);
  mal_write(&d.w, "</svg>\n");
  return d.w.text;
}
