#include "simulate/program_file.h"
#include "core/file.h"
#include "core/json.h"
#include "program/schedule.h"
#include "program/show.h"
#include <stdlib.h>
#include <string.h>

typedef struct reader {
  const char *path;
  const mal_program *p;
  mal_pipe pipe;
  mal_simulate_tables *tables;
  mal_error *e;
} reader;

static mal_status bad_entry(const reader *r, int64_t stage, int64_t entry, const char *text, const char *why) {
  return mal_fail(r->e, MAL_BAD, _("%s: stage %lld, entry %lld, '%.60s': %s"), r->path, (long long)stage,
                  (long long)entry, text, why);
}

static bool is_message(const mal_step *s) { return s->op >= MAL_S_SEND_F && s->op <= MAL_S_RECV_B; }

/* The other end of a message; false when there is none. */
static bool peer_of(const reader *r, int64_t stage, const mal_step *s, int64_t *peer, int64_t *peer_chunk) {
  bool onward = s->op == MAL_S_SEND_F || s->op == MAL_S_RECV_B;
  int64_t v = mal_pipe_virtual(&r->pipe, stage, s->chunk) + (onward ? 1 : -1);
  if (v < 0 || v >= mal_pipe_depth(&r->pipe)) return false;
  mal_pipe_neighbour(&r->pipe, stage, s->chunk, onward ? 1 : -1, peer, peer_chunk);
  return *peer != stage;
}

/* "F 0 12 3": operation, chunk, micro-batch, slot. */
static mal_status read_entry(reader *r, int64_t stage, int64_t entry, const json_t *value, mal_step *s) {
  const char *text = json_string_value(value);
  if (!text) return bad_entry(r, stage, entry, "", _("not a text"));
  size_t n = strcspn(text, " ");
  int op = 0;
  while (op < MAL_STEP_OPS && !(strlen(mal_step_name[op]) == n && strncmp(text, mal_step_name[op], n) == 0)) op++;
  if (op == MAL_STEP_OPS)
    return bad_entry(r, stage, entry, text,
                     _("no such operation. There are F, B, W, BW, SEND_F, RECV_F, SEND_B, RECV_B, SYNC and OPT"));
  *s = (mal_step){.op = (uint8_t)op};
  if (op >= MAL_S_SYNC) return text[n] ? bad_entry(r, stage, entry, text, _("nothing follows SYNC and OPT")) : MAL_OK;
  long long number[3] = {0};
  const char *at = text + n;
  for (int k = 0; k < 3; k++) {
    char *end;
    if (at[0] != ' ' || at[1] < '0' || at[1] > '9')
      return bad_entry(r, stage, entry, text, _("write OPERATION CHUNK MICRO-BATCH SLOT"));
    number[k] = strtoll(at + 1, &end, 10);
    at = end;
  }
  if (*at || number[0] >= r->pipe.chunks || number[1] >= r->pipe.micro_batches || number[2] > UINT32_MAX)
    return bad_entry(r, stage, entry, text, _("no such chunk or micro-batch in this program"));
  s->chunk = (uint8_t)number[0], s->micro_batch = (uint32_t)number[1], s->slot = (uint32_t)number[2];
  bool splits = s->op == MAL_S_B || s->op == MAL_S_W, both = s->op == MAL_S_BW;
  if ((splits && !r->p->split_backward) || (both && r->p->split_backward))
    return bad_entry(r, stage, entry, text,
                     r->p->split_backward ? _("this program has B and W apart") : _("this program has BW only"));
  int64_t peer, chunk;
  if (is_message(s) && !peer_of(r, stage, s, &peer, &chunk))
    return bad_entry(r, stage, entry, text, _("there is no stage at the other end"));
  return MAL_OK;
}

static mal_status read_table(mal_arena *a, reader *r, int64_t stage, const json_t *schedule) {
  int64_t n = (int64_t)json_array_size(schedule);
  r->tables->steps[stage] = MAL_ARRAY(a, mal_step, n + 1);
  r->tables->count[stage] = n;
  if (!json_is_array(schedule))
    return mal_fail(r->e, MAL_BAD, _("%s: stage %lld has no schedule."), r->path, (long long)stage);
  for (int64_t i = 0; i < n; i++) {
    mal_status status = read_entry(r, stage, i, json_array_get(schedule, (size_t)i), &r->tables->steps[stage][i]);
    if (status) return status;
  }
  return MAL_OK;
}

/* --- messages with one end ------------------------------------------------------------------------------------------------- */

typedef struct end {
  int64_t key, stage, entry;
  bool sends;
} end;

static int by_key(const void *a, const void *b) {
  const end *x = a, *y = b;
  if (x->key != y->key) return (x->key > y->key) - (x->key < y->key);
  return (int)x->sends - (int)y->sends;
}

/* A number for a message, the same at both ends: direction, receiver, chunk, micro-batch. */
static int64_t message_key(const reader *r, int64_t stage, const mal_step *s) {
  int64_t peer = stage, chunk = s->chunk;
  bool sends = s->op == MAL_S_SEND_F || s->op == MAL_S_SEND_B,
       backward = s->op == MAL_S_SEND_B || s->op == MAL_S_RECV_B;
  if (sends) peer_of(r, stage, s, &peer, &chunk);
  return ((backward * r->pipe.pp + peer) * r->pipe.chunks + chunk) * r->pipe.micro_batches + s->micro_batch;
}

static mal_status check_ends(reader *r) {
  mal_arena scratch;
  int64_t all = 0, n = 0;
  mal_arena_init(&scratch);
  for (int64_t g = 0; g < r->pipe.pp; g++) all += r->tables->count[g];
  end *ends = MAL_ARRAY(&scratch, end, all + 1);
  for (int64_t g = 0; g < r->pipe.pp; g++)
    for (int64_t i = 0; i < r->tables->count[g]; i++) {
      const mal_step *s = &r->tables->steps[g][i];
      if (is_message(s)) ends[n++] = (end){message_key(r, g, s), g, i, s->op == MAL_S_SEND_F || s->op == MAL_S_SEND_B};
    }
  qsort(ends, (size_t)n, sizeof *ends, by_key);
  mal_status status = MAL_OK;
  for (int64_t i = 0; i < n && !status; i += 2) {
    bool pair = i + 1 < n && ends[i].key == ends[i + 1].key && !ends[i].sends && ends[i + 1].sends;
    if (pair) continue;
    const end *x = &ends[i];
    const mal_step *s = &r->tables->steps[x->stage][x->entry];
    int64_t peer = 0, chunk;
    peer_of(r, x->stage, s, &peer, &chunk);
    status = mal_fail(r->e, MAL_BAD, _("%s: stage %lld, entry %lld, %s of chunk %d, micro-batch %u: %s stage %lld."),
                      r->path, (long long)x->stage, (long long)x->entry, mal_step_name[s->op], s->chunk, s->micro_batch,
                      x->sends ? _("nothing receives it in") : _("nothing sends it in"), (long long)peer);
  }
  mal_arena_free(&scratch);
  return status;
}

/* --- the file -------------------------------------------------------------------------------------------------------------------- */

static mal_status check_blocks(const reader *r, const json_t *root) {
  json_t *own = mal_program_json(r->p);
  const json_t *here = json_object_get(own, "blocks"), *there = json_object_get(root, "blocks");
  size_t n = json_array_size(here), at = 0;
  while (at < n && json_equal(json_array_get(here, at), json_array_get(there, at))) at++;
  bool same = at == n && json_array_size(there) == n;
  json_decref(own);
  if (same) return MAL_OK;
  return mal_fail(r->e, MAL_BAD,
                  _("%s: block %zu is not what its plan lowers to. Only the schedules may be edited; write the file "
                    "again with malha lower."),
                  r->path, at);
}

static mal_status read_root(mal_arena *a, reader *r, const json_t *root) {
  const json_t *stages = json_object_get(root, "stages");
  mal_status status = check_blocks(r, root);
  if (status) return status;
  if (json_array_size(stages) != (size_t)r->pipe.pp)
    return mal_fail(r->e, MAL_BAD, _("%s: %zu stages, but its plan has %lld."), r->path, json_array_size(stages),
                    (long long)r->pipe.pp);
  r->tables = MAL_NEW(a, mal_simulate_tables);
  r->tables->steps = MAL_ARRAY(a, mal_step *, r->pipe.pp);
  r->tables->count = MAL_ARRAY(a, int64_t, r->pipe.pp);
  for (int64_t g = 0; g < r->pipe.pp && !status; g++)
    status = read_table(a, r, g, json_object_get(json_array_get(stages, (size_t)g), "schedule"));
  return status ? status : check_ends(r);
}

mal_status mal_program_file_parse(mal_arena *a, const char *path, const char *text, size_t length, const mal_program *p,
                                  mal_simulate_tables **tables, mal_error *e) {
  mal_json j;
  reader r = {.path = path, .p = p, .pipe = mal_pipe_of(&p->plan->layout, p->micro_batches), .e = e};
  *tables = NULL;
  mal_status status = mal_json_parse(a, path, text, length, &j, e);
  if (!status && json_object_get(j.root, "malha_program")) {
    status = read_root(a, &r, j.root);
    *tables = r.tables;
  }
  mal_json_free(&j);
  return status;
}

mal_status mal_program_file_tables(mal_arena *a, const char *path, const mal_program *p, mal_simulate_tables **tables,
                                   mal_error *e) {
  char *text;
  size_t length;
  mal_status status = mal_file_read(a, path, MAL_JSON_LIMIT_BYTES, &text, &length, e);
  return status ? status : mal_program_file_parse(a, path, text, length, p, tables, e);
}
