/* Megatron-LM: its command line. Written for core_v0.19.0 (megatron/training/arguments.py and the dataclasses it names); core_v0.15.3
 * has the same options but for muon and lion. Older scripts are read as well, where their options mean the same. */
#ifndef MAL_LAUNCH_MEGATRON_H
#define MAL_LAUNCH_MEGATRON_H
#include "launch/table.h"

#define MAL_MEGATRON_VERSION "core_v0.19.0"

/* Options of the split, the batch and the optimizer into b->settings. */
void mal_megatron_write(mal_bridge *b);
/* Options of the model. */
void mal_megatron_model(mal_bridge *b, const mal_model *m);
/* From b->settings: layout, job, model. b->nodes and b->gpus are known, or 0: then what needs the number of ranks stays unread. */
mal_status mal_megatron_read(mal_bridge *b, mal_error *e);
/* b->model: `named` unless NULL, else the built-in model with these options, else a description. MAL_BAD: they say too little. */
mal_status mal_megatron_read_model(mal_bridge *b, const char *named, mal_error *e);
/* How many options only Megatron-LM has: what tells its command from others. */
int mal_megatron_marks(const mal_settings *s);
#endif
