/* Words of a shell script: quotes, variables, defaults, sums. */
#include "launch/script_shell.h"
#include <stdlib.h>
#include <string.h>

enum { WORDS_MOST = 200000, WORD_BYTES = 1 << 20, TOTAL_BYTES = 32 << 20 };

void mal_sh_stop(mal_shell *s, const mal_cursor *c, const char *what) {
  if (s->status == MAL_OK) s->status = mal_fail(s->e, MAL_BAD, "%s:%d: %s", s->script->file, c->line, what);
}

void mal_sh_push(mal_shell *s, mal_words *w, const char *word) {
  if (w->count == w->room) {
    int room = w->room ? 2 * w->room : 8;
    w->word = mal_grow(s->a, w->word, (size_t)w->room, (size_t)room, sizeof *w->word);
    w->room = room;
  }
  w->word[w->count++] = word;
}

/* --- variables -------------------------------------------------------------------------------------------------------- */

mal_sh_variable *mal_sh_find(const mal_shell *s, const char *name) {
  for (int i = 0; i < s->n_vars; i++)
    if (strcmp(s->vars[i].name, name) == 0) return &s->vars[i];
  return NULL;
}

mal_sh_variable *mal_sh_make(mal_shell *s, const char *name) {
  mal_sh_variable *v = mal_sh_find(s, name);
  if (v) return v;
  if (s->n_vars == s->vars_room) {
    int room = s->vars_room ? 2 * s->vars_room : 32;
    s->vars = mal_grow(s->a, s->vars, (size_t)s->vars_room, (size_t)room, sizeof *s->vars);
    s->vars_room = room;
  }
  v = &s->vars[s->n_vars++];
  *v = (mal_sh_variable){.name = name};
  return v;
}

static bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool name_more(char c) { return name_start(c) || (c >= '0' && c <= '9'); }

size_t mal_sh_name_length(const char *at, const char *end) {
  size_t n = 0;
  if (at < end && name_start(*at))
    while (at + n < end && name_more(at[n])) n++;
  return n;
}

/* --- words ------------------------------------------------------------------------------------------------------------ */

void mal_sh_put(mal_shell *s, mal_sh_field *f, const mal_cursor *c, const char *text, size_t length) {
  f->some = true;
  s->total += length;
  if (f->text.used + length > WORD_BYTES || s->total > TOTAL_BYTES)
    mal_sh_stop(s, c, _("grows too large once its variables are put in."));
  else if (length)
    mal_write(&f->text, "%.*s", (int)length, text);
}

static void put_literal(mal_shell *s, mal_sh_field *f, const mal_cursor *c, char byte) {
  mal_sh_put(s, f, c, byte == '$' ? "$$" : &byte, byte == '$' ? 2 : 1);
}

void mal_sh_end_field(mal_shell *s, mal_sh_field *f, const mal_cursor *c, mal_words *into) {
  if (f->some && ++s->words > WORDS_MOST) mal_sh_stop(s, c, _("has too many words."));
  if (f->some && s->status == MAL_OK) mal_sh_push(s, into, f->text.text ? f->text.text : "");
  *f = (mal_sh_field){.text = {.arena = s->a}};
}

bool mal_sh_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* A value into a word: split at blanks where it is not quoted. */
void mal_sh_put_value(mal_shell *s, mal_sh_field *f, const mal_cursor *c, const char *value, bool quoted,
                      mal_words *into) {
  size_t length = strlen(value);
  if (quoted || !into) {
    mal_sh_put(s, f, c, value, length);
    return;
  }
  for (size_t i = 0; i < length && s->status == MAL_OK;) {
    if (mal_sh_blank(value[i])) {
      mal_sh_end_field(s, f, c, into);
      while (i < length && mal_sh_blank(value[i])) i++;
    } else {
      size_t n = 0;
      while (i + n < length && !mal_sh_blank(value[i + n])) n++;
      mal_sh_put(s, f, c, value + i, n);
      i += n;
    }
  }
}

static void put_open(mal_shell *s, mal_sh_field *f, const mal_cursor *c, const char *name) {
  const char *text = mal_print(s->a, "${%s}", name);
  mal_sh_put(s, f, c, text, strlen(text));
}

/* What only a running mal_shell could say. */
static void put_unknown(mal_shell *s, mal_sh_field *f, const mal_cursor *c, const char *what) {
  if (c->live)
    mal_note_add(s->a, &s->script->open, s->script->file, c->line,
                 _("%s is not run; where its value goes stands LINE_%d."), what, c->line);
  put_open(s, f, c, mal_print(s->a, "LINE_%d", c->line));
}

static void put_variable(mal_shell *s, mal_sh_field *f, const mal_cursor *c, const char *name, bool quoted, bool all,
                         mal_words *into) {
  const mal_sh_variable *v = mal_sh_find(s, name);
  if (!v) {
    put_open(s, f, c, name);
    return;
  }
  int n = all ? v->value.count : v->value.count > 0;
  for (int i = 0; i < n && s->status == MAL_OK; i++) {
    if (i > 0 && into) mal_sh_end_field(s, f, c, into);
    if (i > 0 && !into) mal_sh_put(s, f, c, " ", 1);
    mal_sh_put_value(s, f, c, v->value.word[i], quoted, into);
  }
}

static void read_dollar(mal_shell *s, mal_cursor *c, mal_sh_field *f, bool quoted, mal_words *into);

/* The text up to the closing sign, signs of its kind inside counted. c stands behind the opening one. */
char *mal_sh_enclosed(mal_shell *s, mal_cursor *c, char open, char close) {
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
  mal_sh_stop(s, c, _("what is opened here is never closed."));
  return mal_copy(s->a, "");
}

/* Text inside quotes or a default, its variables put in, as one word. */
static char *expand(mal_shell *s, const mal_cursor *from, const char *text) {
  mal_cursor c = {text, text + strlen(text), from->line, from->live};
  mal_sh_field f = {.text = {.arena = s->a}};
  if (++s->depth > MAL_SHELL_DEPTH) mal_sh_stop(s, from, _("is nested too deeply."));
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
  mal_shell *s;
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
    size_t n = mal_sh_name_length(m->at, m->at + strlen(m->at));
    const mal_sh_variable *v = n ? mal_sh_find(m->s, mal_print(m->s->a, "%.*s", (int)n, m->at)) : NULL;
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
static void read_braces(mal_shell *s, mal_cursor *c, mal_sh_field *f, bool quoted, mal_words *into) {
  const char *inside = mal_sh_enclosed(s, c, '{', '}');
  size_t n = mal_sh_name_length(inside, inside + strlen(inside));
  if (!n) n = strspn(inside, "0123456789");
  const char *name = mal_print(s->a, "%.*s", (int)n, inside), *rest = inside + n;
  bool all = strncmp(rest, "[@]", 3) == 0 || strncmp(rest, "[*]", 3) == 0;
  if (all) rest += 3;
  const mal_sh_variable *v = n ? mal_sh_find(s, name) : NULL;
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
    mal_sh_put_value(s, f, c, word, quoted, into);
    if (*how == '=' && c->live && s->status == MAL_OK) {
      mal_sh_variable *set = mal_sh_make(s, name);
      set->value = (mal_words){0};
      mal_sh_push(s, &set->value, word);
    }
  } else if (n && *how == '+') {
    if (!empty) mal_sh_put_value(s, f, c, expand(s, c, how + 1), quoted, into);
  } else if (n && *how == '?') {
    put_variable(s, f, c, name, quoted, all, into);
  } else {
    put_unknown(s, f, c, mal_print(s->a, "${%.40s}", inside));
  }
}

static void read_dollar(mal_shell *s, mal_cursor *c, mal_sh_field *f, bool quoted, mal_words *into) {
  const char *next = ++c->at;
  size_t n = mal_sh_name_length(next, c->end);
  if (n) {
    c->at += n;
    put_variable(s, f, c, mal_print(s->a, "%.*s", (int)n, next), quoted, false, into);
  } else if (next < c->end && *next == '{') {
    c->at++;
    read_braces(s, c, f, quoted, into);
  } else if (next + 1 < c->end && next[0] == '(' && next[1] == '(') {
    c->at++;
    const char *inside = mal_sh_enclosed(s, c, '(', ')');
    sum m = {s, expand(s, c, inside), true, 0};
    int64_t value = add_up(&m, 0);
    skip_blanks(&m);
    if (m.ok && !*m.at)
      mal_sh_put_value(s, f, c, mal_print(s->a, "%lld", (long long)value), true, into);
    else
      put_unknown(s, f, c, mal_print(s->a, "$((%.40s))", inside));
  } else if (next < c->end && *next == '(') {
    c->at++;
    put_unknown(s, f, c, mal_print(s->a, "$(%.40s)", mal_sh_enclosed(s, c, '(', ')')));
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

static void read_double_quotes(mal_shell *s, mal_cursor *c, mal_sh_field *f, mal_words *into) {
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
      put_unknown(s, f, c, mal_print(s->a, "`%.40s`", mal_sh_enclosed(s, c, '`', '`')));
    } else {
      if (*c->at == '\n') c->line++;
      put_literal(s, f, c, *c->at++);
    }
  }
  if (!array) f->some = true;
  if (c->at >= c->end)
    mal_sh_stop(s, c, _("a double quote is never closed."));
  else
    c->at++;
}

static void read_single_quotes(mal_shell *s, mal_cursor *c, mal_sh_field *f) {
  f->some = true;
  for (c->at++; c->at < c->end && *c->at != '\'' && s->status == MAL_OK; c->at++) {
    if (*c->at == '\n') c->line++;
    put_literal(s, f, c, *c->at);
  }
  if (c->at >= c->end)
    mal_sh_stop(s, c, _("a single quote is never closed."));
  else
    c->at++;
}

bool mal_sh_ends_word(char c) { return mal_sh_blank(c) || strchr(";|&<>()", c) != NULL; }

/* One word of the text, which may become several, or none. */
void mal_sh_read_word(mal_shell *s, mal_cursor *c, mal_words *into) {
  mal_sh_field f = {.text = {.arena = s->a}};
  while (c->at < c->end && *c->at && !mal_sh_ends_word(*c->at) && s->status == MAL_OK) {
    if (*c->at == '\'') {
      read_single_quotes(s, c, &f);
    } else if (*c->at == '"') {
      read_double_quotes(s, c, &f, into);
    } else if (*c->at == '$') {
      read_dollar(s, c, &f, false, into);
    } else if (*c->at == '`') {
      c->at++;
      put_unknown(s, &f, c, mal_print(s->a, "`%.40s`", mal_sh_enclosed(s, c, '`', '`')));
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
  mal_sh_end_field(s, &f, c, into);
}
