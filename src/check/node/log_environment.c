/* Environment variables in what people paste: shell scripts and their traces (set -x), `env`, `export -p`, command lines of mpirun,
 * srun, docker and the like, Dockerfiles, batch headers, systemd units, JSON and YAML of containers and jobs, os.environ of Python.
 * What stands in a comment, or in a sentence, sets nothing. */
#include "check/node/log.h"
#include <ctype.h>
#include <string.h>

enum { NAME_MOST = 72, VALUE_MOST = 1024, PENDING_LINES = 3, LINES_KEPT = 256 };

typedef struct environment {
  char pending[NAME_MOST]; /* "name: NCCL_X" of a list, whose "value: ..." follows */
  int pending_line, found;
  bool looked, table; /* a table of results, whose cells tell of settings */
  char word[VALUE_MOST];
  struct {
    uint64_t line; /* hashed */
    unsigned changes;
  } before[LINES_KEPT];
} environment;

typedef struct place {
  const mal_log *log;
  environment *e;
  int line;
} place;

static bool of_interest(const char *name) {
  static const char *const starts[] = {"NCCL_", "CUDA_", "TORCH_", "PYTORCH_", "FI_", "OMP_NUM", "UCX_"};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
    if (*name == *starts[i] && mal_starts(name, starts[i])) return true;
  return false;
}

static size_t name_length(const char *at) {
  size_t n = 0;
  while (isupper((unsigned char)at[n]) || at[n] == '_' || (n && isdigit((unsigned char)at[n]))) n++;
  return n;
}

/* What a value is once the shell is through: "${X:-Ring}" is Ring where X is not set; what else it puts in is not known. */
static bool settled(char *value) {
  if (!strpbrk(value, "$`")) return true;
  char *dash = strstr(value, ":-");
  size_t n = strlen(value);
  if (mal_starts(value, "${") && dash && n && value[n - 1] == '}' && !strchr(dash, '$')) {
    memmove(value, dash + 2, n - (size_t)(dash + 2 - value));
    value[n - (size_t)(dash + 2 - value) - 1] = 0;
    return true;
  }
  return !strchr(value, '$') && !strchr(value, '`');
}

static void set(const place *p, const char *name, size_t n, const char *value, size_t length, bool replaces) {
  char key[NAME_MOST], text[VALUE_MOST];
  if (n < 4 || n >= sizeof key || !of_interest(name)) return;
  if (length >= sizeof text) length = sizeof text - 1;
  memcpy(key, name, n);
  key[n] = 0;
  memcpy(text, value, length);
  text[length] = 0;
  p->e->found++;
  if (settled(text))
    (replaces ? mal_replace_variable : mal_note_variable)(p->log->h, key, text,
                                                          (mal_evidence){p->log->p->file, p->line});
  else
    mal_forget_variable(p->log->h, key, p->log->p->file);
}

/* A scalar of JSON or YAML, or a string of Python: quoted, or up to a comma, a closing brace or a comment. */
static bool scalar(const char *at, const char **start, size_t *length) {
  at += strspn(at, " \t");
  if (*at == '"' || *at == '\'') {
    const char *end = strchr(at + 1, *at);
    *start = at + 1;
    *length = end ? (size_t)(end - at - 1) : strlen(at + 1);
    return true;
  }
  size_t n = strcspn(at, ",}#");
  while (n && (at[n - 1] == ' ' || at[n - 1] == '\t')) n--;
  *start = at;
  *length = n;
  return n > 0 && !strchr("[{&*|>", *at); /* the start of a list, a mapping or a text, or an anchor */
}

/* After `key` as a key of JSON or YAML: its value. */
static const char *after_key(const char *at, const char *key) {
  size_t n = strlen(key);
  for (const char *found = at; (found = strstr(found, key)); found += n) {
    if (found > at && (isalnum((unsigned char)found[-1]) || found[-1] == '_')) continue;
    const char *after = found + n;
    if (*after == '"' || *after == '\'') after++;
    after += strspn(after, " \t");
    if (*after == ':') return after + 1;
  }
  return NULL;
}

static bool ends_with_key(const char *line, const char *end, const char *key) {
  size_t n = strlen(key);
  while (end > line && (end[-1] == ' ' || end[-1] == '\t')) end--;
  if (end == line || end[-1] != ':') return false;
  end--;
  if (end > line && (end[-1] == '"' || end[-1] == '\'')) end--;
  return (size_t)(end - line) >= n && memcmp(end - n, key, n) == 0 &&
         (end - n == line || !isalnum((unsigned char)end[-(ptrdiff_t)n - 1]));
}

static bool only_of(const char *from, const char *to, const char *characters) {
  for (; from < to; from++)
    if (!strchr(characters, *from)) return false;
  return true;
}

static bool wait_for_value(const place *p, const char *name, size_t n, const char *rest) {
  const char *value = after_key(rest, "value"), *text;
  size_t length;
  if (value && scalar(value, &text, &length)) {
    set(p, name, n, text, length, false);
    return true;
  }
  snprintf(p->e->pending, sizeof p->e->pending, "%.*s", (int)n, name);
  p->e->pending_line = p->line;
  return true;
}

/* One name in a line, as JSON, YAML or Python write it. */
static bool structured_at(const place *p, const char *line, const char *name, size_t n) {
  const char *before = name, *after = name + n, *text;
  size_t length;
  bool quoted = name > line && (name[-1] == '"' || name[-1] == '\'');
  char quote = quoted ? name[-1] : 0;
  if (quoted) before--;
  bool alone = only_of(line, before, " \t-{"), listed = alone;
  for (const char *c = before; c > line && !listed; c--) {
    if (c[-1] == ' ' || c[-1] == '\t') continue;
    listed = c[-1] == '[' || c[-1] == ',' || c[-1] == '{';
    break;
  }
  if (quoted && *after == '=' && listed) { /* ["NCCL_X=1", ...] */
    const char *end = strchr(after, quote);
    set(p, name, n, after + 1, end ? (size_t)(end - after - 1) : strlen(after + 1), false);
    return true;
  }
  if (quoted && *after != quote) return false;
  after += quoted;
  if (ends_with_key(line, before, "name")) return wait_for_value(p, name, n, after);
  if (quoted && before > line && before[-1] == '[' && *after == ']') { /* os.environ["NCCL_X"] = "1" */
    after += 1 + strspn(after + 1, " \t");
    if (*after != '=' || after[1] == '=' || !scalar(after + 1, &text, &length)) return false;
    set(p, name, n, text, length, true);
    return true;
  }
  after += strspn(after, " \t");
  if (*after != ':' || after[1] == ':' || (after[1] && !strchr(" \t\"'0123456789", after[1])) || !listed) return false;
  if (!scalar(after + 1, &text, &length)) return false;
  set(p, name, n, text, length, false);
  return true;
}

static bool structured(const place *p, const char *line) {
  bool any = false;
  if (!strpbrk(line, ":\"'")) return false;
  for (const char *at = line; *at; at++) {
    if (*at == '#' && (at == line || at[-1] == ' ' || at[-1] == '\t')) break;
    if (!isupper((unsigned char)*at) || (at > line && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))) continue;
    size_t n = name_length(at);
    if (of_interest(at)) any = structured_at(p, line, at, n) || any;
    if (n) at += n - 1;
  }
  return any;
}

static bool pending_value(const place *p, const char *line) {
  environment *e = p->e;
  const char *start = line + strspn(line, " \t-{\"'"), *value, *text;
  size_t length;
  if (!*e->pending || p->line - e->pending_line > PENDING_LINES || !mal_starts(start, "value")) return false;
  value = after_key(start, "value");
  if (!value || !scalar(value, &text, &length)) return false;
  set(p, e->pending, strlen(e->pending), text, length, false);
  *e->pending = 0;
  return true;
}

static bool ends_word(char c) {
  switch (c) {
  case 0:
  case ' ':
  case '\t':
  case ';':
  case '&':
  case '|':
  case '(':
  case ')': return true;
  default: return false;
  }
}

typedef enum token { TOKEN_END, TOKEN_WORD, TOKEN_SEPARATOR } token;

/* The next word of a shell's line, its quotes taken off, or what ends a command. A comment ends the line. */
static token next_token(const char **at, char *word, bool *spaced) {
  const char *c = *at + strspn(*at, " \t");
  size_t n = 0;
  *spaced = false;
  if (!*c || *c == '#') return TOKEN_END;
  if (ends_word(*c)) {
    *at = c + 1;
    return TOKEN_SEPARATOR;
  }
  char quote = 0;
  for (; *c && (quote || !ends_word(*c)); c++) {
    if (quote == '\'' ? *c == '\'' : quote == '"' && *c == '"') {
      quote = 0;
    } else if (!quote && (*c == '\'' || *c == '"')) {
      quote = *c;
    } else {
      if (*c == '\\' && quote != '\'' && c[1]) c++;
      *spaced = *spaced || *c == ' ';
      if (n + 1 < VALUE_MOST) word[n++] = *c;
    }
  }
  word[n] = 0;
  *at = c;
  return TOKEN_WORD;
}

static bool one_of(const char *word, const char *const *list) {
  for (; *list; list++)
    if (*word == **list && strcmp(word, *list) == 0) return true;
  return false;
}

/* NAME=value; false when the word is no assignment at all. */
static bool assignment(const place *p, const char *word, bool replaces) {
  size_t n = name_length(word);
  while (n && (isalnum((unsigned char)word[n]) || word[n] == '_')) n++; /* others' names may be small */
  if (!n && (isalpha((unsigned char)*word) || *word == '_'))
    while (isalnum((unsigned char)word[n]) || word[n] == '_') n++;
  if (!n || word[n] != '=') return false;
  set(p, word, n, word + n + 1, strlen(word + n + 1), replaces);
  return true;
}

/* "ALL,NCCL_X=1,NCCL_IB_HCA=mlx5_0,mlx5_1": a piece without a name goes on with the value before. */
static void exported_list(const place *p, char *list) {
  char *start = list;
  for (char *at = list;; at++) {
    if (*at && *at != ',') continue;
    size_t n = *at ? name_length(at + 1) : 0;
    if (*at && !(n && at[1 + n] == '=')) continue;
    char was = *at;
    *at = 0;
    assignment(p, start, false);
    if (!was) return;
    start = at + 1;
  }
}

/* "A=1 B=2" in one word: systemd's Environment="A=1 B=2". */
static void assignments_within(const place *p, char *text) {
  for (char *save, *w = strtok_r(text, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) assignment(p, w, false);
}

static const char *const carriers[] = {"-x", "-e",       "--env", "--envs",      "--environment",
                                       "-E", "--setenv", "-v",    "--build-arg", NULL};
static const char *const before_command[] = {"sudo", "time", "nohup", "exec", "command", "then", "do", "else",
                                             "if",   "eval", "{",     "!",    "#SBATCH", "nice", NULL};
static const char *const sets_more[] = {"export", "declare", "typeset", "readonly", "local", "env", "ENV", "ARG", NULL};
static const char *const pairs[] = {"setenv", "-genv", "-env", "ENV", NULL};

typedef struct command {
  bool begins;    /* where NAME=value sets a variable */
  bool exporting; /* after export and the like */
  bool carried;   /* after -x */
  bool unsetting, pair, dash_c, replaces;
  char name[NAME_MOST]; /* "setenv NAME", whose value follows */
} command;

static void shell(const place *p, const char *line, int depth);

/* --env=NAME=value, --export=ALL,NAME=value, -eNAME=value, Environment=NAME=value. */
static bool joined(const place *p, char *word, bool spaced) {
  static const char *const options[] = {
      "--env=", "--envs=", "--setenv=", "--build-arg=", "-x=", "Environment=", "-e", "-x"};
  if (*word != '-' && *word != 'E') return false;
  if (mal_starts(word, "--export=")) {
    exported_list(p, word + strlen("--export="));
    return true;
  }
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    char *rest = word + strlen(options[i]);
    if (!mal_starts(word, options[i]) || !name_length(rest)) continue;
    if (spaced && *options[i] == 'E')
      assignments_within(p, rest);
    else
      return assignment(p, rest, false);
    return true;
  }
  return false;
}

static void one_word(const place *p, command *c, char *word, bool spaced, bool first, int depth) {
  if (c->dash_c && spaced && depth < 3) {
    char inner[VALUE_MOST];
    snprintf(inner, sizeof inner, "%s", word);
    shell(p, inner, depth + 1);
  }
  bool after_dash_c = c->dash_c;
  c->dash_c = *word == '-' && (strcmp(word, "-c") == 0 || strcmp(word, "-lc") == 0);
  if (after_dash_c) return;
  if (*c->name) {
    set(p, c->name, strlen(c->name), word, strlen(word), true);
    *c->name = 0;
  } else if (c->unsetting) {
    if (of_interest(word)) mal_forget_variable(p->log->h, word, p->log->p->file);
  } else if (c->pair && name_length(word) && !strchr(word, '=')) {
    if (strlen(word) < sizeof c->name && of_interest(word)) snprintf(c->name, sizeof c->name, "%s", word);
    c->pair = false;
  } else if (joined(p, word, spaced)) {
    c->begins = false;
  } else if ((c->begins || c->exporting || c->carried) && assignment(p, word, c->replaces)) {
    c->carried = false;
  } else if (one_of(word, carriers)) {
    c->carried = true;
    c->begins = false;
  } else {
    bool prompt = first && (*word == '+' || strcmp(word, "$") == 0 || strcmp(word, ">") == 0 ||
                            strcmp(word, "-") == 0 || (strchr(word, '@') && word[strlen(word) - 1] == '$'));
    c->carried = false;
    c->unsetting = strcmp(word, "unset") == 0;
    c->pair = one_of(word, pairs);
    if (one_of(word, sets_more) || c->pair) {
      c->exporting = true;
      c->replaces = c->begins && strcmp(word, "env") != 0;
    } else if (*word == '-' && c->exporting) { /* declare -x */
      return;
    } else {
      c->begins = c->begins && (prompt || one_of(word, before_command));
      c->exporting = c->replaces = false;
    }
  }
}

static void shell(const place *p, const char *line, int depth) {
  char local[VALUE_MOST], *word = depth ? local : p->e->word;
  command c = {.begins = true};
  bool spaced, first = true;
  if (mal_starts(line, "#SBATCH ")) line += strlen("#SBATCH ");
  for (token t; (t = next_token(&line, word, &spaced)) != TOKEN_END; first = false) {
    if (t == TOKEN_SEPARATOR)
      c = (command){.begins = true};
    else
      one_word(p, &c, word, spaced, first, depth);
  }
}

static bool environment_line(const mal_log *log, void *state, const mal_log_line *l) {
  environment *e = state;
  place p = {log, e, l->number};
  if (!e->looked) {
    size_t head = log->p->length < 4096 ? log->p->length : 4096;
    e->looked = true;
    e->table = memmem(log->p->text, head, "busbw_gbs", strlen("busbw_gbs")) != NULL;
  }
  if (e->table || l->words & (MAL_W(INFO) | MAL_W(WARN))) return false;
  const char *own = mal_log_own(l->text, l->length);
  if (!(l->words & ~MAL_W(VALUE))) {
    pending_value(&p, own);
    return false;
  }
  /* A line that changed nothing when it was read, with nothing changed since, changes nothing. */
  uint64_t hash = mal_log_hash(0, own, true);
  unsigned changes = log->h->variable_changes;
  if (e->before[hash % LINES_KEPT].line == hash && e->before[hash % LINES_KEPT].changes == changes) return false;
  bool waited = *e->pending != 0;
  if (!structured(&p, own)) shell(&p, own, 0);
  if (!waited && !*e->pending && changes == log->h->variable_changes) {
    e->before[hash % LINES_KEPT].line = hash;
    e->before[hash % LINES_KEPT].changes = changes;
  }
  return false;
}

static bool environment_end(const mal_log *log, void *state) {
  const environment *e = state;
  if (e->found) log->h->judged[MAL_RULE_ENVIRONMENT] = true;
  return e->found > 0;
}

const mal_log_kind mal_log_environment = {.what = "environment",
                                          .wants = MAL_W(ENV_NCCL) | MAL_W(ENV_CUDA) | MAL_W(ENV_TORCH) |
                                                   MAL_W(ENV_FI) | MAL_W(ENV_OMP) | MAL_W(ENV_UCX) | MAL_W(VALUE),
                                          .state_bytes = sizeof(environment),
                                          .line = environment_line,
                                          .end = environment_end};
