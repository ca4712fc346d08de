#include "core/file.h"
#include "core/json.h"
#include "engine/weights/weights.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };
static const int64_t default_shard_bytes = 5000000000; /* transformers 4, save_pretrained(max_shard_size="5GB") */

const char *const mal_hf_dtype_name[MAL_HF_DTYPES + 1] = {"fp32", "bf16", "fp16", NULL};
const mal_dtype mal_hf_dtypes[MAL_HF_DTYPES] = {MAL_F32, MAL_BF16, MAL_F16};

struct mal_weight_writer {
  mal_arena *a;
  mal_weight_request q;
  mal_files *disk;
  const char *part, *config; /* the folder while it is written; the text of config.json */
  mal_stored *stored;        /* by tensor */
  const char **names;        /* of the files */
  int32_t *first;            /* [n_files + 1]: tensors of file i are [first[i], first[i + 1]) */
  char **heads;              /* what files begin with, and how long that is */
  int64_t *head_bytes;
  int n_files;
  int64_t wanted;           /* numbers of all tensors */
  _Atomic int64_t *written; /* of them; in memory that forked processes share */
};

static mal_status cannot(mal_error *e, const char *path, int why) {
  if (why == ENOSPC || why == EDQUOT)
    return mal_fail(e, MAL_FAULT, _("%s: no space left for the model's files. Free some, or name another folder."),
                    path);
  return mal_fail(e, MAL_FAULT, _("%s: the model cannot be written: %s."), path, strerror(why));
}

/* --- what will be written ------------------------------------------------------------------------------------------------------- */

static void describe(mal_weight_writer *w) {
  const mal_tensors *t = w->q.tensors;
  int64_t size = w->q.dtype == MAL_F32 ? 4 : 2;
  w->stored = MAL_ARRAY(w->a, mal_stored, t->count);
  for (int32_t i = 0; i < t->count; i++) {
    const mal_tensor *x = &t->at[i];
    mal_stored *s = &w->stored[i];
    *s = (mal_stored){.name = x->name, .dtype = mal_safetensors_dtype(w->q.dtype), .type = (int)w->q.dtype};
    s->rank = x->vector ? 1 : 2;
    s->shape[0] = x->transposed && !x->vector ? x->cols : x->rows;
    if (!x->vector) s->shape[1] = x->transposed ? x->rows : x->cols;
    s->bytes = x->rows * x->cols * size;
    w->wanted += x->rows * x->cols;
  }
}

/* Tensor after tensor, a new file where the next would make one too large. */
static void share_out(mal_weight_writer *w) {
  int64_t most = w->q.shard_bytes ? w->q.shard_bytes : default_shard_bytes, used = 0;
  int32_t n = w->q.tensors->count;
  w->first = MAL_ARRAY(w->a, int32_t, n + 2);
  w->n_files = 1;
  for (int32_t i = 0; i < n; i++) {
    if (used > 0 && used + w->stored[i].bytes > most) w->first[w->n_files++] = i, used = 0;
    used += w->stored[i].bytes;
    w->stored[i].file = w->n_files - 1;
  }
  w->first[w->n_files] = n;
  w->names = MAL_ARRAY(w->a, const char *, w->n_files);
  w->heads = MAL_ARRAY(w->a, char *, w->n_files);
  w->head_bytes = MAL_ARRAY(w->a, int64_t, w->n_files);
  for (int i = 0; i < w->n_files; i++) {
    int32_t from = w->first[i];
    w->heads[i] = mal_safetensors_compose(w->a, w->stored + from, w->first[i + 1] - from, &w->head_bytes[i]);
    w->names[i] =
        w->n_files == 1 ? "model.safetensors" : mal_print(w->a, "model-%05d-of-%05d.safetensors", i + 1, w->n_files);
  }
}

static const char *without_slashes(mal_arena *a, const char *folder) {
  char *text = mal_copy(a, folder);
  for (size_t n = strlen(text); n > 1 && text[n - 1] == '/'; n--) text[n - 1] = '\0';
  return text;
}

static mal_status check_place(const mal_weight_writer *w, mal_error *e) {
  const char **names, *slash = strrchr(w->q.folder, '/');
  int n = 0, why = w->disk->list(w->disk, w->a, w->q.folder, &names, &n);
  if (why == 0 && n > 0)
    return mal_fail(e, MAL_BAD, _("%s is there already and is not empty. Name another folder for the model."),
                    w->q.folder);
  if (why && why != ENOENT) return cannot(e, w->q.folder, why);
  if (!slash || slash == w->q.folder) return MAL_OK;
  const char *above = mal_print(w->a, "%.*s", (int)(slash - w->q.folder), w->q.folder);
  return mal_is_directory(above)
             ? MAL_OK
             : mal_fail(e, MAL_BAD, _("%s: the folder %s is not there. Make it first."), w->q.folder, above);
}

mal_status mal_weight_writer_open(mal_arena *a, const mal_weight_request *q, mal_weight_writer **out, mal_error *e) {
  mal_weight_writer *w = MAL_NEW(a, mal_weight_writer);
  *w = (mal_weight_writer){.a = a, .q = *q, .disk = &mal_files_disk};
  *out = w;
  w->q.folder = without_slashes(a, q->folder);
  w->part = mal_print(a, "%s.part", w->q.folder);
  char *text = NULL;
  mal_status status = mal_model_config(a, q->model, q->dtype, &text, e);
  if (!status) status = check_place(w, e);
  if (status) return status;
  w->config = text;
  void *shared = mmap(NULL, sizeof *w->written, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return cannot(e, w->q.folder, errno);
  w->written = shared;
  describe(w);
  share_out(w);
  return MAL_OK;
}

int mal_weight_writer_files(const mal_weight_writer *w) { return w->n_files; }

void mal_weight_writer_close(mal_weight_writer *w) {
  if (w && w->written) munmap(w->written, sizeof *w->written);
}

/* --- the numbers ------------------------------------------------------------------------------------------------------------------ */

static const char *path_of(const mal_weight_writer *w, mal_arena *a, int file) {
  return mal_print(a, "%s/%s", w->part, w->names[file]);
}

mal_status mal_weight_writer_begin(mal_weight_writer *w, mal_error *e) {
  mal_files *f = w->disk;
  *w->written = 0;
  int why = f->make_folder(f, w->part);
  if (why && why != EEXIST) return cannot(e, w->part, why);
  for (int i = 0; i < w->n_files; i++) {
    mal_handle *file;
    const char *path = path_of(w, w->a, i);
    why = f->open(f, path, true, &file);
    if (why) return cannot(e, path, why);
    why = f->write(file, 0, w->heads[i], w->head_bytes[i]);
    int closed = f->close(file);
    if (why || closed) return cannot(e, path, why ? why : closed);
  }
  return MAL_OK;
}

typedef struct writing {
  mal_weight_writer *w;
  const mal_stored *stored;
  char *narrow; /* [BUFFER_BYTES] */
  int *fds;     /* by file; -1: not open */
} writing;

static int write_bytes(int fd, int64_t at, const char *from, int64_t n) {
  for (int64_t done = 0; done < n;) {
    ssize_t some = pwrite(fd, from + done, (size_t)(n - done), at + done);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return errno;
    done += some;
  }
  return 0;
}

/* Numbers [first, first + n) as they lie in the file. */
static int write_numbers(const writing *x, int64_t first, int64_t n, const float *from) {
  int64_t size = x->stored->type == MAL_F32 ? 4 : 2;
  int fd = x->fds[x->stored->file];
  for (int64_t done = 0, some; done < n; done += some) {
    some = n - done < BUFFER_BYTES / size ? n - done : BUFFER_BYTES / size;
    mal_numbers_narrow((mal_dtype)x->stored->type, from + done, x->narrow, some);
    int why = write_bytes(fd, x->stored->first_byte + (first + done) * size, x->narrow, some * size);
    if (why) return why;
  }
  return 0;
}

static int write_rows(const writing *x, const mal_tensor *t, const mal_piece *p, const float *from) {
  if (p->cols == t->cols) return write_numbers(x, p->row * t->cols, p->rows * p->cols, from);
  int why = 0;
  for (int64_t i = 0; i < p->rows && !why; i++)
    why = write_numbers(x, (p->row + i) * t->cols + p->col, p->cols, from + i * p->cols);
  return why;
}

/* Columns of the piece become rows of the file: some at once, so that whole lines of memory are read. */
static int write_turned(const writing *x, const mal_tensor *t, const mal_piece *p, float *strip, const float *from) {
  int64_t most = BUFFER_BYTES / (int64_t)sizeof(float) / p->rows;
  int why = 0;
  most = most > 64 ? 64 : most < 1 ? 1 : most;
  for (int64_t c = 0, n; c < p->cols && !why; c += n) {
    n = p->cols - c < most ? p->cols - c : most;
    for (int64_t i = 0; i < p->rows; i++)
      for (int64_t k = 0; k < n; k++) strip[k * p->rows + i] = from[i * p->cols + c + k];
    if (p->rows == t->rows)
      why = write_numbers(x, (p->col + c) * t->rows, n * p->rows, strip);
    else
      for (int64_t k = 0; k < n && !why; k++)
        why = write_numbers(x, (p->col + c + k) * t->rows + p->row, p->rows, strip + k * p->rows);
  }
  return why;
}

static mal_status open_file_of(writing *x, mal_arena *a, mal_error *e) {
  int *fd = &x->fds[x->stored->file];
  const char *path = path_of(x->w, a, x->stored->file);
  if (*fd < 0) *fd = open(path, O_WRONLY | O_CLOEXEC);
  return *fd < 0 ? cannot(e, path, errno) : MAL_OK;
}

static mal_status put_pieces(writing *x, mal_arena *a, float *strip, const mal_rank_state *s, mal_error *e) {
  mal_weight_writer *w = x->w;
  for (int32_t i = 0; i < s->n_pieces; i++) {
    const mal_piece *p = &s->pieces[i];
    const mal_tensor *t = &w->q.tensors->at[p->tensor];
    if (!p->owned) continue;
    x->stored = &w->stored[p->tensor];
    mal_status status = open_file_of(x, a, e);
    if (status) return status;
    int why = t->transposed && !t->vector ? write_turned(x, t, p, strip, s->param + p->at)
                                          : write_rows(x, t, p, s->param + p->at);
    if (why) return cannot(e, w->part, why);
    atomic_fetch_add(w->written, p->rows * p->cols);
  }
  return MAL_OK;
}

mal_status mal_weight_writer_put(mal_weight_writer *w, const mal_rank_state *s, mal_error *e) {
  if (!s->owns_param) return MAL_OK;
  mal_arena a;
  mal_arena_init(&a);
  int64_t longest = BUFFER_BYTES / (int64_t)sizeof(float);
  for (int32_t i = 0; i < s->n_pieces; i++)
    if (s->pieces[i].rows > longest) longest = s->pieces[i].rows;
  writing x = {.w = w, .narrow = malloc(BUFFER_BYTES), .fds = MAL_ARRAY(&a, int, w->n_files)};
  float *strip = malloc((size_t)longest * sizeof *strip);
  for (int i = 0; i < w->n_files; i++) x.fds[i] = -1;
  mal_status status = x.narrow && strip ? put_pieces(&x, &a, strip, s, e)
                                        : mal_fail(e, MAL_FAULT, _("out of memory while weights are written."));
  for (int i = 0; i < w->n_files; i++)
    if (x.fds[i] >= 0 && close(x.fds[i]) != 0 && !status) status = cannot(e, w->part, errno);
  free(strip);
  free(x.narrow);
  mal_arena_free(&a);
  return status;
}

/* --- what lies beside ---------------------------------------------------------------------------------------------------------------- */

static mal_status write_text(mal_weight_writer *w, const char *name, const char *text, size_t length, mal_error *e) {
  return mal_file_write(mal_print(w->a, "%s/%s", w->part, name), text, length, e);
}

static mal_status write_index(mal_weight_writer *w, mal_error *e) {
  json_t *map = json_object();
  int64_t total = 0;
  for (int32_t i = 0; i < w->q.tensors->count; i++) {
    json_object_set_new(map, w->stored[i].name, json_string(w->names[w->stored[i].file]));
    total += w->stored[i].bytes;
  }
  json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
  char *text = mal_print(w->a, "%s\n", mal_json_dump(w->a, root));
  json_decref(root);
  return write_text(w, "model.safetensors.index.json", text, strlen(text), e);
}

static mal_status copy_tokenizer(mal_weight_writer *w, mal_error *e) {
  static const char *const names[] = {
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",   "vocab.json",
      "merges.txt",     "tokenizer.model",       "generation_config.json",  "chat_template.jinja",
  };
  mal_status status = MAL_OK;
  for (size_t i = 0; i < sizeof names / sizeof *names && w->q.tokenizer_from && !status; i++) {
    const char *path = mal_print(w->a, "%s/%s", w->q.tokenizer_from, names[i]);
    char *text;
    size_t length;
    if (!mal_is_file(path)) continue;
    status = mal_file_read(w->a, path, MAL_JSON_LIMIT_BYTES, &text, &length, e);
    if (!status) status = write_text(w, names[i], text, length, e);
  }
  return status;
}

mal_status mal_weight_writer_finish(mal_weight_writer *w, mal_error *e) {
  mal_files *f = w->disk;
  if (*w->written != w->wanted)
    return mal_fail(e, MAL_FAULT, "%s: %lld of %lld numbers were written", w->part, (long long)*w->written,
                    (long long)w->wanted);
  int why = 0;
  for (int i = 0; i < w->n_files && !why; i++) {
    mal_handle *file;
    why = f->open(f, path_of(w, w->a, i), false, &file);
    if (!why) why = f->sync(file);
    if (!why) why = f->close(file);
  }
  if (why) return cannot(e, w->part, why);
  mal_status status = write_text(w, "config.json", w->config, strlen(w->config), e);
  if (!status && w->n_files > 1) status = write_index(w, e);
  if (!status) status = copy_tokenizer(w, e);
  if (status) return status;
  why = f->sync_folder(f, w->part);
  if (!why) why = f->rename(f, w->part, w->q.folder);
  return why ? cannot(e, w->q.folder, why) : MAL_OK;
}
