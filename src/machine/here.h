/* The computer it runs on as a machine: "here", one rank on each core, or "8xhere", eight ranks. */
#ifndef MAL_MACHINE_HERE_H
#define MAL_MACHINE_HERE_H
#include "machine/machine.h"

int64_t mal_here_cores(void);        /* at least 1 */
int64_t mal_here_memory_bytes(void); /* 0: not known */
/* Cores and memory of this computer, the memory shared out over the ranks, into the catalogue's "cpu" in "computer". */
void mal_here_describe(mal_arena *a, mal_machine *m, int64_t ranks);
#endif
