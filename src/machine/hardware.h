/* The catalogue files of GPUs, nodes and fabrics as tables of fields, and their loading with inheritance. */
#ifndef MAL_MACHINE_HARDWARE_H
#define MAL_MACHINE_HARDWARE_H
#include "machine/fields.h"
#include "machine/machine.h"

extern const mal_field mal_gpu_table[], mal_node_table[], mal_fabric_table[];

/* Loads catalog/<folder>/<name>.yaml over *whole, its bases first. what: "GPU", for messages. */
mal_status mal_hardware_load(mal_arena *a, const char *folder, const char *what, const mal_field *table,
                             const char *name, void *whole, mal_error *e);
/* Base named in the file (or fallback, may be NULL) first, then the file's own fields. */
mal_status mal_hardware_merge(mal_arena *a, const char *folder, const char *what, const mal_fields *file,
                              const char *fallback, void *whole, mal_error *e);
#endif
