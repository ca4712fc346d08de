/* Pages and tables. Widths are counted in characters, so that UTF-8 lines up. */
#include "report/page.h"
#include "core/utf8.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const escapes[] = {"", "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[1;31m", "\033[36m"};
_Static_assert(sizeof escapes / sizeof *escapes == MAL_STYLES, "one escape a style");

void mal_page_init(mal_page *p, mal_arena *a, bool colour) {
  *p = (mal_page){.arena = a, .room = 4096, .colour = colour};
  p->text = mal_alloc(a, p->room);
}

static void put_bytes(mal_page *p, const char *text, size_t length) {
  if (p->used + length + 1 > p->room) {
    size_t room = 2 * (p->used + length + 1);
    char *grown = mal_alloc(p->arena, room);
    memcpy(grown, p->text, p->used);
    p->text = grown;
    p->room = room;
  }
  memcpy(p->text + p->used, text, length);
  p->used += length;
  p->text[p->used] = '\0';
}

static void put_text(mal_page *p, const char *text) { put_bytes(p, text, strlen(text)); }

static void put_spaces(mal_page *p, size_t count) {
  while (count--) put_bytes(p, " ", 1);
}

static void put_args(mal_page *p, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  if (length > 0) {
    char *text = mal_alloc(p->arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    put_bytes(p, text, (size_t)length);
  }
  va_end(again);
}

void mal_page_put(mal_page *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  put_args(p, format, args);
  va_end(args);
}

static void begin_style(mal_page *p, mal_style style) {
  if (p->colour && style) put_text(p, escapes[style]);
}

static void end_style(mal_page *p, mal_style style) {
  if (p->colour && style) put_text(p, "\033[0m");
}

void mal_page_styled(mal_page *p, mal_style style, const char *format, ...) {
  va_list args;
  va_start(args, format);
  begin_style(p, style);
  put_args(p, format, args);
  end_style(p, style);
  va_end(args);
}

static size_t width_of(const char *text, size_t length) {
  size_t width = 0;
  for (size_t i = 0; i < length; i++) width += ((unsigned char)text[i] & 0xc0) != 0x80;
  return width;
}

/* A word; a number keeps its unit ("6.83 GWh", "64 %"). */
static size_t word_length(const char *text) {
  size_t length = strcspn(text, " \n");
  while (length && text[length] == ' ' && isdigit((unsigned char)text[length - 1]) &&
         (isalpha((unsigned char)text[length + 1]) || text[length + 1] == '%'))
    length += 1 + strcspn(text + length + 1, " \n");
  return length;
}

void mal_page_wrap(mal_page *p, size_t column, size_t indent, const char *text) {
  bool first = true;
  while (*text) {
    if (*text == '\n') {
      put_bytes(p, "\n", 1);
      if (text[1] != '\n') put_spaces(p, indent);
      column = indent;
      first = true;
      text++;
      continue;
    }
    size_t length = word_length(text), width = width_of(text, length);
    if (!first && column + 1 + width > MAL_PAGE_COLUMNS) {
      put_bytes(p, "\n", 1);
      put_spaces(p, indent);
      column = indent;
    } else if (!first) {
      put_bytes(p, " ", 1);
      column++;
    }
    put_bytes(p, text, length);
    column += width;
    first = false;
    text += length;
    while (*text == ' ') text++;
  }
  put_bytes(p, "\n", 1);
}

void mal_page_field(mal_page *p, size_t indent, const char *label, const char *format, ...) {
  va_list args;
  va_start(args, format);
  mal_page inner;
  mal_page_init(&inner, p->arena, false);
  put_args(&inner, format, args);
  va_end(args);
  size_t width = mal_utf8_width(label);
  mal_page_styled(p, MAL_BOLD, "%s", label);
  put_spaces(p, width < indent ? indent - width : 1);
  mal_page_wrap(p, width < indent ? indent : width + 1, indent, inner.text);
}

void mal_page_note(mal_page *p, size_t indent, const char *label, const char *text) {
  if (text) mal_page_field(p, indent, label, "%s", text);
}

const char *mal_spaced(mal_arena *a, const char *keys) {
  char *text = mal_alloc(a, 2 * strlen(keys) + 1), *to = text;
  for (; *keys; keys++) {
    *to++ = *keys;
    if (*keys == ',') *to++ = ' ';
  }
  return text;
}

/* A word, or an option with its value: what no line break may part. */
static size_t unit_length(const char *text) {
  size_t length = strcspn(text, " \n");
  if (text[0] != '-' || memchr(text, '=', length) || text[length] != ' ' || strchr("-|", text[length + 1]))
    return length;
  return length + 1 + strcspn(text + length + 1, " \n");
}

void mal_page_command(mal_page *p, size_t column, size_t indent, const char *command) {
  enum { CONTINUED = 2 };
  bool first = true;
  while (*command) {
    size_t length = unit_length(command), width = width_of(command, length);
    if (!first && column + 1 + width + CONTINUED > MAL_PAGE_COLUMNS) {
      put_text(p, " \\\n");
      put_spaces(p, indent);
      column = indent;
    } else if (!first) {
      put_text(p, " ");
      column++;
    }
    put_bytes(p, command, length);
    column += width;
    command += length;
    first = *command == '\n'; /* another command */
    if (first) {
      put_text(p, "\n");
      put_spaces(p, indent);
      column = indent;
    }
    command += strspn(command, " \n");
  }
  put_text(p, "\n");
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

void mal_table_init(mal_table *t, mal_arena *a, size_t indent, const char *align) {
  *t = (mal_table){.arena = a, .align = align, .columns = (int)strlen(align), .indent = indent};
}

void mal_table_row(mal_table *t, mal_style style, ...) {
  size_t columns = (size_t)t->columns, rows = (size_t)t->rows;
  t->cells = mal_grow(t->arena, t->cells, rows * columns, (rows + 1) * columns, sizeof *t->cells);
  t->styles = mal_grow(t->arena, t->styles, rows, rows + 1, sizeof *t->styles);
  va_list args;
  va_start(args, style);
  for (size_t i = 0; i < columns; i++) t->cells[rows * columns + i] = mal_copy(t->arena, va_arg(args, const char *));
  va_end(args);
  t->styles[rows] = style;
  t->rows++;
}

static void put_cell(mal_page *p, const char *text, size_t width, char align, bool last) {
  size_t own = mal_utf8_width(text), pad = own < width ? width - own : 0;
  if (align == 'r') put_spaces(p, pad);
  put_text(p, text);
  if (align != 'r' && !last) put_spaces(p, pad);
}

static void put_row(const mal_table *t, mal_page *p, int row, const size_t *width) {
  const char **cells = t->cells + (size_t)row * (size_t)t->columns;
  int last = t->columns - 1;
  while (last > 0 && !*cells[last]) last--;
  size_t column = t->indent;
  put_spaces(p, t->indent);
  begin_style(p, t->styles[row]);
  for (int i = 0; i <= last; i++) {
    if (i) put_text(p, "  ");
    column += i ? 2 : 0;
    if (t->align[i] == 'w') {
      mal_page_wrap(p, column, column, cells[i]);
      end_style(p, t->styles[row]);
      return;
    }
    put_cell(p, cells[i], width[i], t->align[i], i == last);
    column += width[i];
  }
  end_style(p, t->styles[row]);
  put_text(p, "\n");
}

void mal_table_put(const mal_table *t, mal_page *p) {
  size_t width[MAL_TABLE_COLUMNS] = {0};
  for (int row = 0; row < t->rows; row++)
    for (int i = 0; i < t->columns && i < MAL_TABLE_COLUMNS; i++) {
      size_t own = mal_utf8_width(t->cells[(size_t)row * (size_t)t->columns + (size_t)i]);
      if (own > width[i]) width[i] = own;
    }
  for (int row = 0; row < t->rows; row++) put_row(t, p, row, width);
}
