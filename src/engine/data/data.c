#include "engine/data/data.h"
#include "core/philox.h"
#include "core/units.h"
#include "engine/data/tokens.h"

struct mal_data {
  mal_data_request options;
  mal_token_file *files;
  int64_t *first; /* [n_paths + 1]: number of the first token of each file */
};

static uint64_t mixed(uint64_t seed, int64_t pass, int round, uint64_t half, uint64_t mask) {
  const uint32_t counter[4] = {(uint32_t)half, (uint32_t)round, (uint32_t)pass, (uint32_t)(pass >> 32)};
  uint32_t out[4];
  mal_philox(seed, counter, out);
  return out[0] & mask;
}

int64_t mal_data_order(uint64_t seed, int64_t pass, int64_t n, int64_t i) {
  int bits = 1;
  while (bits < 31 && (INT64_C(1) << 2 * bits) < n) bits++;
  uint64_t mask = (UINT64_C(1) << bits) - 1, x = (uint64_t)i;
  do {
    uint64_t left = x >> bits, right = x & mask;
    for (int round = 0; round < 4; round++) {
      uint64_t next = left ^ mixed(seed, pass, round, right, mask);
      left = right;
      right = next;
    }
    x = left << bits | right;
  } while (x >= (uint64_t)n);
  return (int64_t)x;
}

mal_status mal_data_open(mal_arena *a, const mal_data_request *o, mal_data **data, mal_error *e) {
  mal_data *d = MAL_NEW(a, mal_data);
  d->options = *o;
  d->files = MAL_ARRAY(a, mal_token_file, o->n_paths);
  d->first = MAL_ARRAY(a, int64_t, o->n_paths + 1);
  *data = NULL;
  if (o->seq < 1) return mal_fail(e, MAL_BAD, _("Sequences need at least one token, not %lld."), (long long)o->seq);
  mal_status status = MAL_OK;
  for (int i = 0; i < o->n_paths; i++) d->files[i].fd = -1;
  for (int i = 0; i < o->n_paths && !status; i++) {
    status = mal_tokens_open(a, o->paths[i], o->format, &d->files[i], e);
    d->first[i + 1] = d->first[i] + d->files[i].tokens;
  }
  if (!status && mal_data_tokens(d) <= o->seq)
    status = mal_fail(e, MAL_BAD,
                      _("The data has %s tokens, and one sequence of %s needs one more than that. Give more data, or "
                        "shorter sequences."),
                      mal_show_int(mal_data_tokens(d)), mal_show_int(o->seq));
  if (status)
    mal_data_close(d);
  else
    *data = d;
  return status;
}

void mal_data_close(mal_data *data) {
  for (int i = 0; data && i < data->options.n_paths; i++) mal_tokens_close(&data->files[i]);
}

int64_t mal_data_tokens(const mal_data *data) { return data->first[data->options.n_paths]; }
int64_t mal_data_sequences(const mal_data *data) { return (mal_data_tokens(data) - 1) / data->options.seq; }

mal_status mal_data_sequence(const mal_data *data, int64_t index, int64_t *ids, mal_error *e) {
  const mal_data_request *o = &data->options;
  int64_t n = mal_data_sequences(data), at = index % n;
  if (index < 0) return mal_fail(e, MAL_FAULT, _("There is no sequence %lld."), (long long)index);
  if (o->shuffle) at = mal_data_order(o->seed, index / n, n, at);
  int64_t token = at * o->seq, end = token + o->seq + 1;
  for (int i = 0; i < o->n_paths && token < end; i++) {
    if (data->first[i + 1] <= token) continue;
    int64_t stop = end < data->first[i + 1] ? end : data->first[i + 1];
    mal_status status = mal_tokens_read(&data->files[i], token - data->first[i], stop - token, o->vocabulary, ids, e);
    if (status) return status;
    ids += stop - token;
    token = stop;
  }
  return MAL_OK;
}
