#include "launch/script.h"
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 16, WORDS_MOST = 200000, WORD_BYTES = 1 << 20, TOTAL_BYTES = 32 << 20 };

typedef struct variable {
  const char *name;
  mal_words value; /* one word, or those of an array */
  bool array;
} variable;

typedef enum truth { FALSE_, TRUE_, UNKNOWN_ } truth;

typedef struct shell {
  mal_script *script;
  mal_arena *a;
  mal_error *e;
  mal_status status;
  variable *vars;
  int n_vars, vars_room, depth;
  size_t total; /* bytes of all words made */
  int words;
} shell;

typedef struct cursor {
  const char *at, *end;
  int line;
  bool live; /* what is read counts; false in a branch that is not taken */
} cursor;

static void stop(shell *s, const cursor *c, const char *what) {
  if (s->status == MAL_OK) s->status = mal_fail(s->e, MAL_BAD, "%s:%d: %s", s->script->file, c->line, what);
}

static void push(shell *s, mal_words *w, const char *word) {
  if (w->count == w->room) {
    int room = w->room ? 2 * w->room : 8;
    w->word = mal_grow(s->a, w->word, (size_t)w->room, (size_t)room, sizeof *w->word);
    w->room = room;
  }
  w->word[w->count++] = word;
}

/* --- variables -------------------------------------------------------------------------------------------------------- */

static variable *find(const shell *s, const char *name) {
  for (int i = 0; i < s->n_vars; i++)
    if (strcmp(s->vars[i].name, name) == 0) return &s->vars[i];
  return NULL;
}

static variable *make(shell *s, const char *name) {
  variable *v = find(s, name);
  if (v) return v;
  if (s->n_vars == s->vars_room) {
    int room = s->vars_room ? 2 * s->vars_room : 32;
    s->vars = mal_grow(s->a, s->vars, (size_t)s->vars_room, (size_t)room, sizeof *s->vars);
    s->vars_room = room;
  }
  v = &s->vars[s->n_vars++];
  *v = (variable){.name = name};
  return v;
}

static bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool name_more(char c) { return name_start(c) || (c >= '0' && c <= '9'); }

static size_t name_length(const char *at, const char *end) {
  size_t n = 0;
  if (at < end && name_start(*at))
    while (at + n < end && name_more(at[n])) n++;
  return n;
}

/* --- words ------------------------------------------------------------------------------------------------------------ */

typedef struct field { /* being read: a word may become several, or none */
  mal_writing text;
  bool some; /* a word has begun: "" counts */
} field;

static void put_bytes(shell *s, field *f, const cursor *c, const char *text, size_t length) {
  f->some = true;
  s->total += length;
  if (f->text.used + length > WORD_BYTES || s->total > TOTAL_BYTES)
    stop(s, c, _("grows too large once its variables are put in."));
  else if (length)
    mal_write(&f->text, "%.*s", (int)length, text);
}

static void put_literal(shell *s, field *f, const cursor *c, char byte) {
  put_bytes(s, f, c, byte == '$' ? "$$" : &byte, byte == '$' ? 2 : 1);
}

static void end_field(shell *s, field *f, const cursor *c, mal_words *into) {
  if (f->some && ++s->words > WORDS_MOST) stop(s, c, _("has too many words."));
  if (f->some && s->status == MAL_OK) push(s, into, f->text.text ? f->text.text : "");
  *f = (field){.text = {.arena = s->a}};
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* A value into a word: split at blanks where it is not quoted. */
static void put_value(shell *s, field *f, const cursor *c, const char *value, bool quoted, mal_words *into) {
  size_t length = strlen(value);
  if (quoted || !into) {
    put_bytes(s, f, c, value, length);
    return;
  }
  for (size_t i = 0; i < length && s->status == MAL_OK;) {
    if (blank(value[i])) {
      end_field(s, f, c, into);
      while (i < length && blank(value[i])) i++;
    } else {
      size_t n = 0;
      while (i + n < length && !blank(value[i + n])) n++;
      put_bytes(s, f, c, value + i, n);
      i += n;
    }
  }
}

static void put_open(shell *s, field *f, const cursor *c, const char *name) {
  const char *text = mal_print(s->a, "${%s}", name);
  put_bytes(s, f, c, text, strlen(text));
}

/* What only a running shell could say. */
static void put_unknown(shell *s, field *f, const cursor *c, const char *what) {
  if (c->live)
    mal_note_add(s->a, &s->script->open, s->script->file, c->line,
                 _("%s is not run; where its value goes stands LINE_%d."), what, c->line);
  put_open(s, f, c, mal_print(s->a, "LINE_%d", c->line));
}

static void put_variable(shell *s, field *f, const cursor *c, const char *name, bool quoted, bool all,
                         mal_words *into) {
  const variable *v = find(s, name);
  if (!v) {
    put_open(s, f, c, name);
    return;
  }
  int n = all ? v->value.count : v->value.count > 0;
  for (int i = 0; i < n && s->status == MAL_OK; i++) {
    if (i > 0 && into) end_field(s, f, c, into);
    if (i > 0 && !into) put_bytes(s, f, c, " ", 1);
    put_value(s, f, c, v->value.word[i], quoted, into);
  }
}

static void read_dollar(shell *s, cursor *c, field *f, bool quoted, mal_words *into);
static void read_word(shell *s, cursor *c, mal_words *into);

/* The text up to the closing sign, signs of its kind inside counted. c stands behind the opening one. */
static char *enclosed(shell *s, cursor *c, char open, char close) {
  const char *from = c->at;
  int deep = 1;
  char quote = 0;
  for (; c->at < c->end; c->at++) {
    char byte = *c->at;
    if (byte == '\n') c->line++;
    if (byte == '\\' && quote != '\'' && c->at + 1 < c->end) {
      c->at++;
      if (*c->at == '\n') c->line++;
    } else if (quote) {
      if (byte == quote) quote = 0;
    } else if (byte == '\'' || byte == '"') {
      quote = byte;
    } else if (byte == close && --deep == 0) {
      return mal_print(s->a, "%.*s", (int)(c->at++ - from), from);
    } else if (byte == open && open != close) {
      deep++;
    }
  }
  stop(s, c, _("what is opened here is never closed."));
  return mal_copy(s->a, "");
}

/* Text inside quotes or a default, its variables put in, as one word. */
static char *expand(shell *s, const cursor *from, const char *text) {
  cursor c = {text, text + strlen(text), from->line, from->live};
  field f = {.text = {.arena = s->a}};
  if (++s->depth > DEPTH) stop(s, from, _("is nested too deeply."));
  while (c.at < c.end && s->status == MAL_OK) {
    if (*c.at == '$') {
      read_dollar(s, &c, &f, true, NULL);
    } else if (*c.at == '"' || *c.at == '\'') {
      c.at++;
    } else if (*c.at == '\\' && c.at + 1 < c.end) {
      put_literal(s, &f, &c, c.at[1]);
      c.at += 2;
    } else {
      put_literal(s, &f, &c, *c.at++);
    }
  }
  s->depth--;
  return f.text.text ? f.text.text : mal_copy(s->a, "");
}

/* --- arithmetic ------------------------------------------------------------------------------------------------------- */

typedef struct sum {
  shell *s;
  const char *at;
  bool ok;
  int depth;
} sum;

static int64_t add_up(sum *m, int level);

static void skip_blanks(sum *m) { m->at += strspn(m->at, " \t\n\r"); }

static int64_t factor(sum *m) {
  skip_blanks(m);
  if (++m->depth > 64) m->ok = false;
  int64_t value = 0;
  if (!m->ok) {
    return 0;
  } else if (*m->at == '(') {
    m->at++;
    value = add_up(m, 0);
    skip_blanks(m);
    m->ok = m->ok && *m->at == ')';
    if (m->ok) m->at++;
  } else if (*m->at == '-' || *m->at == '+') {
    bool minus = *m->at++ == '-';
    value = factor(m);
    if (minus && __builtin_sub_overflow(0, value, &value)) m->ok = false;
  } else if (*m->at >= '0' && *m->at <= '9') {
    char *end;
    value = strtoll(m->at, &end, 10);
    m->at = end;
    m->ok = value < INT64_MAX;
  } else {
    size_t n = name_length(m->at, m->at + strlen(m->at));
    const variable *v = n ? find(m->s, mal_print(m->s->a, "%.*s", (int)n, m->at)) : NULL;
    m->at += n;
    char *end = NULL;
    if (v && v->value.count) value = strtoll(v->value.word[0], &end, 10);
    m->ok = end && end != v->value.word[0] && !*end;
  }
  m->depth--;
  return value;
}

/* level 0: + and -; 1: * / and %. */
static int64_t add_up(sum *m, int level) {
  int64_t x = level ? factor(m) : add_up(m, 1);
  for (skip_blanks(m); m->ok && *m->at && strchr(level ? "*/%" : "+-", *m->at); skip_blanks(m)) {
    char sign = *m->at++;
    int64_t y = level ? factor(m) : add_up(m, 1);
    if (sign == '+' && __builtin_add_overflow(x, y, &x)) m->ok = false;
    if (sign == '-' && __builtin_sub_overflow(x, y, &x)) m->ok = false;
    if (sign == '*' && __builtin_mul_overflow(x, y, &x)) m->ok = false;
    if (sign == '/' || sign == '%') {
      if (y == 0 || y == -1)
        m->ok = m->ok && y == -1 && sign == '%';
      else
        x = sign == '/' ? x / y : x % y;
      if (y == -1) x = 0;
    }
  }
  return x;
}

/* --- dollars ---------------------------------------------------------------------------------------------------------- */

/* ${NAME}, ${NAME[@]}, ${NAME:-other} and the like; everything else between braces stays open. */
static void read_braces(shell *s, cursor *c, field *f, bool quoted, mal_words *into) {
  const char *inside = enclosed(s, c, '{', '}');
  size_t n = name_length(inside, inside + strlen(inside));
  if (!n) n = strspn(inside, "0123456789");
  const char *name = mal_print(s->a, "%.*s", (int)n, inside), *rest = inside + n;
  bool all = strncmp(rest, "[@]", 3) == 0 || strncmp(rest, "[*]", 3) == 0;
  if (all) rest += 3;
  const variable *v = n ? find(s, name) : NULL;
  bool empty = !v || (*rest == ':' && (!v->value.count || !*v->value.word[0]));
  const char *how = *rest == ':' ? rest + 1 : rest;
  if (n && !*rest) {
    if (!v && all) return; /* an array that nobody filled */
    put_variable(s, f, c, name, quoted, all, into);
  } else if (n && (*how == '-' || *how == '=')) {
    if (!empty) {
      put_variable(s, f, c, name, quoted, all, into);
      return;
    }
    const char *word = expand(s, c, how + 1);
    put_value(s, f, c, word, quoted, into);
    if (*how == '=' && c->live && s->status == MAL_OK) {
      variable *set = make(s, name);
      set->value = (mal_words){0};
      push(s, &set->value, word);
    }
  } else if (n && *how == '+') {
    if (!empty) put_value(s, f, c, expand(s, c, how + 1), quoted, into);
  } else if (n && *how == '?') {
    put_variable(s, f, c, name, quoted, all, into);
  } else {
    put_unknown(s, f, c, mal_print(s->a, "${%.40s}", inside));
  }
}

static void read_dollar(shell *s, cursor *c, field *f, bool quoted, mal_words *into) {
  const char *next = ++c->at;
  size_t n = name_length(next, c->end);
  if (n) {
    c->at += n;
    put_variable(s, f, c, mal_print(s->a, "%.*s", (int)n, next), quoted, false, into);
  } else if (next < c->end && *next == '{') {
    c->at++;
    read_braces(s, c, f, quoted, into);
  } else if (next + 1 < c->end && next[0] == '(' && next[1] == '(') {
    c->at++;
    const char *inside = enclosed(s, c, '(', ')');
    sum m = {s, expand(s, c, inside), true, 0};
    int64_t value = add_up(&m, 0);
    skip_blanks(&m);
    if (m.ok && !*m.at)
      put_value(s, f, c, mal_print(s->a, "%lld", (long long)value), true, into);
    else
      put_unknown(s, f, c, mal_print(s->a, "$((%.40s))", inside));
  } else if (next < c->end && *next == '(') {
    c->at++;
    put_unknown(s, f, c, mal_print(s->a, "$(%.40s)", enclosed(s, c, '(', ')')));
  } else if (next < c->end && *next >= '0' && *next <= '9') {
    c->at++;
    put_open(s, f, c, mal_print(s->a, "%c", *next));
  } else if (next < c->end && (*next == '@' || *next == '*')) {
    c->at++; /* the script's own arguments: none are known */
  } else if (next < c->end && strchr("?#$!-", *next)) {
    c->at++;
    put_unknown(s, f, c, mal_print(s->a, "$%c", *next));
  } else {
    put_literal(s, f, c, '$');
  }
}

static void read_double_quotes(shell *s, cursor *c, field *f, mal_words *into) {
  c->at++;
  bool array = c->at + 2 < c->end && c->at[0] == '$';
  f->some = f->some || !array; /* "${NONE[@]}" is no word at all */
  while (c->at < c->end && *c->at != '"' && s->status == MAL_OK) {
    if (*c->at == '$') {
      const char *was = c->at;
      read_dollar(s, c, f, true, into);
      array = array && c->at - was > 3 && (c->at[-2] == ']' || was[1] == '@');
    } else if (*c->at == '\\' && c->at + 1 < c->end && strchr("\"\\$`\n", c->at[1])) {
      if (c->at[1] == '\n')
        c->line++;
      else
        put_literal(s, f, c, c->at[1]);
      c->at += 2;
    } else if (*c->at == '`') {
      c->at++;
      put_unknown(s, f, c, mal_print(s->a, "`%.40s`", enclosed(s, c, '`', '`')));
    } else {
      if (*c->at == '\n') c->line++;
      put_literal(s, f, c, *c->at++);
    }
  }
  if (!array) f->some = true;
  if (c->at >= c->end)
    stop(s, c, _("a double quote is never closed."));
  else
    c->at++;
}

static void read_single_quotes(shell *s, cursor *c, field *f) {
  f->some = true;
  for (c->at++; c->at < c->end && *c->at != '\'' && s->status == MAL_OK; c->at++) {
    if (*c->at == '\n') c->line++;
    put_literal(s, f, c, *c->at);
  }
  if (c->at >= c->end)
    stop(s, c, _("a single quote is never closed."));
  else
    c->at++;
}

static bool ends_word(char c) { return blank(c) || strchr(";|&<>()", c) != NULL; }

/* One word of the text, which may become several, or none. */
static void read_word(shell *s, cursor *c, mal_words *into) {
  field f = {.text = {.arena = s->a}};
  while (c->at < c->end && *c->at && !ends_word(*c->at) && s->status == MAL_OK) {
    if (*c->at == '\'') {
      read_single_quotes(s, c, &f);
    } else if (*c->at == '"') {
      read_double_quotes(s, c, &f, into);
    } else if (*c->at == '$') {
      read_dollar(s, c, &f, false, into);
    } else if (*c->at == '`') {
      c->at++;
      put_unknown(s, &f, c, mal_print(s->a, "`%.40s`", enclosed(s, c, '`', '`')));
    } else if (*c->at == '\\' && c->at + 1 < c->end) {
      if (c->at[1] == '\n')
        c->line++;
      else
        put_literal(s, &f, c, c->at[1]);
      c->at += 2;
    } else {
      put_literal(s, &f, c, *c->at++);
    }
  }
  end_field(s, &f, c, into);
}

/* --- commands --------------------------------------------------------------------------------------------------------- */

static void skip_line(cursor *c) {
  while (c->at < c->end && *c->at != '\n') c->at++;
}

/* Blanks, continued lines and comments; lines too where `lines`. */
static void skip_space(cursor *c, bool lines) {
  while (c->at < c->end) {
    if (*c->at == '\\' && c->at + 1 < c->end && c->at[1] == '\n') {
      c->at += 2;
      c->line++;
    } else if (*c->at == '\\' && c->at + 2 < c->end && c->at[1] == '\r' && c->at[2] == '\n') {
      c->at += 3;
      c->line++;
    } else if (*c->at == '#') {
      skip_line(c);
    } else if (*c->at == '\n' && lines) {
      c->at++;
      c->line++;
    } else if (*c->at == ' ' || *c->at == '\t' || *c->at == '\r' || *c->at == '\0') {
      c->at++;
    } else {
      return;
    }
  }
}

/* NAME=, NAME+= or NAME[i]= at c: the length up to and with '='; 0: none. */
static size_t assignment(const cursor *c, size_t *name, bool *adds) {
  size_t n = name_length(c->at, c->end);
  *name = n;
  *adds = n && c->at + n + 1 < c->end && c->at[n] == '+' && c->at[n + 1] == '=';
  if (*adds) return n + 2;
  return n && c->at + n < c->end && c->at[n] == '=' ? n + 1 : 0;
}

static void read_array(shell *s, cursor *c, mal_words *into) {
  for (c->at++;;) {
    skip_space(c, true);
    if (c->at >= c->end) {
      stop(s, c, _("an array's ( is never closed."));
      return;
    }
    if (*c->at == ')') {
      c->at++;
      return;
    }
    const char *was = c->at;
    if (s->status == MAL_OK) read_word(s, c, into);
    if (c->at == was) c->at++; /* a sign that no array has */
    if (s->status != MAL_OK) return;
  }
}

/* c stands at an assignment. */
static void assign(shell *s, cursor *c, bool exported) {
  size_t name;
  bool adds;
  size_t n = assignment(c, &name, &adds);
  const char *called = mal_print(s->a, "%.*s", (int)name, c->at);
  int line = c->line;
  mal_words value = {0};
  c->at += n;
  bool array = c->at < c->end && *c->at == '(';
  if (array) {
    read_array(s, c, &value);
  } else { /* an assignment does not split its value */
    mal_words parts = {0};
    field f = {.text = {.arena = s->a}};
    read_word(s, c, &parts);
    for (int i = 0; i < parts.count; i++) {
      if (i) put_bytes(s, &f, c, " ", 1);
      put_bytes(s, &f, c, parts.word[i], strlen(parts.word[i]));
    }
    push(s, &value, f.text.text ? f.text.text : "");
  }
  if (!c->live || s->status != MAL_OK) return;
  variable *v = make(s, called);
  if (adds && (array || v->array)) {
    for (int i = 0; i < value.count; i++) push(s, &v->value, value.word[i]);
  } else if (adds && v->value.count) {
    size_t length = strlen(v->value.word[0]) + strlen(value.word[0]);
    s->total += length;
    if (length > WORD_BYTES || s->total > TOTAL_BYTES)
      stop(s, c, _("grows too large once its variables are put in."));
    else
      v->value.word[0] = mal_print(s->a, "%s%s", v->value.word[0], value.word[0]);
  } else {
    v->value = value;
  }
  v->array = array || (adds && v->array);
  if (exported && v->value.count && s->status == MAL_OK) {
    mal_setting *one = mal_setting_put(&s->script->exported, called, v->value.word[0]);
    one->file = s->script->file;
    one->line = line;
  }
}

static void export_named(shell *s, const char *name, int line) {
  const variable *v = find(s, name);
  if (!v || !v->value.count) return;
  mal_setting *one = mal_setting_put(&s->script->exported, name, v->value.word[0]);
  one->file = s->script->file;
  one->line = line;
}

static bool is(const mal_words *w, int i, const char *word) { return i < w->count && strcmp(w->word[i], word) == 0; }

/* [ x = y ] and the like: words between the brackets. */
static const char *known(const mal_words *w, int i) { /* an unset variable is empty, as a shell has it */
  const char *text = i < w->count ? w->word[i] : "";
  return text[0] == '$' && text[1] == '{' && strchr(text, '}') && !strchr(text, '}')[1] ? "" : text;
}

static truth judge(const mal_words *w) {
  bool single = is(w, 0, "["), both = is(w, 0, "[["), plain = is(w, 0, "test");
  if (!single && !both && !plain) return is(w, 0, "true") ? TRUE_ : is(w, 0, "false") ? FALSE_ : UNKNOWN_;
  int from = 1, to = plain ? w->count : w->count - 1;
  bool not = is(w, from, "!");
  from += not ;
  truth t = UNKNOWN_;
  if (to - from == 1) t = *known(w, from) ? TRUE_ : FALSE_;
  if (to - from == 2 && is(w, from, "-n")) t = *known(w, from + 1) ? TRUE_ : FALSE_;
  if (to - from == 2 && is(w, from, "-z")) t = *known(w, from + 1) ? FALSE_ : TRUE_;
  if (to - from == 3) {
    static const char *const signs[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    const char *x = known(w, from), *y = known(w, from + 2), *sign = w->word[from + 1];
    if (strcmp(sign, "=") == 0 || strcmp(sign, "==") == 0)
      t = strpbrk(y, "*?[") ? UNKNOWN_ : (truth)(strcmp(x, y) == 0);
    if (strcmp(sign, "!=") == 0) t = strpbrk(y, "*?[") ? UNKNOWN_ : (truth)(strcmp(x, y) != 0);
    char *ex, *ey;
    long long a = strtoll(x, &ex, 10), b = strtoll(y, &ey, 10);
    const bool held[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    for (int i = 0; i < 6; i++)
      if (strcmp(sign, signs[i]) == 0 && ex != x && ey != y && !*ex && !*ey) t = (truth)held[i];
  }
  return not &&t != UNKNOWN_ ? (truth)!t : t;
}

static void read_list(shell *s, cursor *c, const char *const *until);

static bool at_word(const cursor *c, const char *word) {
  size_t n = strlen(word);
  return (size_t)(c->end - c->at) >= n && memcmp(c->at, word, n) == 0 && (c->at + n == c->end || ends_word(c->at[n]));
}

static bool take_word(cursor *c, const char *word) {
  if (!at_word(c, word)) return false;
  c->at += strlen(word);
  return true;
}

/* `bash -c TEXT`, eval: commands inside a word. */
static void read_inside(shell *s, const mal_words *w, bool live) {
  for (int i = 0; i < w->count; i++) {
    const char *base = strrchr(w->word[i], '/');
    base = base ? base + 1 : w->word[i];
    bool shell_word = strcmp(base, "bash") == 0 || strcmp(base, "sh") == 0;
    int flag = i + 1;
    if (!shell_word || flag + 1 >= w->count || w->word[flag][0] != '-' || !strchr(w->word[flag], 'c')) continue;
    const char *text = w->word[flag + 1];
    cursor c = {text, text + strlen(text), w->line, live};
    if (++s->depth > DEPTH) {
      stop(s, &c, _("is nested too deeply."));
    } else {
      static const char *const none[] = {NULL};
      read_list(s, &c, none);
    }
    s->depth--;
    return;
  }
}

static void keep_command(shell *s, mal_words *w, bool live) {
  mal_script *p = s->script;
  if (!w->count || !live || s->status != MAL_OK) return;
  if (p->n_commands == p->commands_room) {
    int room = p->commands_room ? 2 * p->commands_room : 16;
    p->commands = mal_grow(s->a, p->commands, (size_t)p->commands_room, (size_t)room, sizeof *p->commands);
    p->commands_room = room;
  }
  p->commands[p->n_commands++] = *w;
  read_inside(s, w, live);
}

static void skip_here_document(shell *s, cursor *c) {
  bool tabs = c->at < c->end && *c->at == '-';
  if (tabs) c->at++;
  skip_space(c, false);
  const char *from = c->at;
  while (c->at < c->end && !ends_word(*c->at)) c->at++;
  char mark[128];
  size_t n = 0;
  for (; from < c->at; from++)
    if (!strchr("'\"\\", *from) && n + 1 < sizeof mark) mark[n++] = *from;
  mark[n] = '\0';
  skip_line(c);
  while (c->at < c->end) {
    c->at++;
    c->line++;
    const char *line = c->at;
    while (tabs && line < c->end && *line == '\t') line++;
    const char *stop_at = memchr(line, '\n', (size_t)(c->end - line));
    size_t length = (size_t)((stop_at ? stop_at : c->end) - line);
    c->at = line + length;
    if (length == n && memcmp(line, mark, n) == 0) return;
  }
  stop(s, c, _("a here-document is never closed."));
}

/* < > >> 2>&1 <<END: what they name is no word of the command. */
static void skip_redirection(shell *s, cursor *c) {
  bool here = c->at + 1 < c->end && c->at[0] == '<' && c->at[1] == '<' && !(c->at + 2 < c->end && c->at[2] == '<');
  if (here) {
    c->at += 2;
    skip_here_document(s, c);
    return;
  }
  while (c->at < c->end && strchr("<>&|", *c->at)) c->at++;
  skip_space(c, false);
  mal_words ignored = {0};
  if (c->at < c->end && *c->at == '(') { /* >(tee log) */
    c->at++;
    (void)enclosed(s, c, '(', ')');
  } else if (c->at < c->end && !ends_word(*c->at)) {
    cursor quiet = *c;
    quiet.live = false;
    read_word(s, &quiet, &ignored);
    c->at = quiet.at;
    c->line = quiet.line;
  }
}

static bool declares(const mal_words *w) {
  static const char *const words[] = {"export", "declare", "local", "readonly", "typeset"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (is(w, 0, words[i])) return true;
  return false;
}

/* One simple command, up to what ends it; returns whether it succeeded as far as one can tell. */
static truth read_simple(shell *s, cursor *c) {
  mal_words w = {.line = c->line};
  size_t name;
  bool adds, assigned = false;
  while (c->at < c->end && s->status == MAL_OK) {
    skip_space(c, false);
    if (c->at >= c->end || *c->at == '\n' || *c->at == ';' || *c->at == '|' || *c->at == ')') break;
    if (*c->at == '&' && !(c->at + 1 < c->end && c->at[1] == '>')) break;
    bool inside = is(&w, 0, "[[");
    if (inside && strchr("<>&|()", *c->at)) {
      break;
    } else if (strchr("<>&", *c->at)) {
      skip_redirection(s, c);
    } else if (*c->at == '(') {
      c->at++;
      if (w.count == 0) break; /* a subshell: its commands are read as the list goes on */
      if (c->at < c->end && *c->at == ')') {
        c->at++; /* name(): a function, its body is read where it stands */
        return TRUE_;
      }
    } else if ((w.count == 0 || declares(&w)) && assignment(c, &name, &adds)) {
      assign(s, c, declares(&w) && is(&w, 0, "export"));
      assigned = true;
    } else {
      const char *was = c->at;
      int before = w.count;
      if (c->at + 1 < c->end && strchr("0123456789", *c->at) && strchr("<>", c->at[1])) {
        c->at++;
        continue;
      }
      read_word(s, c, &w);
      if (c->at == was) c->at++;
      if (is(&w, 0, "export") && w.count > 1 && before < w.count && c->live)
        export_named(s, w.word[w.count - 1], c->line);
    }
  }
  truth t = w.count || !assigned ? judge(&w) : TRUE_;
  if (!declares(&w) && !is(&w, 0, "[") && !is(&w, 0, "[[")) keep_command(s, &w, c->live);
  return t;
}

/* Commands up to && and || and what ends a line: whether the last succeeded. */
static truth read_and_or(shell *s, cursor *c) {
  bool was = c->live;
  skip_space(c, false);
  bool not = take_word(c, "!");
  truth t = read_simple(s, c);
  if (not &&t != UNKNOWN_) t = (truth)!t;
  while (c->at + 1 < c->end && s->status == MAL_OK) {
    skip_space(c, false);
    if (c->at + 1 >= c->end) break;
    bool and = c->at[0] == '&' && c->at[1] == '&', or = c->at[0] == '|' && c->at[1] == '|';
    bool pipe = c->at[0] == '|' && ! or ;
    if (!and&&! or &&!pipe) break;
    c->at += pipe ? 1 : 2;
    skip_space(c, true);
    if (pipe) {
      read_simple(s, c);
      t = UNKNOWN_;
      continue;
    }
    c->live = was && !(and&&t == FALSE_) && !(or &&t == TRUE_);
    truth next = read_simple(s, c);
    if (and) t = t == FALSE_ || next == FALSE_ ? FALSE_ : t == TRUE_ && next == TRUE_ ? TRUE_ : UNKNOWN_;
    if (or) t = t == TRUE_ || next == TRUE_ ? TRUE_ : t == FALSE_ && next == FALSE_ ? FALSE_ : UNKNOWN_;
  }
  c->live = was;
  return t;
}

static void expect(shell *s, cursor *c, const char *word) {
  skip_space(c, true);
  if (s->status == MAL_OK && !take_word(c, word)) stop(s, c, mal_print(s->a, _("'%s' is missing here."), word));
}

static truth read_condition(shell *s, cursor *c) {
  truth t = UNKNOWN_;
  while (s->status == MAL_OK && c->at < c->end) {
    skip_space(c, true);
    while (c->at < c->end && (*c->at == ';' || *c->at == '\n')) {
      c->at++;
      skip_space(c, true);
    }
    if (at_word(c, "then") || at_word(c, "do") || c->at >= c->end) break;
    const char *was = c->at;
    t = read_and_or(s, c);
    if (c->at == was) c->at++;
  }
  return t;
}

static void read_if(shell *s, cursor *c) {
  static const char *const ends[] = {"elif", "else", "fi", NULL};
  bool was = c->live, done = false;
  for (;;) {
    int line = c->line;
    c->live = was && !done;
    truth t = read_condition(s, c);
    expect(s, c, "then");
    bool doubt = t == UNKNOWN_ && c->live;
    const char *from = c->at;
    c->live = was && !done && t == TRUE_;
    done = done || t == TRUE_;
    read_list(s, c, ends);
    if (doubt && memmem(from, (size_t)(c->at - from), "--", 2)) /* options hang on it */
      mal_note_add(s->a, &s->script->notes, s->script->file, line,
                   _("what this condition decides is not known here: its lines are left out."));
    if (take_word(c, "elif") && s->status == MAL_OK) continue;
    if (take_word(c, "else")) {
      c->live = was && !done;
      read_list(s, c, ends);
    }
    c->live = was;
    expect(s, c, "fi");
    return;
  }
}

/* for, while, until: the body is read once. */
static void read_loop(shell *s, cursor *c, bool names) {
  static const char *const ends[] = {"done", NULL};
  if (names) {
    while (c->at < c->end && !at_word(c, "do") && s->status == MAL_OK) {
      const char *was = c->at;
      mal_words ignored = {0};
      cursor quiet = *c;
      quiet.live = false;
      skip_space(&quiet, true);
      if (!at_word(&quiet, "do")) read_word(s, &quiet, &ignored);
      if (quiet.at == was) quiet.at++;
      c->at = quiet.at;
      c->line = quiet.line;
    }
  } else {
    read_condition(s, c);
  }
  expect(s, c, "do");
  read_list(s, c, ends);
  expect(s, c, "done");
}

static void skip_case(shell *s, cursor *c) {
  int line = c->line;
  while (c->at < c->end && !at_word(c, "esac")) {
    if (*c->at == '\n') c->line++;
    c->at++;
  }
  if (c->live)
    mal_note_add(s->a, &s->script->notes, s->script->file, line, _("case is not read: its lines are left out."));
  expect(s, c, "esac");
}

static void read_list(shell *s, cursor *c, const char *const *until) {
  if (++s->depth > DEPTH) stop(s, c, _("is nested too deeply."));
  while (s->status == MAL_OK) {
    skip_space(c, true);
    while (c->at < c->end && strchr(";&){}\n", *c->at)) {
      if (*c->at == '\n') c->line++;
      c->at++;
      skip_space(c, true);
    }
    if (c->at >= c->end) break;
    bool over = false;
    for (int i = 0; until[i]; i++) over = over || at_word(c, until[i]);
    if (over) break;
    const char *was = c->at;
    if (take_word(c, "if"))
      read_if(s, c);
    else if (take_word(c, "for"))
      read_loop(s, c, true);
    else if (take_word(c, "while") || take_word(c, "until"))
      read_loop(s, c, false);
    else if (take_word(c, "case"))
      skip_case(s, c);
    else if (!take_word(c, "function"))
      read_and_or(s, c);
    if (c->at == was) c->at++;
  }
  s->depth--;
}

/* --- the file --------------------------------------------------------------------------------------------------------- */

/* Lines "#SBATCH --nodes=4 # why": before the first command, as sbatch has it. */
static void read_directives(shell *s, const char *text, const char *end) {
  int line = 1;
  mal_script *p = s->script;
  for (const char *at = text; at < end; line++) {
    const char *stop_at = memchr(at, '\n', (size_t)(end - at));
    const char *to = stop_at ? stop_at : end;
    if (to - at > 8 && memcmp(at, "#SBATCH", 7) == 0 && blank(at[7])) {
      cursor c = {at + 7, to, line, false};
      mal_words w = {.line = line};
      for (skip_space(&c, false); c.at < c.end && s->status == MAL_OK; skip_space(&c, false)) {
        const char *was = c.at;
        read_word(s, &c, &w);
        if (c.at == was) c.at++;
      }
      mal_script_options(p, &w, &p->directives);
    }
    at = to + 1;
  }
}

static void set_given(shell *s, const char *const *given) {
  for (; given && *given; given++) {
    const char *equals = strchr(*given, '=');
    if (!equals) continue;
    variable *v = make(s, mal_print(s->a, "%.*s", (int)(equals - *given), *given));
    v->value = (mal_words){0};
    push(s, &v->value, mal_script_literal(s->a, equals + 1));
  }
}

/* Words of a text that a variable holds. */
static mal_words split(shell *s, const cursor *c, const variable *v) {
  mal_words w = {.line = c->line};
  if (v->array) return v->value;
  field f = {.text = {.arena = s->a}};
  for (int i = 0; i < v->value.count; i++) put_value(s, &f, c, v->value.word[i], false, &w);
  end_field(s, &f, c, &w);
  return w;
}

static void find_held(shell *s, const cursor *c) {
  mal_script *p = s->script;
  p->held = MAL_ARRAY(s->a, mal_words, s->n_vars + 1);
  for (int i = 0; i < s->n_vars && s->status == MAL_OK; i++) {
    const variable *v = &s->vars[i];
    bool options = false;
    for (int k = 0; k < v->value.count; k++) options = options || strstr(v->value.word[k], "--");
    if (options) p->held[p->n_held++] = split(s, c, v);
  }
}

mal_status mal_script_parse(mal_arena *a, const char *file, const char *text, size_t length, const char *const *given,
                            mal_script *script, mal_error *e) {
  static const char *const none[] = {NULL};
  shell s = {.script = script, .a = a, .e = e};
  *script = (mal_script){.a = a, .file = file, .exported = {.arena = a}, .directives = {.arena = a}};
  if (length > MAL_SCRIPT_LIMIT_BYTES) return mal_fail(e, MAL_BAD, _("%s: is larger than %d MiB."), file, 4);
  set_given(&s, given);
  read_directives(&s, text, text + length);
  cursor c = {text, text + length, 1, true};
  read_list(&s, &c, none);
  find_held(&s, &c);
  return s.status;
}

/* --- words out ---------------------------------------------------------------------------------------------------------- */

char *mal_script_literal(mal_arena *a, const char *text) {
  char *out = mal_alloc(a, 2 * strlen(text) + 1), *to = out;
  for (; *text; text++) {
    if (*text == '$') *to++ = '$';
    *to++ = *text;
  }
  return out;
}

char *mal_script_word(mal_arena *a, const char *word) {
  static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=,.:/+@%";
  if (*word && *word != '=' && strspn(word, safe) == strlen(word)) return mal_copy(a, word);
  char *out = mal_alloc(a, 4 * strlen(word) + 3), *to = out;
  bool open = false; /* inside single quotes */
  for (const char *at = word; *at;) {
    size_t n = at[0] == '$' && at[1] == '{' ? strcspn(at, "}") : 0;
    bool name = n && at[n] && (name_length(at + 2, at + n) == n - 2 || strspn(at + 2, "0123456789") == n - 2);
    if (name && n > 2) {
      if (open) *to++ = '\'';
      open = false;
      *to++ = '"';
      memcpy(to, at, n + 1);
      to += n + 1;
      *to++ = '"';
      at += n + 1;
      continue;
    }
    if (!open) *to++ = '\'';
    open = true;
    if (at[0] == '$' && at[1] == '$') at++;
    if (*at == '\'') {
      memcpy(to, "'\\''", 4);
      to += 4;
    } else {
      *to++ = *at;
    }
    at++;
  }
  if (open || to == out) {
    if (!open) *to++ = '\'';
    *to++ = '\'';
  }
  return out;
}

void mal_script_options(const mal_script *script, const mal_words *command, mal_settings *into) {
  mal_setting *now = NULL;
  mal_words values = {0};
  shell s = {.a = into->arena};
  for (int i = 0; i <= command->count; i++) {
    const char *word = i < command->count ? command->word[i] : "--";
    bool option = word[0] == '-' && ((word[1] == '-') || (name_start(word[1]) && !word[2]) || i == command->count);
    if (option && now) {
      now->values = values.word;
      now->n_values = values.count;
      values = (mal_words){0};
    }
    if (option && i < command->count && word[1] && strcmp(word, "--") != 0) {
      const char *equals = strchr(word, '=');
      char *key = equals ? mal_print(into->arena, "%.*s", (int)(equals - word), word) : mal_copy(into->arena, word);
      now = mal_setting_add(into, key, script->file, command->line);
      if (equals) push(&s, &values, mal_copy(into->arena, equals + 1));
    } else if (option) {
      now = NULL;
    } else if (now) {
      push(&s, &values, word);
    }
  }
}
