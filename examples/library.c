/* Asks the library which tensor-parallel degree suits a model on a machine, and which layout is the best of all.
 *
 *   cc library.c $(pkg-config --cflags --libs malha) -o library && ./library llama-3-8b 8xh100-sxm */
#include <malha.h>
#include <stdio.h>

static int fail(const malha_error *error) {
  fprintf(stderr, "%s\n", error->text);
  return error->status;
}

int main(int argc, char **argv) {
  malha_model *model;
  malha_machine *machine;
  malha_job *job = malha_job_new();
  malha_error error;
  if (argc != 3 || !job) return MALHA_BAD;
  if (malha_model_load(argv[1], &model, &error)) return fail(&error);
  if (malha_machine_load(argv[2], &machine, &error)) return fail(&error);
  if (malha_job_set(job, "global-batch", "128", &error)) return fail(&error);
  printf("%s, %.2f B parameters, on %d GPUs\n", argv[1], malha_model_parameters(model) / 1e9,
         (int)malha_machine_gpus(machine));
  for (int tp = 1; tp <= 8; tp *= 2) {
    char layout[64];
    malha_plan *plan;
    malha_estimate e = {0};
    snprintf(layout, sizeof layout, "tp=%d,micro-batch=1", tp);
    malha_status status = malha_plan_make(model, machine, job, layout, "megatron", &plan, &error);
    if (status == MALHA_BAD) {
      printf("%-22s %s\n", layout, error.text);
      continue;
    }
    if (status) return fail(&error);
    e.size = sizeof e;
    malha_plan_estimate(plan, &e);
    printf("%-22s fits with %3.0f %%, %5.1f GiB, %8.0f tokens/s\n", layout, 100 * e.fit_probability,
           e.memory_bytes / (1 << 30), e.tokens_per_s);
    malha_plan_free(plan);
  }
  malha_plan *best[1];
  int32_t found = 1;
  malha_status status = malha_search(model, machine, job, NULL, best, &found, &error);
  if (status && status != MALHA_NO) return fail(&error);
  printf("best: %s\n", found ? malha_plan_layout(best[0]) : error.text);
  if (found) malha_plan_free(best[0]);
  malha_job_free(job);
  malha_machine_free(machine);
  malha_model_free(model);
  return MALHA_OK;
}
