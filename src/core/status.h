/* Errors are values. A function that can fail returns a mal_status and, when it is not MAL_OK, fills the
 * caller's mal_error with one message that says what is wrong, where (file, line, key) and what to do.
 * Whoever first decides an error words it; callers pass it up. Only src/cli prints and exits.
 * The values of mal_status are the exit codes of the command. */
#ifndef MAL_CORE_STATUS_H
#define MAL_CORE_STATUS_H

#define _(text)          mal_text(text) /* words for people: gettext, English when no catalogue is found */
#define P_(one, many, n) mal_text_plural(one, many, (unsigned long)(n)) /* the words for n things */
#define N_(text)         text /* marks words in a table, which are translated where they are shown */

typedef enum mal_status {
  MAL_OK = 0,    /* done */
  MAL_NO = 1,    /* the answer is no: it does not fit, a check failed */
  MAL_BAD = 2,   /* bad usage or bad input */
  MAL_FAULT = 3, /* a fault of the machine or of ours: out of memory, disk error */
} mal_status;

typedef struct mal_error {
  mal_status status;
  char text[2048]; /* complete sentences, UTF-8, no trailing newline */
} mal_error;

/* Sets e (may be NULL) and returns status, so that callers write `return mal_fail(e, MAL_BAD, ...)`.
 * Bytes that are not UTF-8 or are control characters are shown as \xNN. */
mal_status mal_fail(mal_error *e, mal_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the message already in e; returns e->status. */
mal_status mal_fail_in(mal_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__ /* tells it what it cannot see: that a failure is never MAL_OK */
#define mal_failed_(call)                                                                                              \
  ({                                                                                                                   \
    mal_status failed_ = (call);                                                                                       \
    __builtin_assume(failed_ != MAL_OK);                                                                               \
    failed_;                                                                                                           \
  })
#define mal_fail(...)    mal_failed_((mal_fail)(__VA_ARGS__))
#define mal_fail_in(...) mal_failed_((mal_fail_in)(__VA_ARGS__))
#endif

const char *mal_text(const char *english) __attribute__((format_arg(1)));

/* The form of the words that goes with n: English one for 1, many for the rest; other languages by their own rules. */
const char *mal_text_plural(const char *one, const char *many, unsigned long n)
    __attribute__((format_arg(1), format_arg(2)));

/* Takes the language from the environment; the command calls it first. Sets LC_CTYPE and LC_MESSAGES only:
 * numbers keep the decimal point. Without it everything is English. */
void mal_text_init(void);

#endif
