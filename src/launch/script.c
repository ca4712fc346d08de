/* Commands of a shell script: assignments, conditions, loops, redirections. */
#include "launch/script_shell.h"
#include <stdlib.h>
#include <string.h>

typedef enum truth { FALSE_, TRUE_, UNKNOWN_ } truth;

/* --- commands --------------------------------------------------------------------------------------------------------- */

static void skip_line(mal_cursor *c) {
  while (c->at < c->end && *c->at != '\n') c->at++;
}

/* Blanks, continued lines and comments; lines too where `lines`. */
static void skip_space(mal_cursor *c, bool lines) {
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
static size_t assignment(const mal_cursor *c, size_t *name, bool *adds) {
  size_t n = mal_sh_name_length(c->at, c->end);
  *name = n;
  *adds = n && c->at + n + 1 < c->end && c->at[n] == '+' && c->at[n + 1] == '=';
  if (*adds) return n + 2;
  return n && c->at + n < c->end && c->at[n] == '=' ? n + 1 : 0;
}

static void read_array(mal_shell *s, mal_cursor *c, mal_words *into) {
  for (c->at++;;) {
    skip_space(c, true);
    if (c->at >= c->end) {
      mal_sh_stop(s, c, _("an array's ( is never closed."));
      return;
    }
    if (*c->at == ')') {
      c->at++;
      return;
    }
    const char *was = c->at;
    if (s->status == MAL_OK) mal_sh_read_word(s, c, into);
    if (c->at == was) c->at++; /* a sign that no array has */
    if (s->status != MAL_OK) return;
  }
}

/* c stands at an assignment. */
static void assign(mal_shell *s, mal_cursor *c, bool exported) {
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
    mal_sh_field f = {.text = {.arena = s->a}};
    mal_sh_read_word(s, c, &parts);
    for (int i = 0; i < parts.count; i++) {
      if (i) mal_sh_put(s, &f, c, " ", 1);
      mal_sh_put(s, &f, c, parts.word[i], strlen(parts.word[i]));
    }
    mal_sh_push(s, &value, f.text.text ? f.text.text : "");
  }
  if (!c->live || s->status != MAL_OK) return;
  mal_sh_variable *v = mal_sh_make(s, called);
  if (adds && (array || v->array)) {
    for (int i = 0; i < value.count; i++) mal_sh_push(s, &v->value, value.word[i]);
  } else if (adds && v->value.count) {
    mal_sh_field both = {.text = {.arena = s->a}};
    mal_sh_put(s, &both, c, v->value.word[0], strlen(v->value.word[0]));
    mal_sh_put(s, &both, c, value.word[0], strlen(value.word[0]));
    v->value.word[0] = both.text.text ? both.text.text : "";
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

static void export_named(mal_shell *s, const char *name, int line) {
  const mal_sh_variable *v = mal_sh_find(s, name);
  if (!v || !v->value.count) return;
  mal_setting *one = mal_setting_put(&s->script->exported, name, v->value.word[0]);
  one->file = s->script->file;
  one->line = line;
}

static bool is(const mal_words *w, int i, const char *word) { return i < w->count && strcmp(w->word[i], word) == 0; }

/* [ x = y ] and the like: words between the brackets. */
static const char *known(const mal_words *w, int i) { /* an unset mal_sh_variable is empty, as a mal_shell has it */
  const char *text = i < w->count ? w->word[i] : "";
  return strncmp(text, "${", 2) == 0 && strchr(text, '}') && !strchr(text, '}')[1] ? "" : text;
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
  if (w->word && to - from == 3) {
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

static void read_list(mal_shell *s, mal_cursor *c, const char *const *until);

static bool at_word(const mal_cursor *c, const char *word) {
  size_t n = strlen(word);
  return (size_t)(c->end - c->at) >= n && memcmp(c->at, word, n) == 0 &&
         (c->at + n == c->end || mal_sh_ends_word(c->at[n]));
}

static bool take_word(mal_cursor *c, const char *word) {
  if (!at_word(c, word)) return false;
  c->at += strlen(word);
  return true;
}

/* `bash -c TEXT`, eval: commands inside a word. */
static void read_inside(mal_shell *s, const mal_words *w, bool live) {
  for (int i = 0; i < w->count; i++) {
    const char *base = strrchr(w->word[i], '/');
    base = base ? base + 1 : w->word[i];
    bool shell_word = strcmp(base, "bash") == 0 || strcmp(base, "sh") == 0;
    int flag = i + 1;
    if (!shell_word || flag + 1 >= w->count || w->word[flag][0] != '-' || !strchr(w->word[flag], 'c')) continue;
    const char *text = w->word[flag + 1];
    mal_cursor c = {text, text + strlen(text), w->line, live};
    if (++s->depth > MAL_SHELL_DEPTH) {
      mal_sh_stop(s, &c, _("is nested too deeply."));
    } else {
      static const char *const none[] = {NULL};
      read_list(s, &c, none);
    }
    s->depth--;
    return;
  }
}

static void keep_command(mal_shell *s, mal_words *w, bool live) {
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

static void skip_here_document(mal_shell *s, mal_cursor *c) {
  bool tabs = c->at < c->end && *c->at == '-';
  if (tabs) c->at++;
  skip_space(c, false);
  const char *from = c->at;
  while (c->at < c->end && !mal_sh_ends_word(*c->at)) c->at++;
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
  mal_sh_stop(s, c, _("a here-document is never closed."));
}

/* < > >> 2>&1 <<END: what they name is no word of the command. */
static void skip_redirection(mal_shell *s, mal_cursor *c) {
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
    (void)mal_sh_enclosed(s, c, '(', ')');
  } else if (c->at < c->end && !mal_sh_ends_word(*c->at)) {
    mal_cursor quiet = *c;
    quiet.live = false;
    mal_sh_read_word(s, &quiet, &ignored);
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
static truth read_simple(mal_shell *s, mal_cursor *c) {
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
      mal_sh_read_word(s, c, &w);
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
static truth read_and_or(mal_shell *s, mal_cursor *c) {
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

static void expect(mal_shell *s, mal_cursor *c, const char *word) {
  skip_space(c, true);
  if (s->status == MAL_OK && !take_word(c, word)) mal_sh_stop(s, c, mal_print(s->a, _("'%s' is missing here."), word));
}

static truth read_condition(mal_shell *s, mal_cursor *c) {
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

static void read_if(mal_shell *s, mal_cursor *c) {
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
static void read_loop(mal_shell *s, mal_cursor *c, bool names) {
  static const char *const ends[] = {"done", NULL};
  if (names) {
    while (c->at < c->end && !at_word(c, "do") && s->status == MAL_OK) {
      const char *was = c->at;
      mal_words ignored = {0};
      mal_cursor quiet = *c;
      quiet.live = false;
      skip_space(&quiet, true);
      if (!at_word(&quiet, "do")) mal_sh_read_word(s, &quiet, &ignored);
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

static void skip_case(mal_shell *s, mal_cursor *c) {
  int line = c->line;
  while (c->at < c->end && !at_word(c, "esac")) {
    if (*c->at == '\n') c->line++;
    c->at++;
  }
  if (c->live)
    mal_note_add(s->a, &s->script->notes, s->script->file, line, _("case is not read: its lines are left out."));
  expect(s, c, "esac");
}

static void read_list(mal_shell *s, mal_cursor *c, const char *const *until) {
  if (++s->depth > MAL_SHELL_DEPTH) mal_sh_stop(s, c, _("is nested too deeply."));
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
static void read_directives(mal_shell *s, const char *text, const char *end) {
  int line = 1;
  mal_script *p = s->script;
  for (const char *at = text; at < end; line++) {
    const char *stop_at = memchr(at, '\n', (size_t)(end - at));
    const char *to = stop_at ? stop_at : end;
    if (to - at > 8 && memcmp(at, "#SBATCH", 7) == 0 && mal_sh_blank(at[7])) {
      mal_cursor c = {at + 7, to, line, false};
      mal_words w = {.line = line};
      for (skip_space(&c, false); c.at < c.end && s->status == MAL_OK; skip_space(&c, false)) {
        const char *was = c.at;
        mal_sh_read_word(s, &c, &w);
        if (c.at == was) c.at++;
      }
      mal_script_options(p, &w, &p->directives);
    }
    at = to + 1;
  }
}

static void set_given(mal_shell *s, const char *const *given) {
  for (; given && *given; given++) {
    const char *equals = strchr(*given, '=');
    if (!equals) continue;
    mal_sh_variable *v = mal_sh_make(s, mal_print(s->a, "%.*s", (int)(equals - *given), *given));
    v->value = (mal_words){0};
    mal_sh_push(s, &v->value, mal_script_literal(s->a, equals + 1));
  }
}

/* Words of a text that a variable holds. */
static mal_words split(mal_shell *s, const mal_cursor *c, const mal_sh_variable *v) {
  mal_words w = {.line = c->line};
  if (v->array) return v->value;
  mal_sh_field f = {.text = {.arena = s->a}};
  for (int i = 0; i < v->value.count; i++) mal_sh_put_value(s, &f, c, v->value.word[i], false, &w);
  mal_sh_end_field(s, &f, c, &w);
  return w;
}

static void find_held(mal_shell *s, const mal_cursor *c) {
  mal_script *p = s->script;
  p->held = MAL_ARRAY(s->a, mal_words, s->n_vars + 1);
  for (int i = 0; i < s->n_vars && s->status == MAL_OK; i++) {
    const mal_sh_variable *v = &s->vars[i];
    bool options = false;
    for (int k = 0; k < v->value.count; k++) options = options || strstr(v->value.word[k], "--");
    if (options) p->held[p->n_held++] = split(s, c, v);
  }
}

mal_status mal_script_parse(mal_arena *a, const char *file, const char *text, size_t length, const char *const *given,
                            mal_script *script, mal_error *e) {
  static const char *const none[] = {NULL};
  mal_shell s = {.script = script, .a = a, .e = e};
  *script = (mal_script){.a = a, .file = file, .exported = {.arena = a}, .directives = {.arena = a}};
  if (length > MAL_SCRIPT_LIMIT_BYTES) return mal_fail(e, MAL_BAD, _("%s: is larger than %d MiB."), file, 4);
  set_given(&s, given);
  read_directives(&s, text, text + length);
  mal_cursor c = {text, text + length, 1, true};
  read_list(&s, &c, none);
  find_held(&s, &c);
  return s.status;
}
