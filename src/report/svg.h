/* Drawing: SVG that grows in a text, with the few shapes that the reports need. Units are pixels; text is escaped. */
#ifndef MAL_REPORT_SVG_H
#define MAL_REPORT_SVG_H
#include "core/arena.h"

void mal_svg_begin(mal_writing *w, double width, double height, const char *label);
void mal_svg_end(mal_writing *w);
/* kind: a class of the page's style sheet. tip: shown under the pointer; NULL none. */
void mal_svg_box(mal_writing *w, double x, double y, double width, double height, const char *kind, const char *tip);
void mal_svg_line(mal_writing *w, double x1, double y1, double x2, double y2, const char *kind);
/* anchor: 's' start, 'm' middle, 'e' end. */
void mal_svg_text(mal_writing *w, double x, double y, char anchor, const char *kind, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Text as HTML. */
void mal_html_text(mal_writing *w, const char *text);
#endif
