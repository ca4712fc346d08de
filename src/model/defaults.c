/* What a config.json left out, told. */
#include "core/units.h"
#include "model/model.h"

const char *mal_model_defaults_words(mal_arena *a, const mal_model *m) {
  const char *list = NULL;
  for (int i = 0; i < m->n_defaults; i++)
    list = mal_print(a, "%s%s%s %lld", list ? list : "", list ? ", " : "", m->defaults[i].key,
                     (long long)m->defaults[i].value);
  return list ? mal_print(a, _("left out of the model's file, so taken as transformers does: %s"), list) : NULL;
}

json_t *mal_model_defaults_json(const mal_model *m) {
  json_t *o = json_object();
  for (int i = 0; i < m->n_defaults; i++)
    json_object_set_new(o, m->defaults[i].key, json_integer(m->defaults[i].value));
  return o;
}
