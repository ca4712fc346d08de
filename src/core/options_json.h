/* Options as JSON, by name: what plan files and --json say of a job or a layout. */
#ifndef MAL_CORE_OPTIONS_JSON_H
#define MAL_CORE_OPTIONS_JSON_H
#include "core/json.h"
#include "core/options.h"

/* {"seq": 8192, "zero": 1, ...}: null for what stands at a default that is decided later (below zero, or 0 of a kind that
 * starts above it); a choice that is a number is written as one. */
json_t *mal_options_json(const mal_option *table, int count, const void *from);
#endif
