#include "report/svg.h"
#include <stdarg.h>
#include <stdio.h>

void mal_html_text(mal_writing *w, const char *text) {
  for (; *text; text++) switch (*text) {
    case '&': mal_write(w, "&amp;"); break;
    case '<': mal_write(w, "&lt;"); break;
    case '>': mal_write(w, "&gt;"); break;
    case '"': mal_write(w, "&quot;"); break;
    default: mal_write(w, "%c", *text);
    }
}

void mal_svg_begin(mal_writing *w, double width, double height, const char *label) {
  mal_write(
      w,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" style=\"max-width:%.0fpx\" role=\"img\" "
      "aria-label=\"",
      width, height, width);
  mal_html_text(w, label);
  mal_write(w, "\">\n");
}

void mal_svg_end(mal_writing *w) { mal_write(w, "</svg>\n"); }

void mal_svg_box(mal_writing *w, double x, double y, double width, double height, const char *kind, const char *tip) {
  mal_write(w, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", kind, x, y, width, height);
  if (!tip) {
    mal_write(w, "/>\n");
    return;
  }
  mal_write(w, "><title>");
  mal_html_text(w, tip);
  mal_write(w, "</title></rect>\n");
}

void mal_svg_line(mal_writing *w, double x1, double y1, double x2, double y2, const char *kind) {
  mal_write(w, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", kind, x1, y1, x2, y2);
}

void mal_svg_text(mal_writing *w, double x, double y, char anchor, const char *kind, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  mal_write(w, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", kind, x, y,
            anchor == 's'   ? "start"
            : anchor == 'e' ? "end"
                            : "middle");
  mal_html_text(w, text);
  mal_write(w, "</text>\n");
}
