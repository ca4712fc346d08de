#include "core/file.h"
#include "core/json.h"
#include "engine/weights/weights.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, MOST_FILES = 4096 };

/* --- the files ---------------------------------------------------------------------------------------------------------------- */

static mal_status read_fd(const mal_bytes *from, int64_t offset, void *into, int64_t n, mal_error *e) {
  int fd = *(const int *)from->context;
  for (int64_t done = 0; done < n;) {
    ssize_t some = pread(fd, (char *)into + done, (size_t)(n - done), offset + done);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return mal_fail(e, MAL_FAULT, _("%s: cannot be read: %s."), from->path, strerror(errno));
    if (some == 0)
      return mal_fail(e, MAL_BAD, _("%s: ends at byte %lld; it was cut while it was read."), from->path,
                      (long long)(offset + done));
    done += some;
  }
  return MAL_OK;
}

static mal_status open_file(mal_arena *a, mal_weight_files *w, const char *path, mal_error *e) {
  struct stat s;
  int *fd = MAL_NEW(a, int);
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*fd < 0) return mal_fail(e, MAL_BAD, _("%s: cannot be opened: %s."), path, strerror(errno));
  w->paths[w->n_files] = path;
  w->files[w->n_files] = (mal_bytes){.path = path, .read = read_fd, .context = fd};
  if (fstat(*fd, &s) != 0 || !S_ISREG(s.st_mode)) {
    close(*fd);
    return mal_fail(e, MAL_BAD, _("%s: is no ordinary file."), path);
  }
  w->files[w->n_files++].bytes = s.st_size;
  return MAL_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const mal_stored *)a)->name, ((const mal_stored *)b)->name);
}

static const mal_stored *find(const mal_weight_files *w, const char *name) {
  mal_stored key = {.name = name};
  if (!w->list.count) return NULL;
  return bsearch(&key, w->list.at, (size_t)w->list.count, sizeof key, by_name);
}

/* The files that the index names, each once, in its order. */
static mal_status open_indexed(mal_arena *a, mal_weight_files *w, const mal_json *j, mal_error *e) {
  const json_t *map = json_object_get(j->root, "weight_map");
  const char *tensor;
  json_t *file;
  if (!json_is_object(map) || !json_object_size(map))
    return mal_fail(e, MAL_BAD, _("%s: weight_map is no list of tensors. Fetch the index again."), j->path);
  json_object_foreach((json_t *)map, tensor, file) {
    const char *name = json_string_value(file);
    if (!name || !*name || strchr(name, '/') || !strcmp(name, "..") || !strcmp(name, "."))
      return mal_fail(e, MAL_BAD, _("%s: weight_map: %.200s is said to be in no file of the folder."), j->path, tensor);
    const char *path = mal_print(a, "%s/%s", w->folder, name);
    bool known = false;
    for (int i = 0; i < w->n_files && !known; i++) known = !strcmp(w->paths[i], path);
    if (known) continue;
    if (w->n_files == MOST_FILES) return mal_fail(e, MAL_BAD, _("%s: names more than %d files."), j->path, MOST_FILES);
    mal_status status = open_file(a, w, path, e);
    if (status) return mal_fail_in(e, "%s", j->path);
  }
  return MAL_OK;
}

static mal_status check_index(const mal_weight_files *w, const mal_json *j, mal_error *e) {
  const char *tensor;
  json_t *file;
  json_object_foreach(json_object_get(j->root, "weight_map"), tensor, file) {
    const mal_stored *t = find(w, tensor);
    const char *name = t ? strrchr(w->paths[t->file], '/') + 1 : NULL;
    if (!name || strcmp(name, json_string_value(file)) != 0)
      return mal_fail(e, MAL_BAD, _("%s: tensor %.200s is not in %.200s, where the index says. Fetch both again."),
                      j->path, tensor, json_string_value(file));
  }
  return MAL_OK;
}

static mal_status read_headers(mal_arena *a, mal_weight_files *w, mal_error *e) {
  mal_stored_list *lists = MAL_ARRAY(a, mal_stored_list, w->n_files);
  int32_t all = 0;
  for (int i = 0; i < w->n_files; i++) {
    mal_status status = mal_safetensors_header(a, &w->files[i], &lists[i], e);
    if (status) return status;
    for (int32_t k = 0; k < lists[i].count; k++) lists[i].at[k].file = i;
    all += lists[i].count;
  }
  w->list.at = MAL_ARRAY(a, mal_stored, all + 1);
  for (int i = 0; i < w->n_files; i++)
    for (int32_t k = 0; k < lists[i].count; k++) w->list.at[w->list.count++] = lists[i].at[k];
  qsort(w->list.at, (size_t)w->list.count, sizeof *w->list.at, by_name);
  for (int32_t i = 1; i < w->list.count; i++)
    if (by_name(&w->list.at[i - 1], &w->list.at[i]) == 0)
      return mal_fail(e, MAL_BAD, _("tensor %.200s is in %s and in %s. Keep one of them."), w->list.at[i].name,
                      w->paths[w->list.at[i - 1].file], w->paths[w->list.at[i].file]);
  return MAL_OK;
}

static mal_status open_index(mal_arena *a, mal_weight_files *w, const char *path, mal_error *e) {
  mal_json j;
  mal_status status = mal_json_read(a, path, &j, e);
  if (status) return status;
  status = open_indexed(a, w, &j, e);
  if (!status) status = read_headers(a, w, e);
  if (!status) status = check_index(w, &j, e);
  mal_json_free(&j);
  return status;
}

static mal_status open_single(mal_arena *a, mal_weight_files *w, const char *path, mal_error *e) {
  mal_status status = open_file(a, w, path, e);
  return status ? status : read_headers(a, w, e);
}

mal_status mal_weight_files_open(mal_arena *a, const char *folder, mal_weight_files *w, mal_error *e) {
  *w = (mal_weight_files){.folder = mal_copy(a, folder)};
  w->paths = MAL_ARRAY(a, const char *, MOST_FILES);
  w->files = MAL_ARRAY(a, mal_bytes, MOST_FILES);
  mal_status status;
  if (!mal_is_directory(folder)) {
    status = open_single(a, w, mal_copy(a, folder), e);
  } else {
    const char *one = mal_print(a, "%s/model.safetensors", folder);
    const char *index = mal_print(a, "%s/model.safetensors.index.json", folder);
    if (mal_is_file(one))
      status = open_single(a, w, one, e);
    else if (mal_is_file(index))
      status = open_index(a, w, index, e);
    else
      status =
          mal_fail(e, MAL_BAD,
                   _("%s has no model.safetensors and no model.safetensors.index.json. Give the folder of a Hugging "
                     "Face model; pickled weights (pytorch_model.bin) are written anew by save_pretrained."),
                   folder);
  }
  if (status) mal_weight_files_close(w);
  return status;
}

void mal_weight_files_close(mal_weight_files *w) {
  for (int i = 0; i < w->n_files; i++) close(*(const int *)w->files[i].context);
  w->n_files = 0;
}

/* --- are they the model's ------------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *ending) {
  size_t n = strlen(text), k = strlen(ending);
  return n >= k && !strcmp(text + n - k, ending);
}

/* What transformers stores beside weights, or did: masks of attention, rotary frequencies; of a tied head the table again. */
static bool is_passed_over(const mal_model *m, const char *name) {
  static const char *const endings[] = {".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias",
                                        "rotary_emb.inv_freq"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    if (ends_with(name, endings[i])) return true;
  return m->tied_embeddings && ends_with(name, "lm_head.weight");
}

static void spell_shape(char *text, size_t size, const int64_t *shape, int rank) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < rank && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? " × " : "", (long long)shape[i]);
  if (!rank) snprintf(text, size, "1");
}

static mal_status check_tensor(const mal_weight_files *w, const mal_tensor *t, const mal_stored *s, mal_error *e) {
  int64_t wanted[2] = {t->transposed ? t->cols : t->rows, t->transposed ? t->rows : t->cols};
  int rank = t->vector ? 1 : 2;
  if (t->vector) wanted[0] = t->rows;
  bool same = s->rank == rank && s->shape[0] == wanted[0] && (rank == 1 || s->shape[1] == wanted[1]);
  char have[160], want[64];
  if (!same) {
    spell_shape(have, sizeof have, s->shape, s->rank);
    spell_shape(want, sizeof want, wanted, rank);
    return mal_fail(
        e, MAL_BAD,
        _("%s: tensor %s is %s, and the model makes it %s. Weights and config.json are of different models: "
          "fetch both again, or give the model that they belong to."),
        w->paths[s->file], s->name, have, want);
  }
  if (s->type >= 0) return MAL_OK;
  return mal_fail(e, MAL_BAD,
                  _("%s: tensor %s has dtype %s; F32, F16 and BF16 are read. Write the model anew in one of these "
                    "(save_pretrained of the model in bfloat16)."),
                  w->paths[s->file], s->name, s->dtype);
}

mal_status mal_weight_files_match(mal_arena *a, mal_weight_files *w, const mal_model *m, const mal_tensors *t,
                                  mal_error *e) {
  bool *used = MAL_ARRAY(a, bool, w->list.count + 1);
  w->of_tensor = MAL_ARRAY(a, int32_t, t->count + 1);
  for (int32_t i = 0; i < t->count; i++) {
    const char *name = t->at[i].name, *dot = strchr(name, '.');
    const mal_stored *s = find(w, name);
    if (!s && dot) s = find(w, dot + 1);
    if (!s)
      return mal_fail(
          e, MAL_BAD,
          _("%s: tensor %s of the model is not there. Weights and config.json are of different models, or a "
            "file is missing: fetch the folder again."),
          w->folder, name);
    mal_status status = check_tensor(w, &t->at[i], s, e);
    if (status) return status;
    w->of_tensor[i] = (int32_t)(s - w->list.at);
    used[s - w->list.at] = true;
  }
  for (int32_t i = 0; i < w->list.count; i++)
    if (!used[i] && !is_passed_over(m, w->list.at[i].name))
      return mal_fail(e, MAL_BAD,
                      _("%s: tensor %.200s belongs to nothing in the model. Is config.json the one of these weights?"),
                      w->paths[w->list.at[i].file], w->list.at[i].name);
  return MAL_OK;
}

/* --- numbers -------------------------------------------------------------------------------------------------------------------- */

typedef struct reading {
  const mal_bytes *file;
  const mal_stored *stored;
  char *buffer; /* [BUFFER_BYTES], for narrow numbers */
  mal_error *e;
} reading;

/* Numbers [first, first + n) as they lie in the file. */
static mal_status read_numbers(const reading *r, int64_t first, int64_t n, float *to) {
  int64_t size = r->stored->type == MAL_F32 ? 4 : 2, at = r->stored->first_byte + first * size;
  if (size == 4) return r->file->read(r->file, at, to, n * size, r->e);
  for (int64_t done = 0, some; done < n; done += some) {
    some = n - done < BUFFER_BYTES / size ? n - done : BUFFER_BYTES / size;
    mal_status status = r->file->read(r->file, at + done * size, r->buffer, some * size, r->e);
    if (status) return status;
    mal_numbers_widen((mal_dtype)r->stored->type, r->buffer, to + done, some);
  }
  return MAL_OK;
}

static mal_status read_rows(const reading *r, const mal_tensor *t, const mal_piece *p, float *to) {
  if (p->cols == t->cols) return read_numbers(r, p->row * t->cols, p->rows * p->cols, to);
  mal_status status = MAL_OK;
  for (int64_t i = 0; i < p->rows && !status; i++)
    status = read_numbers(r, (p->row + i) * t->cols + p->col, p->cols, to + i * p->cols);
  return status;
}

/* Columns of the piece are rows of the file: some at once, so that whole lines of memory are written. */
static mal_status read_turned(const reading *r, const mal_tensor *t, const mal_piece *p, float *strip, float *to) {
  int64_t most = BUFFER_BYTES / (int64_t)sizeof(float) / p->rows;
  most = most > 64 ? 64 : most < 1 ? 1 : most;
  mal_status status = MAL_OK;
  for (int64_t c = 0, n; c < p->cols && !status; c += n) {
    n = p->cols - c < most ? p->cols - c : most;
    if (p->rows == t->rows)
      status = read_numbers(r, (p->col + c) * t->rows, n * p->rows, strip);
    else
      for (int64_t k = 0; k < n && !status; k++)
        status = read_numbers(r, (p->col + c + k) * t->rows + p->row, p->rows, strip + k * p->rows);
    for (int64_t i = 0; i < p->rows && !status; i++)
      for (int64_t k = 0; k < n; k++) to[i * p->cols + c + k] = strip[k * p->rows + i];
  }
  return status;
}

mal_status mal_weight_files_load(const mal_weight_files *w, const mal_tensors *t, const mal_rank_state *s,
                                 mal_error *e) {
  int64_t longest = BUFFER_BYTES / (int64_t)sizeof(float);
  for (int32_t i = 0; i < s->n_pieces; i++)
    if (s->pieces[i].rows > longest) longest = s->pieces[i].rows;
  char *buffer = malloc(BUFFER_BYTES);
  float *strip = calloc((size_t)longest, sizeof *strip);
  mal_status status = buffer && strip ? MAL_OK : mal_fail(e, MAL_FAULT, _("out of memory while weights are read."));
  for (int32_t i = 0; i < s->n_pieces && !status; i++) {
    const mal_piece *p = &s->pieces[i];
    const mal_tensor *tensor = &t->at[p->tensor];
    const mal_stored *stored = &w->list.at[w->of_tensor[p->tensor]];
    reading r = {&w->files[stored->file], stored, buffer, e};
    status = tensor->transposed && !tensor->vector ? read_turned(&r, tensor, p, strip, s->param + p->at)
                                                   : read_rows(&r, tensor, p, s->param + p->at);
  }
  free(strip);
  free(buffer);
  return status;
}
