/* A program that malha lower wrote (-o step.json), as far as simulate takes it: the plan inside, and the tables of its stages, which
 * may have been edited. Its blocks are lowered again and must be those of the file. */
#ifndef MAL_SIMULATE_PROGRAM_FILE_H
#define MAL_SIMULATE_PROGRAM_FILE_H
#include "simulate/simulate.h"

/* Tables of the file, for the program that its plan lowers to; *tables is NULL when the file is a plan and no program. MAL_BAD: blocks
 * that differ; an entry that this program cannot have; a message that is sent and never received, or the reverse, with stages and
 * entries. */
mal_status mal_program_file_tables(mal_arena *a, const char *path, const mal_program *p, mal_simulate_tables **tables,
                                   mal_error *e);
mal_status mal_program_file_parse(mal_arena *a, const char *path, const char *text, size_t length, const mal_program *p,
                                  mal_simulate_tables **tables, mal_error *e);
#endif
