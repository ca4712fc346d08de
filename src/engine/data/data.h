/* The data of a training run: token files one after the other, cut into sequences, in an order that is a function of the seed.
 *
 * Sequence number i of the run (i counts over all steps and all ranks) is a function of i, the seed and the files: no rank,
 * layout or earlier read changes it. So resuming is starting at another i. */
#ifndef MAL_ENGINE_DATA_DATA_H
#define MAL_ENGINE_DATA_DATA_H
#include "core/arena.h"
#include "core/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct mal_data_request {
  const char *const *paths;
  int n_paths;
  int format;         /* mal_token_format, or MAL_TOKENS_TELL */
  int64_t seq;        /* tokens of a sequence */
  int64_t vocabulary; /* ids must be below; 0: any */
  bool shuffle;       /* else in the files' order */
  uint64_t seed;
} mal_data_request;

typedef struct mal_data mal_data;

/* Files with seq + 1 tokens together at least. Close before the arena is freed. */
mal_status mal_data_open(mal_arena *a, const mal_data_request *o, mal_data **data, mal_error *e);
void mal_data_close(mal_data *data);
int64_t mal_data_tokens(const mal_data *data);
int64_t mal_data_sequences(const mal_data *data); /* of one pass: floor((tokens - 1) / seq) */

/* ids[0 .. seq]: seq + 1 tokens; inputs are the first seq, labels the last seq. Index >= 0; each pass over the data has an
 * order of its own. Any thread may call. Errors name file and place. */
mal_status mal_data_sequence(const mal_data *data, int64_t index, int64_t *ids, mal_error *e);

/* Which of n sequences is the i-th of pass `pass`: a permutation of 0 .. n - 1 for each seed and pass. Four rounds of a Feistel
 * network over the least even number of bits that holds n, Philox as its function; what falls outside walks on until it is
 * inside (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002). */
int64_t mal_data_order(uint64_t seed, int64_t pass, int64_t n, int64_t i);
#endif
