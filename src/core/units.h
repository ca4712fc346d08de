/* Quantities in and out. Inside everything is SI: bytes, seconds, FLOP/s, watts, bytes/s. */
#ifndef MAL_CORE_UNITS_H
#define MAL_CORE_UNITS_H
#include "core/status.h"
#include <stdint.h>

/* A whole number ≥ 0 with an optional suffix k M G T P (10^3..) or Ki Mi Gi Ti (2^10..): "15T", "4096", "1.5M".
 * `what` names the quantity in the message ("--tokens"). Negative, NaN, not whole, above 2^62: MAL_BAD. */
mal_status mal_parse_count(const char *text, const char *what, int64_t *value, mal_error *e);
mal_status mal_parse_number(const char *text, const char *what, double *value, mal_error *e);
/* "80GiB", "3.35TB/s", "400Gb/s" (bits), "989e12", "14d", "1.5h", "700W", "USD 20000": a number in SI units;
 * `unit` is the wanted base ("B", "B/s", "FLOP/s", "s", "W", "USD"); another unit: MAL_BAD. */
mal_status mal_parse_quantity(const char *text, const char *unit, const char *what, double *value, mal_error *e);

/* Each prints into a small rotating thread-local buffer (16 of them): use at once. */
const char *mal_show_bytes(double bytes);  /* "79.6 GiB" */
const char *mal_show_count(double n);      /* "70.6 B", "15.0 T" */
const char *mal_show_time(double seconds); /* "812 µs", "3.41 s", "2 h 14 min", "31.2 d", "4.1 y" */
const char *mal_show_rate(double per_second, const char *unit); /* "412 TFLOP/s" */
const char *mal_show_int(int64_t n);                            /* "70,553,706,496" */
#endif
