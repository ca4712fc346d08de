/* The pictures of a design, each an SVG of its own: floor plan, rack elevations, fabric, power one-line. */
#ifndef MAL_REPORT_DESIGN_DRAW_H
#define MAL_REPORT_DESIGN_DRAW_H
#include "design/design.h"
#include "report/svg.h"

void mal_draw_floor(mal_writing *w, const mal_design *d);
/* Racks that hold the same are drawn once, with their number. */
void mal_draw_racks(mal_writing *w, const mal_design *d);
void mal_draw_fabric(mal_writing *w, const mal_design *d);
void mal_draw_power(mal_writing *w, const mal_design *d);
extern const char *const mal_draw_class[MAL_UNIT_KINDS]; /* style of a unit by kind */
#endif
