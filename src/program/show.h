/* Names shared by the readable and the JSON form of a program. */
#ifndef MAL_PROGRAM_SHOW_H
#define MAL_PROGRAM_SHOW_H
#include "program/program.h"

extern const char *const mal_region_name[MAL_REGIONS],
    *const mal_list_name[MAL_LISTS], *const mal_step_name[MAL_STEP_OPS], *const mal_class_name[MAL_B_CLASSES],
                                                                             *const mal_axis_name[MAL_AXES];
typedef struct mal_flag_row {
  int flag;
  const char *name;
} mal_flag_row;
enum { MAL_FLAG_ROWS = 13 };
extern const mal_flag_row mal_flag_rows[MAL_FLAG_ROWS];

/* Meaning of each size of an opcode, NULL-terminated. */
const char *const *mal_size_names(int op);
/* "all-reduce" for a collective, else the opcode's name. */
const char *mal_instruction_name(const mal_instruction *i);
/* Number of sizes that say something: all up to the last that is not 0, at least 1. */
int mal_size_count(const mal_instruction *i, const mal_sizes *s);
#endif
