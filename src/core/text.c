/* Words for people. The catalogue is looked for once: $MALHA_LOCALES, the build's, the installed one.
 * LC_NUMERIC is never set: readers and writers rely on the decimal point. */
#include "core/file.h"
#include "core/status.h"
#include <libintl.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_once_t bound = PTHREAD_ONCE_INIT;

static void bind(void) {
  const char *folder = getenv("MALHA_LOCALES");
  if (!folder || !*folder) folder = mal_is_directory(MALHA_BUILD_LOCALES) ? MALHA_BUILD_LOCALES : MALHA_INSTALL_LOCALES;
  bindtextdomain("malha", folder);
  bind_textdomain_codeset("malha", "UTF-8");
}

void mal_text_init(void) {
  setlocale(LC_CTYPE, "");
  setlocale(LC_MESSAGES, "");
}

const char *mal_text(const char *english) {
  if (!*english) return english; /* gettext would answer with the catalogue's own header */
  pthread_once(&bound, bind);
  return dgettext("malha", english);
}

const char *mal_text_plural(const char *one, const char *many, unsigned long n) {
  pthread_once(&bound, bind);
  return dngettext("malha", one, many, n);
}
