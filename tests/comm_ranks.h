/* Ranks for tests: the same function on every rank of a backend's world, as threads or as forked processes. */
#ifndef MAL_TEST_COMM_RANKS_H
#define MAL_TEST_COMM_RANKS_H
#include "engine/comm/comm.h"
#include "test.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANKS = 16, ROOM_BYTES = 48 << 20 };

typedef struct rank_env {
  const mal_comm_backend *b;
  mal_world *world;
  mal_comm *c;
  int32_t rank, ranks;
  char *room;           /* ROOM_BYTES of the backend's memory */
  struct verdict *said; /* of this rank */
  const void *context;
} rank_env;

typedef struct verdict {
  bool failed;
  char text[400];
} verdict;

typedef void rank_function(rank_env *env);

/* In a rank's function, where cmocka's own assertions cannot be: the first thing wrong, with its line. */
#define must(env, what, ...)                                                                                           \
  do {                                                                                                                 \
    if (!(what) && !(env)->said->failed) {                                                                             \
      (env)->said->failed = true;                                                                                      \
      int n_ = snprintf((env)->said->text, sizeof(env)->said->text, "line %d, rank %d of %d: ", __LINE__, (env)->rank, \
                        (env)->ranks);                                                                                 \
      snprintf((env)->said->text + n_, sizeof(env)->said->text - (size_t)n_, __VA_ARGS__);                             \
    }                                                                                                                  \
  } while (0)

typedef struct start_of_rank {
  rank_env env;
  rank_function *run;
} start_of_rank;

static void *run_rank(void *of) {
  start_of_rank *s = of;
  mal_error e = {0};
  void *room = NULL;
  must(&s->env, !s->env.b->memory(s->env.c, ROOM_BYTES, &room, &e), "%s", e.text);
  s->env.room = room;
  if (room) s->run(&s->env);
  return NULL;
}

static verdict *verdicts(void) {
  void *at = mmap(NULL, sizeof(verdict) * MOST_RANKS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(at != MAP_FAILED);
  return at;
}

/* Runs `run` on every rank; fails the test with what a rank found wrong. A process that was killed is none of its matter:
 * `killed`, when not NULL, is called with the rank (processes only). */
static void on_ranks_until(const mal_comm_backend *b, bool processes, mal_comm_options o, rank_function *run,
                           const void *context, void (*killed)(const mal_comm_backend *, mal_world *, int32_t)) {
  mal_arena a = {0};
  mal_error e;
  mal_world *w;
  o.processes = processes, o.memory_bytes = ROOM_BYTES;
  assert_ok(b->open(&a, &o, &w, &e), e);
  verdict *said = verdicts();
  start_of_rank s[MOST_RANKS];
  pthread_t thread[MOST_RANKS];
  pid_t child[MOST_RANKS];
  for (int32_t r = 0; r < o.ranks; r++) {
    s[r] = (start_of_rank){{b, w, b->end(w, r), r, o.ranks, NULL, said + r, context}, run};
    if (!processes) {
      assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &s[r]), 0);
    } else if ((child[r] = fork()) == 0) {
      run_rank(&s[r]);
      _exit(0);
    }
  }
  for (int32_t n = 0; n < o.ranks; n++) {
    if (!processes) {
      pthread_join(thread[n], NULL);
      continue;
    }
    int how, r = 0;
    pid_t pid = wait(&how);
    while (r < o.ranks && child[r] != pid) r++;
    assert_true(r < o.ranks);
    if (WIFSIGNALED(how) && killed)
      killed(b, w, r);
    else
      assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  }
  for (int32_t r = 0; r < o.ranks; r++)
    if (said[r].failed) fail_msg("%s, %s: %s", b->name, processes ? "processes" : "threads", said[r].text);
  munmap(said, sizeof(verdict) * MOST_RANKS);
  b->close(w);
  mal_arena_free(&a);
}

static inline void on_ranks(const mal_comm_backend *b, bool processes, int32_t ranks, rank_function *run,
                            const void *context) {
  mal_comm_options o = {.ranks = ranks, .deadline_s = 60, .oversubscribed = ranks > sysconf(_SC_NPROCESSORS_ONLN)};
  on_ranks_until(b, processes, o, run, context, NULL);
}
#endif
