/* The computer it runs on, its cores as ranks. */
#include "machine/here.h"
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

int64_t mal_here_cores(void) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 ? cores : 1;
}

int64_t mal_here_memory_bytes(void) {
  struct sysinfo info;
  return sysinfo(&info) == 0 ? (int64_t)info.totalram * info.mem_unit : 0;
}

static void told(mal_arena *a, mal_value *v, double value) {
  *v = (mal_value){.value = value, .source = mal_copy(a, "this computer, asked")};
}

void mal_here_describe(mal_arena *a, mal_machine *m, int64_t ranks) {
  double bytes = (double)mal_here_memory_bytes();
  m->nodes = 1;
  m->gpus_per_node = ranks;
  m->node->title = mal_copy(a, "this computer");
  told(a, &m->node->cpu_cores, (double)mal_here_cores());
  told(a, &m->node->ram_bytes, bytes);
  told(a, &m->gpu->memory_bytes, bytes / (double)ranks);
}

double mal_machine_ranks_per_core(const mal_machine *m) {
  const char *architecture = m->gpu->architecture;
  double ranks = (double)m->gpus_per_node, cores = m->node->cpu_cores.value;
  return architecture && !strcmp(architecture, "cpu") && cores > 0 && ranks > cores ? ranks / cores : 1;
}
