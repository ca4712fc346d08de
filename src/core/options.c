/* The table is the only place that knows an option: parsing, setting by key and help all read it. */
#include "core/options.h"
#include "core/suggest.h"
#include "core/units.h"
#include "core/utf8.h"
#include <stdio.h>
#include <string.h>

static bool same_name(const char *a, const char *b, size_t length) {
  size_t i = 0;
  for (; i < length && a[i]; i++)
    if ((b[i] == '_' ? '-' : b[i]) != a[i]) return false;
  return i == length && !a[i];
}

static const mal_option *by_name(const mal_option *table, size_t count, const char *name, size_t length) {
  for (size_t i = 0; i < count; i++)
    if (same_name(table[i].name, name, length)) return &table[i];
  return NULL;
}

static const mal_option *by_letter(const mal_option *table, size_t count, char letter) {
  for (size_t i = 0; i < count; i++)
    if (letter && table[i].letter == letter) return &table[i];
  return NULL;
}

const mal_option *mal_option_named(const mal_option *table, size_t count, const char *name) {
  return by_name(table, count, name, strlen(name));
}

static mal_status unknown(const mal_option *table, size_t count, const char *dashes, const char *name, size_t length,
                          mal_error *e) {
  enum { MOST = 256 };
  const char *names[MOST];
  char word[128], near[256];
  snprintf(word, sizeof word, "%.*s", length > 100 ? 100 : (int)length, name);
  if (count > MOST) count = MOST;
  for (size_t i = 0; i < count; i++) names[i] = table[i].name;
  mal_suggest(word, names, count, near, sizeof near);
  if (*near) return mal_fail(e, MAL_BAD, _("There is no option %s%s. Nearest: %s."), dashes, word, near);
  return mal_fail(e, MAL_BAD, _("There is no option %s%s. See --help for those there are."), dashes, word);
}

static mal_status set_flag(const char *what, const char *value, bool *into, mal_error *e) {
  static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
  for (int i = 0; i < 8; i++)
    if (strcmp(value, words[i]) == 0) {
      *into = i & 1;
      return MAL_OK;
    }
  return mal_fail(e, MAL_BAD, _("%s: '%.60s' is neither true nor false."), what, value);
}

static bool is_dash(char c) { return c == '-' || c == '_'; }

/* Without the dashes inside them the same: "adamw8bit" is "adamw-8bit", but "-1" is not "1". */
static bool same_letters(const char *a, const char *b) {
  if (is_dash(*b) || (*b && is_dash(b[strlen(b) - 1]))) return false;
  for (;; a++, b++) {
    while (is_dash(*a)) a++;
    while (is_dash(*b)) b++;
    if (*a != *b) return false;
    if (!*a) return true;
  }
}

static mal_status set_choice(const mal_option *o, const char *what, const char *value, int *into, mal_error *e) {
  char all[512] = "", near[128];
  size_t count = 0, used = 0;
  for (; o->choices[count]; count++) {
    if (same_letters(o->choices[count], value)) {
      *into = (int)count;
      return MAL_OK;
    }
    if (used < sizeof all)
      used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", count ? ", " : "", o->choices[count]);
  }
  mal_suggest(value, o->choices, count, near, sizeof near);
  if (*near) return mal_fail(e, MAL_BAD, _("%s: '%.60s' is not one of %s. Nearest: %s."), what, value, all, near);
  return mal_fail(e, MAL_BAD, _("%s: '%.60s' is not one of %s."), what, value, all);
}

static mal_status set_positive(const char *what, const char *value, int64_t *into, mal_error *e) {
  int64_t n;
  if (*value == '-' && value[1])
    return mal_fail(e, MAL_BAD, _("%s: '%.60s' is negative; give 1 or more, or leave it out."), what, value);
  mal_status status = mal_parse_count(value, what, &n, e);
  if (status) return status;
  if (n < 1) return mal_fail(e, MAL_BAD, _("%s: '%.60s' is nothing; give 1 or more, or leave it out."), what, value);
  *into = n;
  return MAL_OK;
}

static mal_status set_number(const char *what, const char *value, double *into, mal_error *e) {
  double x;
  mal_status status = mal_parse_number(value, what, &x, e);
  if (status) return status;
  if (x < 0) return mal_fail(e, MAL_BAD, _("%s: '%.60s' is negative; it must be at least 0."), what, value);
  *into = x;
  return MAL_OK;
}

static mal_status set_amount(const mal_option *o, const char *what, const char *value, double *into, mal_error *e) {
  double x;
  mal_status status = mal_parse_quantity(value, o->unit, what, &x, e);
  if (status) return status;
  if (!(x > 0))
    return mal_fail(e, MAL_BAD, _("%s: '%.60s' is nothing; give more than 0, or leave it out."), what, value);
  *into = x;
  return MAL_OK;
}

size_t mal_option_size(const mal_option *o) {
  switch (o->kind) {
  case MAL_OPT_FLAG: return sizeof(bool);
  case MAL_OPT_TEXT: return sizeof(const char *);
  case MAL_OPT_CHOICE: return sizeof(int);
  case MAL_OPT_COUNT:
  case MAL_OPT_POSITIVE: return sizeof(int64_t);
  default: return sizeof(double);
  }
}

bool mal_option_same(const mal_option *o, const void *x, const void *y) {
  const char *a = (const char *)x + o->offset, *b = (const char *)y + o->offset;
  if (o->kind != MAL_OPT_TEXT) return memcmp(a, b, mal_option_size(o)) == 0;
  const char *one = *(const char *const *)(const void *)a, *other = *(const char *const *)(const void *)b;
  return one == other || (one && other && strcmp(one, other) == 0);
}

void mal_option_copy(const mal_option *o, void *to, const void *from) {
  memcpy((char *)to + o->offset, (const char *)from + o->offset, mal_option_size(o));
}

static mal_status set(const mal_option *o, const char *what, const char *value, void *into, mal_error *e) {
  void *field = (char *)into + o->offset;
  switch (o->kind) {
  case MAL_OPT_FLAG: return set_flag(what, value, field, e);
  case MAL_OPT_TEXT: *(const char **)field = value; return MAL_OK;
  case MAL_OPT_COUNT: return mal_parse_count(value, what, field, e);
  case MAL_OPT_POSITIVE: return set_positive(what, value, field, e);
  case MAL_OPT_NUMBER: return set_number(what, value, field, e);
  case MAL_OPT_CHOICE: return set_choice(o, what, value, field, e);
  case MAL_OPT_QUANTITY: return mal_parse_quantity(value, o->unit, what, field, e);
  case MAL_OPT_AMOUNT: return set_amount(o, what, value, field, e);
  }
  return mal_fail(e, MAL_FAULT, _("%s: has no kind."), what);
}

mal_status mal_option_set(const mal_option *table, size_t count, const char *name, const char *value, void *into,
                          mal_error *e) {
  const mal_option *o = mal_option_named(table, count, name);
  return o ? set(o, name, value, into, e) : unknown(table, count, "", name, strlen(name), e);
}

typedef struct words {
  char **argv;
  int argc, at;
} words;

/* The value of an option: what was joined to it, else the next word. */
static mal_status take_value(const mal_option *o, const char *joined, const char *what, words *w, const char **value,
                             mal_error *e) {
  *value = joined;
  if (joined) return MAL_OK;
  const char *next = w->at + 1 < w->argc ? w->argv[w->at + 1] : NULL;
  if (!next || (strncmp(next, "--", 2) == 0 && next[2]))
    return mal_fail(e, MAL_BAD, _("%s needs a value: %s %s."), what, what, o->metavar ? o->metavar : "VALUE");
  *value = next;
  w->at++;
  return MAL_OK;
}

static mal_status parse_long(const mal_option *table, size_t count, words *w, void *into, mal_error *e) {
  const char *name = w->argv[w->at] + 2, *equals = strchr(name, '='), *value;
  size_t length = equals ? (size_t)(equals - name) : strlen(name);
  const mal_option *o = by_name(table, count, name, length);
  if (!o) return unknown(table, count, "--", name, length, e);
  char what[80];
  snprintf(what, sizeof what, "--%s", o->name);
  if (o->kind == MAL_OPT_FLAG) return set(o, what, equals ? equals + 1 : "true", into, e);
  mal_status status = take_value(o, equals ? equals + 1 : NULL, what, w, &value, e);
  return status ? status : set(o, what, value, into, e);
}

/* -o VALUE, -oVALUE, -vq */
static mal_status parse_letters(const mal_option *table, size_t count, words *w, void *into, mal_error *e) {
  for (const char *c = w->argv[w->at] + 1; *c; c++) {
    const mal_option *o = by_letter(table, count, *c);
    if (!o) return mal_fail(e, MAL_BAD, _("There is no option -%.60s. See --help for those there are."), c);
    char what[] = {'-', *c, '\0'};
    if (o->kind == MAL_OPT_FLAG) {
      mal_status status = set(o, what, "true", into, e);
      if (status) return status;
      continue;
    }
    const char *value;
    mal_status status = take_value(o, c[1] ? c + 1 + (c[1] == '=') : NULL, what, w, &value, e);
    return status ? status : set(o, what, value, into, e);
  }
  return MAL_OK;
}

mal_status mal_options_parse(const mal_option *table, size_t count, int argc, char **argv, void *into,
                             const char **positional, int max_positional, int *n_positional, mal_error *e) {
  words w = {argv, argc, 1};
  bool only_positional = false;
  int n = 0;
  for (; w.at < argc; w.at++) {
    const char *word = argv[w.at];
    mal_status status = MAL_OK;
    if (!only_positional && strcmp(word, "--") == 0) {
      only_positional = true;
    } else if (!only_positional && strncmp(word, "--", 2) == 0) {
      status = parse_long(table, count, &w, into, e);
    } else if (!only_positional && word[0] == '-' && word[1]) {
      status = parse_letters(table, count, &w, into, e);
    } else if (n < max_positional) {
      positional[n++] = word;
    } else if (max_positional == 0) {
      status = mal_fail(e, MAL_BAD, _("'%.60s' is not an option, and only options are taken here. See --help."), word);
    } else {
      status = mal_fail(e, MAL_BAD, _("'%.60s' is one argument too many; the most is %d. See --help."), word,
                        max_positional);
    }
    if (status) return status;
  }
  if (n_positional) *n_positional = n;
  return MAL_OK;
}

/* --- help --------------------------------------------------------------------------------------------------------- */

enum { COLUMNS = 80, HELP_AT = 28 };

typedef struct page {
  char *text;
  size_t used, size;
} page;

static void put(page *p, const char *text, size_t length) {
  if (length > p->size - p->used) length = p->size - p->used;
  memcpy(p->text + p->used, text, length);
  p->used += length;
}

static void put_spaces(page *p, size_t n) {
  while (n--) put(p, " ", 1);
}

/* Words of `help` from column `column` on, wrapped to HELP_AT. */
static void put_wrapped(page *p, const char *help, size_t column) {
  bool first = true;
  while (*help) {
    size_t length = strcspn(help, " "), width = 0;
    for (size_t i = 0; i < length; i++) width += ((unsigned char)help[i] & 0xc0) != 0x80;
    if (!first && column + 1 + width > COLUMNS - 1) {
      put(p, "\n", 1);
      put_spaces(p, HELP_AT);
      column = HELP_AT;
    } else if (!first) {
      put(p, " ", 1);
      column++;
    }
    put(p, help, length);
    column += width;
    first = false;
    help += length;
    while (*help == ' ') help++;
  }
  put(p, "\n", 1);
}

static void choices_of(const mal_option *o, char *out, size_t size) {
  size_t used = 0;
  for (int i = 0; o->choices[i] && used < size; i++)
    used += (size_t)snprintf(out + used, size - used, "%s%s", i ? "|" : "", o->choices[i]);
}

char *mal_options_help(mal_arena *a, const mal_option *table, size_t count) {
  size_t size = 1;
  for (size_t i = 0; i < count; i++) /* wrapping adds at most an indent to each word */
    size += 1024 + strlen(_(table[i].help)) * (1 + HELP_AT);
  page p = {mal_alloc(a, size), 0, size - 1};
  for (size_t i = 0; i < count; i++) {
    const mal_option *o = &table[i];
    char letter[8] = "    ", choices[256] = "", left[512];
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    if (o->choices && !o->metavar) choices_of(o, choices, sizeof choices);
    const char *metavar = o->kind == MAL_OPT_FLAG ? "" : o->metavar ? o->metavar : o->choices ? choices : "VALUE";
    snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, *metavar ? " " : "", metavar);
    size_t width = mal_utf8_width(left);
    put(&p, left, strlen(left));
    if (width + 2 > HELP_AT) {
      put(&p, "\n", 1);
      width = 0;
    }
    put_spaces(&p, HELP_AT - width);
    put_wrapped(&p, _(o->help), HELP_AT);
  }
  p.text[p.used] = '\0';
  return p.text;
}
