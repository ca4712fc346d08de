/* The JSON form of a program: docs/schema/program.json. */
#include "program/show.h"
#include <stdio.h>

enum { PROGRAM_VERSION = 1 };

static void set(json_t *object, const char *key, json_t *value) { json_object_set_new(object, key, value); }

static json_t *indices(const uint16_t *values, int n, uint16_t none) {
  json_t *array = json_array();
  for (int i = 0; i < n; i++)
    if (values[i] != none) json_array_append_new(array, json_integer(values[i]));
  return array;
}

static json_t *instruction_json(const mal_block *b, const mal_instruction *i) {
  json_t *o = json_object(), *flags = json_array(), *axes = json_array(), *sizes = json_object();
  const mal_sizes *s = &b->sizes[i->sizes];
  for (int k = 0; k < MAL_FLAG_ROWS; k++)
    if (i->flags & mal_flag_rows[k].flag) json_array_append_new(flags, json_string(mal_flag_rows[k].name));
  bool shard = i->axes == MAL_AXES_SHARD, replica = i->axes == MAL_AXES_REPLICA;
  if (shard || replica) json_array_append_new(axes, json_string(shard ? "shard" : "replica"));
  for (int k = 0; k < MAL_AXES && !shard && !replica; k++)
    if (i->axes & 1u << k) json_array_append_new(axes, json_string(mal_axis_name[k]));
  for (int k = 0, n = mal_size_count(i, s); k < n; k++) set(sizes, mal_size_names(i->op)[k], json_integer(s->v[k]));
  set(o, "op", json_string(mal_instruction_name(i)));
  set(o, "dtype", json_string(mal_dtype_name[i->dtype]));
  set(o, "stream", json_string(mal_stream_name[i->stream]));
  set(o, "cause", json_string(mal_time_name[i->cause]));
  set(o, "sizes", sizes);
  set(o, "in", indices(i->in, MAL_INPUTS, MAL_NO_BUFFER));
  set(o, "out", indices(i->out, MAL_OUTPUTS, MAL_NO_BUFFER));
  set(o, "group", axes);
  set(o, "flags", flags);
  set(o, "wait", indices(i->wait, 2, MAL_NO_EVENT));
  set(o, "record", i->record == MAL_NO_EVENT ? json_null() : json_integer(i->record));
  set(o, "origin", json_integer(i->origin));
  set(o, "flops", json_real(mal_ops[i->op].flops(i, s)));
  set(o, "bytes", json_real(mal_instruction_bytes(b, i)));
  return o;
}

static json_t *buffer_json(const mal_buffer *f) {
  json_t *o = json_object();
  set(o, "name", json_string(f->name));
  set(o, "region", json_string(mal_region_name[f->region]));
  set(o, "dtype", json_string(mal_dtype_name[f->dtype]));
  set(o, "bytes", json_integer(f->bytes));
  set(o, "offset_bytes", json_integer(f->offset_bytes));
  set(o, "external", json_boolean(f->external));
  set(o, "param", f->param < 0 ? json_null() : json_integer(f->param));
  return o;
}

static json_t *regions_json(const int64_t *bytes) {
  json_t *o = json_object();
  for (int r = 0; r < MAL_REGIONS; r++) set(o, mal_region_name[r], json_integer(bytes[r]));
  return o;
}

static json_t *block_json(const mal_block *b) {
  json_t *o = json_object(), *buffers = json_array(), *lists = json_object();
  for (int i = 0; i < b->n_buffers; i++) json_array_append_new(buffers, buffer_json(&b->buffers[i]));
  for (int l = 0; l < MAL_LISTS; l++) {
    if (b->count[l] == 0) continue;
    json_t *list = json_object(), *instructions = json_array();
    for (int i = 0; i < b->count[l]; i++) json_array_append_new(instructions, instruction_json(b, &b->list[l][i]));
    set(list, "work_bytes", json_integer(b->work_bytes[l]));
    set(list, "flops", json_real(b->flops[l]));
    set(list, "model_flops", json_real(b->model_flops[l]));
    set(list, "instructions", instructions);
    set(lists, mal_list_name[l], list);
  }
  set(o, "class", json_string(mal_class_name[b->block_class]));
  set(o, "name", json_string(b->name ? b->name : mal_class_name[b->block_class]));
  set(o, "trained_elements", json_integer(b->dense_elements + b->expert_elements));
  set(o, "frozen_elements", json_integer(b->frozen_dense_elements + b->frozen_expert_elements));
  set(o, "stash_bytes", json_integer(b->stash_bytes));
  set(o, "logits_bytes", json_integer(b->logits_bytes));
  set(o, "kernel_bytes", json_integer(b->kernel_bytes));
  set(o, "host_bytes", json_integer(b->host_bytes));
  set(o, "nvme_bytes", json_integer(b->nvme_bytes));
  set(o, "region_bytes", regions_json(b->region_bytes));
  set(o, "buffers", buffers);
  set(o, "lists", lists);
  return o;
}

static json_t *chunk_json(const mal_chunk *c) {
  json_t *o = json_object(), *runs = json_array();
  for (int i = 0; i < c->n_runs; i++) {
    json_t *run = json_object();
    set(run, "block", json_integer(c->runs[i].block));
    set(run, "count", json_integer(c->runs[i].count));
    json_array_append_new(runs, run);
  }
  set(o, "part", json_integer(c->part));
  set(o, "micro_batches", json_integer(c->micro_batches));
  set(o, "slots", json_integer(c->slots));
  set(o, "stash_bytes", json_integer(c->stash_bytes));
  set(o, "runs", runs);
  return o;
}

/* One text per entry, "F 0 12 3": operation, chunk, micro-batch, slot. */
static json_t *schedule_json(const mal_program *p, int64_t stage) {
  mal_arena a;
  mal_error e;
  mal_step *steps;
  int64_t count = 0;
  char text[64];
  json_t *array = json_array();
  mal_arena_init(&a);
  if (mal_schedule_stage(&a, &p->plan->layout, p->micro_batches, stage, &steps, &count, &e) != MAL_OK) count = 0;
  for (int64_t i = 0; i < count; i++) {
    const mal_step *s = &steps[i];
    if (s->op >= MAL_S_SYNC)
      snprintf(text, sizeof text, "%s", mal_step_name[s->op]);
    else
      snprintf(text, sizeof text, "%s %u %u %u", mal_step_name[s->op], (unsigned)s->chunk, s->micro_batch, s->slot);
    json_array_append_new(array, json_string(text));
  }
  mal_arena_free(&a);
  return array;
}

static json_t *stage_json(const mal_program *p, int64_t index) {
  const mal_stage *s = &p->stages[index];
  json_t *o = json_object(), *chunks = json_array(), *memory = json_object();
  for (int c = 0; c < s->n_chunks; c++) json_array_append_new(chunks, chunk_json(&s->chunks[c]));
  for (int m = 0; m < MAL_MEM_CAUSES; m++) set(memory, mal_memory_name[m], json_integer(s->memory_bytes[m]));
  set(o, "chunks", chunks);
  set(o, "sync", json_integer(s->sync));
  set(o, "optimizer", json_integer(s->optimizer));
  set(o, "trained_elements", json_integer(s->dense_elements + s->expert_elements));
  set(o, "frozen_elements", json_integer(s->frozen_dense_elements + s->frozen_expert_elements));
  set(o, "region_bytes", regions_json(s->region_bytes));
  set(o, "memory_bytes", memory);
  set(o, "total_bytes", json_integer(s->total_bytes));
  set(o, "host_bytes", json_integer(s->host_bytes));
  set(o, "nvme_bytes", json_integer(s->nvme_bytes));
  set(o, "schedule", schedule_json(p, index));
  return o;
}

json_t *mal_program_json(const mal_program *p) {
  json_t *root = json_object(), *blocks = json_array(), *stages = json_array(), *sent = json_object();
  for (int i = 0; i < p->n_blocks; i++) json_array_append_new(blocks, block_json(&p->blocks[i]));
  for (int64_t s = 0; s < p->plan->layout.pp; s++) json_array_append_new(stages, stage_json(p, s));
  for (int i = 0; i <= MAL_AXES; i++)
    set(sent, i < MAL_AXES ? mal_axis_name[i] : "stages", json_real(p->bytes_sent[i]));
  set(root, "malha_program", json_integer(PROGRAM_VERSION));
  set(root, "model", json_string(p->plan->model.name));
  set(root, "model_defaults", mal_model_defaults_json(&p->plan->model));
  set(root, "machine", json_string(p->plan->machine.name));
  set(root, "profile", json_string(p->plan->profile->name));
  set(root, "micro_batches", json_integer(p->micro_batches));
  set(root, "boundary_bytes", json_integer(p->boundary_bytes));
  set(root, "split_backward", json_boolean(p->split_backward));
  set(root, "model_flops", json_real(p->model_flops));
  set(root, "hardware_flops", json_real(p->hardware_flops));
  set(root, "bytes_sent", sent);
  set(root, "worst_stage", json_integer(p->worst_stage));
  set(root, "blocks", blocks);
  set(root, "stages", stages);
  return root;
}
