/* Measured step time of a published run. Sources print step time, tokens/s, or FLOP/s and MFU by a convention of their
 * own: with or without recomputation, attention whole or causal-halved or left out. */
#ifndef MAL_CHECK_CONVENTION_H
#define MAL_CHECK_CONVENTION_H
#include "check/rows.h"

/* FLOPs of one step of the whole job as the row's convention counts them. */
double mal_convention_flops(const mal_row *row);
/* Seconds of one step; *from says which column gave it. False: the row prints no speed. */
bool mal_measured_step(const mal_row *row, double *seconds, const char **from);
/* The same, from the reported FLOP/s or MFU alone. */
bool mal_measured_by_flops(const mal_row *row, double *seconds);
#endif
