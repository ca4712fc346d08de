#include "launch/table.h"
#include <string.h>

const mal_pair mal_flag_words[] = {{"on", MAL_ALONE}, {"off", MAL_LEFT_OUT}, {0}};
const mal_pair mal_bool_words[] = {{"on", "true"}, {"off", "false"}, {0}};

static const mal_option *option_of(const char *noun, bool *layout) {
  const mal_option *o = mal_option_named(mal_layout_options, (size_t)mal_layout_option_count, noun);
  *layout = o != NULL;
  return o ? o : mal_option_named(mal_job_options, (size_t)mal_job_option_count, noun);
}

const char *mal_noun_value(mal_arena *a, const mal_plan *p, const char *noun) {
  bool layout;
  const mal_option *o = option_of(noun, &layout);
  const char *field = (layout ? (const char *)&p->layout : (const char *)&p->job) + o->offset;
  switch (o->kind) {
  case MAL_OPT_POSITIVE:
    return *(const int64_t *)field < 1 ? NULL : mal_print(a, "%lld", (long long)*(const int64_t *)field);
  case MAL_OPT_COUNT:
    return *(const int64_t *)field < 0 ? NULL : mal_print(a, "%lld", (long long)*(const int64_t *)field);
  case MAL_OPT_CHOICE: return *(const int *)field < 0 ? NULL : o->choices[*(const int *)field];
  case MAL_OPT_FLAG: return *(const bool *)field ? "on" : "off";
  default: return NULL;
  }
}

mal_status mal_noun_set(mal_bridge *b, const char *noun, const char *value, const mal_setting *from, mal_error *e) {
  bool layout;
  const mal_option *o = option_of(noun, &layout);
  mal_error inner = {0};
  mal_status s =
      layout ? mal_option_set(mal_layout_options, (size_t)mal_layout_option_count, o->name, value, &b->layout, &inner)
             : mal_option_set(mal_job_options, (size_t)mal_job_option_count, o->name, value, &b->job, &inner);
  if (s == MAL_OK) return s;
  return from ? mal_setting_fail(from, e, "%s", inner.text) : mal_fail(e, s, "%s", inner.text);
}

void mal_noun_lost(mal_bridge *b, const char *noun, const char *why) {
  const char *value = mal_noun_value(b->a, b->plan, noun);
  mal_note_add(b->a, &b->notes, NULL, 0, "%s=%s: %s", noun, value ? value : "", why);
}

void mal_noun_elsewhere(mal_bridge *b, const char *noun) {
  enum { MOST = sizeof b->elsewhere / sizeof *b->elsewhere };
  int n = 0;
  while (n < MOST - 1 && b->elsewhere[n]) n++;
  if (n < MOST - 1) b->elsewhere[n] = noun;
}

/* --- writing ---------------------------------------------------------------------------------------------------------- */

static void put(mal_bridge *b, const mal_row *row, const char *theirs) {
  mal_setting *s = mal_setting_put(b->settings, row->key, *theirs ? theirs : NULL);
  if (!row->words && *theirs) s->kind = MAL_SET_NUMBER;
  if (row->words == mal_bool_words) s->kind = MAL_SET_BOOL;
}

static void write_row(mal_bridge *b, const mal_row *row) {
  const char *ours = mal_noun_value(b->a, b->plan, row->noun);
  if (!ours) return;
  bool usual = row->otherwise && strcmp(ours, row->otherwise) == 0;
  if (!row->key) {
    if (!usual) mal_noun_lost(b, row->noun, mal_print(b->a, _("%s has no setting for it."), b->target));
    return;
  }
  if (usual && !row->always) return;
  if (!row->words) {
    put(b, row, ours);
    return;
  }
  for (const mal_pair *w = row->words; w->ours; w++)
    if (strcmp(w->ours, ours) == 0) {
      if (w->theirs) put(b, row, w->theirs);
      return;
    }
  mal_noun_lost(b, row->noun, mal_print(b->a, _("%s has no value of %s for it."), b->target, row->key));
}

void mal_rows_write(mal_bridge *b, const mal_row *rows, int count) {
  for (int i = 0; i < count; i++)
    if (rows[i].write)
      rows[i].write(b, &rows[i]);
    else if (!rows[i].read)
      write_row(b, &rows[i]);
}

/* --- reading ---------------------------------------------------------------------------------------------------------- */

static mal_status read_words(mal_bridge *b, const mal_row *row, mal_setting *s, mal_error *e) {
  const char *theirs = s ? (s->n_values ? s->values[0] : MAL_ALONE) : MAL_LEFT_OUT;
  for (const mal_pair *w = row->words; w->ours; w++) {
    bool same = theirs && w->theirs ? strcmp(theirs, w->theirs) == 0 : !theirs && !w->theirs;
    if (!same) continue;
    if (s) mal_setting_take(b->settings, row->key);
    return mal_noun_set(b, row->noun, w->ours, s, e);
  }
  return MAL_OK; /* it stays among what was not understood */
}

static mal_status read_row(mal_bridge *b, const mal_row *row, mal_error *e) {
  if (!row->key) return MAL_OK;
  mal_setting *s = mal_setting_find(b->settings, row->key);
  if (!s && row->otherwise) return mal_noun_set(b, row->noun, row->otherwise, NULL, e);
  if (row->words) return read_words(b, row, s, e);
  if (!s) return MAL_OK;
  if (!s->n_values) return mal_setting_fail(s, e, _("has no value."));
  if (mal_setting_open(s))
    return mal_setting_fail(s, e, _("is %s, which the file does not set. Say it: malha import FILE NAME=VALUE."),
                            s->values[0]);
  mal_setting_take(b->settings, row->key);
  return mal_noun_set(b, row->noun, s->values[0], s, e);
}

mal_status mal_rows_read(mal_bridge *b, const mal_row *rows, int count, mal_error *e) {
  mal_status s = MAL_OK;
  for (int i = 0; i < count && s == MAL_OK; i++)
    if (rows[i].read)
      s = rows[i].read(b, &rows[i], e);
    else if (!rows[i].write)
      s = read_row(b, &rows[i], e);
  return s;
}
