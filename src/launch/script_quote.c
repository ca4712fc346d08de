/* Words of a script: out, quoted; and as options. */
#include "launch/script_shell.h"
#include <string.h>

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
    bool name = n && at[n] && (mal_sh_name_length(at + 2, at + n) == n - 2 || strspn(at + 2, "0123456789") == n - 2);
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
  mal_shell s = {.a = into->arena};
  for (int i = 0; i <= command->count; i++) {
    const char *word = i < command->count ? command->word[i] : "--";
    bool option = word[0] == '-' && ((word[1] == '-') || (mal_sh_name_length(word + 1, word + 2) == 1 && !word[2]) ||
                                     i == command->count);
    if (option && now) {
      now->values = values.word;
      now->n_values = values.count;
      values = (mal_words){0};
    }
    if (option && i < command->count && word[1] && strcmp(word, "--") != 0) {
      const char *equals = strchr(word, '=');
      char *key = equals ? mal_print(into->arena, "%.*s", (int)(equals - word), word) : mal_copy(into->arena, word);
      now = mal_setting_add(into, key, script->file, command->line);
      if (equals) mal_sh_push(&s, &values, mal_copy(into->arena, equals + 1));
    } else if (option) {
      now = NULL;
    } else if (now) {
      mal_sh_push(&s, &values, word);
    }
  }
}
