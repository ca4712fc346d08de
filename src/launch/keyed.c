#include "launch/keyed.h"
#include "launch/export.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const mal_keyed *const all[] = {&mal_torchtitan, &mal_accelerate, &mal_deepspeed};

const mal_keyed *mal_keyed_of(const mal_settings *s) {
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (const char *const *mark = all[i]->marks; *mark; mark++)
      if (mal_setting_find(s, *mark)) return all[i];
  return NULL;
}

const char *mal_key_value(const mal_bridge *b, const char *key) {
  const mal_setting *s = mal_setting_find(b->settings, key);
  if (!s || !s->n_values || s->list || s->kind == MAL_SET_NULL || strcmp(s->values[0], "auto") == 0) return NULL;
  return s->values[0];
}

bool mal_key_is(const mal_bridge *b, const char *key, const char *value) {
  const char *now = mal_key_value(b, key);
  return now && strcmp(now, value) == 0;
}

mal_status mal_key_number(mal_bridge *b, const char *key, int64_t *value, bool *found, mal_error *e) {
  const char *text = mal_key_value(b, key);
  *found = false;
  if (!text) return MAL_OK;
  char *end;
  double x = strtod(text, &end);
  if (end == text || *end || !(fabs(x) < 1e15) || x != floor(x))
    return mal_setting_fail(mal_setting_find(b->settings, key), e, _("is %.60s; a whole number is wanted."), text);
  *value = (int64_t)x;
  *found = true;
  mal_setting_take(b->settings, key);
  return MAL_OK;
}

void mal_put_text(mal_bridge *b, const char *key, const char *value) { mal_setting_put(b->settings, key, value); }

void mal_put_bool(mal_bridge *b, const char *key, bool value) {
  mal_setting_put(b->settings, key, value ? "true" : "false")->kind = MAL_SET_BOOL;
}

void mal_put_usual(mal_bridge *b, const char *key, const char *json) {
  mal_config_put_json(b->settings, key, json);
  b->settings->all[b->settings->count - 1].usual = true;
}

void mal_take_usual(mal_bridge *b, const char *key, const char *value) {
  if (mal_key_is(b, key, value)) mal_setting_take(b->settings, key);
}

/* --- writing -------------------------------------------------------------------------------------------------------------- */

/* Kept keys that nouns stand for give way to them. */
static void add_kept(mal_export *x, const mal_keyed *f, mal_settings *s) {
  for (int i = 0; i < x->plan->n_kept; i++) {
    const mal_kept *k = &x->plan->kept[i];
    if (strcmp(k->target, f->name) != 0 || k->n_values != 1) continue;
    mal_setting *own = mal_setting_find(s, k->key);
    if (own && !own->usual) continue;
    mal_config_put_json(s, k->key, k->values[0]);
  }
}

/* What the program has to say, for those who start it. */
static void say_elsewhere(mal_export *x, const mal_keyed *f, const mal_bridge *b) {
  mal_writing w = {.arena = x->a};
  const char *const *const lists[] = {f->elsewhere, b->elsewhere};
  for (int i = 0; i < 2; i++)
    for (const char *const *noun = lists[i]; *noun; noun++) {
      const char *value = mal_noun_value(x->a, x->plan, *noun);
      if (value) mal_write(&w, "%s%s=%s", w.used ? ", " : "", *noun, value);
    }
  if (w.used) mal_note_add(x->a, &x->elsewhere, NULL, 0, _("%s: the program that reads it says %s"), f->title, w.text);
}

static mal_status write_framework(mal_export *x, const mal_keyed *f) {
  mal_settings s = {.arena = x->a};
  mal_bridge b = {.a = x->a, .plan = x->plan, .settings = &s, .target = f->title};
  mal_writing head = {.arena = x->a};
  int first = x->notes.count;
  f->write(&b);
  for (int i = 0; i < b.notes.count; i++) mal_note_add(x->a, &x->notes, NULL, 0, "%s", b.notes.all[i].text);
  add_kept(x, f, &s);
  mal_export_head(x, &head, "#", mal_target_named(f->name), first);
  say_elsewhere(x, f, &b);
  mal_export_file(x, f->file, mal_config_write(x->a, &s, f->syntax, head.text), false);
  return MAL_OK;
}

mal_status mal_export_deepspeed(mal_export *x, mal_error *e) { return (void)e, write_framework(x, &mal_deepspeed); }
mal_status mal_export_accelerate(mal_export *x, mal_error *e) { return (void)e, write_framework(x, &mal_accelerate); }
mal_status mal_export_torchtitan(mal_export *x, mal_error *e) { return (void)e, write_framework(x, &mal_torchtitan); }
