/* e->text is always NUL-terminated, valid UTF-8, without control characters, and ends on a whole character. */
#include "core/status.h"
#include "core/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char ellipsis[] = "...";

/* Copies raw into out (of `size` bytes), showing what is not text as \xNN. */
static void put_clean(char *out, size_t size, const char *raw) {
  size_t n = 0, left = strlen(raw);
  const size_t room = size - sizeof ellipsis; /* what always leaves space for "...\0" */
  while (left) {
    size_t step = mal_utf8_step(raw, left);
    unsigned char c = (unsigned char)*raw;
    bool shown = step && c >= 0x20 && c != 0x7f && !(step == 2 && c == 0xc2 && (unsigned char)raw[1] < 0xa0);
    if (n + (shown ? step : 4) > room) {
      memcpy(out + n, ellipsis, sizeof ellipsis);
      return;
    }
    if (shown) {
      memcpy(out + n, raw, step);
      n += step;
    } else {
      step = 1;
      n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
    }
    raw += step;
    left -= step;
  }
  out[n] = '\0';
}

mal_status(mal_fail)(mal_error *e, mal_status status, const char *format, ...) {
  if (!e) return status;
  char raw[sizeof e->text + 64];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(raw, sizeof raw, format, args);
  va_end(args);
  e->status = status;
  put_clean(e->text, sizeof e->text, length < 0 ? format : raw);
  return status;
}

mal_status(mal_fail_in)(mal_error *e, const char *format, ...) {
  if (!e) return MAL_BAD;
  char raw[2 * sizeof e->text + 64], old[sizeof e->text];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(raw, sizeof e->text, format, args);
  va_end(args);
  if (length < 0) length = snprintf(raw, sizeof e->text, "%s", format);
  if ((size_t)length >= sizeof e->text) length = (int)sizeof e->text - 1;
  memcpy(old, e->text, sizeof old);
  snprintf(raw + length, sizeof raw - (size_t)length, ": %s", old);
  put_clean(e->text, sizeof e->text, raw);
  return e->status;
}
