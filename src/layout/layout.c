#include "layout/layout.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

const char *const mal_schedule_name[] = {"1f1b", "interleaved", "gpipe", "zb-h1", "zb-2p", "dualpipe", NULL};
const char *const mal_recompute_name[] = {"none", "selective", "full", NULL};
const char *const mal_cp_name[] = {"ring", "alltoall", "allgather", NULL};
const char *const mal_offload_name[] = {"none", "cpu", "nvme", NULL};
static const char *const tristate_name[] = {"off", "on", NULL};
static const char *const zero_name[] = {"0", "1", "2", "3", NULL};

static_assert(sizeof mal_schedule_name / sizeof *mal_schedule_name == MAL_SCHEDULES + 1, "a name for each");
static_assert(sizeof mal_recompute_name / sizeof *mal_recompute_name == MAL_RECOMPUTES + 1, "a name for each");

#define AT(member) offsetof(mal_layout, member)
#define COUNT(name, member, help)                                                                                      \
  { name, 0, MAL_OPT_COUNT, AT(member), "N", NULL, NULL, help }
#define RANKS(name, member, help)                                                                                      \
  { name, 0, MAL_OPT_POSITIVE, AT(member), "N", NULL, NULL, help }
#define CHOICE(name, member, meta, names, help)                                                                        \
  { name, 0, MAL_OPT_CHOICE, AT(member), meta, NULL, names, help }

const mal_option mal_layout_options[] = {
    RANKS("tp", tp, N_("tensor parallel ranks")),
    RANKS("cp", cp, N_("context parallel ranks")),
    RANKS("dp", dp, N_("data parallel ranks (default: what the GPUs leave)")),
    RANKS("pp", pp, N_("pipeline stages")),
    RANKS("vpp", vpp, N_("chunks of a stage, for the interleaved schedule (default: the profile's)")),
    RANKS("ep", ep, N_("expert parallel ranks")),
    RANKS("etp", etp, N_("tensor parallel ranks inside an expert (default: tp)")),
    CHOICE("zero", zero, "STAGE", zero_name, N_("ZeRO stage, 3 = FSDP (default: the profile's)")),
    RANKS("hybrid", hybrid, N_("ranks of a ZeRO-3 shard group, for HSDP (default: all)")),
    CHOICE("sequence-parallel", sequence_parallel, "ON", tristate_name,
           N_("on or off: split norms over the tensor parallel ranks (default: the profile's)")),
    RANKS("micro-batch", micro_batch, N_("sequences of one micro-batch")),
    CHOICE("recompute", recompute, "HOW", mal_recompute_name, N_("activation recomputation: none, selective, full")),
    COUNT("recompute-layers", recompute_layers,
          N_("layers of each stage that full recomputation covers (default: all)")),
    CHOICE("schedule", schedule, "NAME", mal_schedule_name, N_("1f1b, interleaved, gpipe, zb-h1, zb-2p, dualpipe")),
    CHOICE("cp-kind", cp_kind, "HOW", mal_cp_name, N_("context parallel attention: ring, alltoall, allgather")),
    CHOICE("attention", attention, "KERNEL", mal_attention_name,
           N_("unfused, flash1, flash2, cudnn (default: the profile's)")),
    CHOICE("overlap-tp", overlap_tp, "ON", tristate_name, N_("on or off: tensor parallel traffic beside products")),
    CHOICE("overlap-dp-grad", overlap_dp_grad, "ON", tristate_name,
           N_("on or off: gradient reduction beside backward")),
    CHOICE("overlap-dp-param", overlap_dp_param, "ON", tristate_name, N_("on or off: weight gathering beside forward")),
    CHOICE("overlap-pp", overlap_pp, "ON", tristate_name, N_("on or off: pipeline sends beside products")),
    CHOICE("overlap-cp", overlap_cp, "ON", tristate_name, N_("on or off: context parallel traffic beside attention")),
    CHOICE("offload-optimizer", offload_optimizer, "WHERE", mal_offload_name, N_("none, cpu or nvme")),
    CHOICE("offload-params", offload_params, "WHERE", mal_offload_name, N_("none, cpu or nvme")),
    COUNT("first-stage-layers", first_stage_layers, N_("layers of the first stage (default: even)")),
    COUNT("last-stage-layers", last_stage_layers, N_("layers of the last stage (default: even)")),
    {"embedding-in-layers", 0, MAL_OPT_FLAG, AT(embedding_in_layers), NULL, NULL, NULL,
     N_("count embedding and head as a layer each when dividing stages")},
};
enum { OPTIONS = sizeof mal_layout_options / sizeof *mal_layout_options, WORD_MAX = 64 };
const int mal_layout_option_count = OPTIONS;

void mal_layout_default(mal_layout *l) {
  *l = (mal_layout){
      .tp = 1,
      .cp = 1,
      .pp = 1,
      .ep = 1,
      .zero = -1,
      .sequence_parallel = MAL_AUTO,
      .recompute_layers = -1,
      .attention = -1,
      .overlap_tp = MAL_AUTO,
      .overlap_dp_grad = MAL_AUTO,
      .overlap_dp_param = MAL_AUTO,
      .overlap_pp = MAL_AUTO,
      .overlap_cp = MAL_AUTO,
      .first_stage_layers = -1,
      .last_stage_layers = -1,
  };
}

/* The next "key" or "key=value" up to a comma, without blanks around its parts. Empty key: nothing there. */
static mal_status next_word(const char **text, char key[WORD_MAX], char value[WORD_MAX], mal_error *e) {
  size_t length = strcspn(*text, ",");
  const char *word = *text, *equals = memchr(word, '=', length);
  const char *parts[2] = {word, equals ? equals + 1 : word + length};
  size_t lengths[2] = {equals ? (size_t)(equals - word) : length, equals ? (size_t)(word + length - (equals + 1)) : 0};
  char *into[2] = {key, value};
  for (int i = 0; i < 2; i++) {
    size_t blanks = 0;
    while (blanks < lengths[i] && strchr(" \t\n", parts[i][blanks])) blanks++;
    size_t n = lengths[i] - blanks;
    while (n && strchr(" \t\n", parts[i][blanks + n - 1])) n--;
    if (n >= WORD_MAX)
      return mal_fail(e, MAL_BAD, _("layout: '%.*s...' is too long for a %s."), 40, parts[i] + blanks,
                      i ? _("value") : _("key"));
    memcpy(into[i], parts[i] + blanks, n);
    into[i][n] = '\0';
  }
  if (equals && !*value) return mal_fail(e, MAL_BAD, _("layout: %s= has no value."), key);
  *text += length + ((*text)[length] == ',');
  return MAL_OK;
}

/* Whether the key alone says something: a switch. */
static bool equals_on(const mal_option *o) {
  if (o->kind != MAL_OPT_CHOICE) return o->kind == MAL_OPT_FLAG;
  for (int i = 0; o->choices[i]; i++)
    if (strcmp(o->choices[i], "on") == 0) return true;
  return false;
}

mal_status mal_layout_parse(mal_arena *a, const char *text, mal_layout *l, mal_error *e) {
  (void)a; /* no option keeps its text */
  bool given[OPTIONS] = {0};
  for (const char *at = text; *at;) {
    char key[WORD_MAX], value[WORD_MAX];
    mal_status s = next_word(&at, key, value, e);
    if (s != MAL_OK) return s;
    if (!*key) {
      if (*value) return mal_fail(e, MAL_BAD, _("layout: '=%s' has no key; write as tp=8,pp=2."), value);
      continue;
    }
    const mal_option *o = mal_option_named(mal_layout_options, OPTIONS, key);
    if (o && !equals_on(o) && !*value)
      return mal_fail(e, MAL_BAD, _("layout: %s has no value; write %s=%s."), o->name, o->name,
                      o->metavar ? o->metavar : "VALUE");
    if (o && given[o - mal_layout_options])
      return mal_fail(e, MAL_BAD, _("layout: %s is given twice. Keep one of them."), o->name);
    if (o) given[o - mal_layout_options] = true;
    s = mal_option_set(mal_layout_options, OPTIONS, key, *value ? value : "on", l, e);
    if (s != MAL_OK) return mal_fail_in(e, _("layout"));
  }
  return MAL_OK;
}

/* The option's value as parse reads it; NULL when it cannot be written (a -1 that stands for a default). */
static const char *show_value(mal_arena *a, const mal_option *o, const void *field) {
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

char *mal_layout_show(mal_arena *a, const mal_layout *l) {
  mal_layout plain;
  mal_layout_default(&plain);
  char *text = mal_copy(a, "");
  for (int i = 0; i < OPTIONS; i++) {
    const mal_option *o = &mal_layout_options[i];
    const void *field = (const char *)l + o->offset;
    if (mal_option_same(o, l, &plain)) continue;
    const char *value = show_value(a, o, field);
    if (value) text = mal_print(a, "%s%s%s=%s", text, *text ? "," : "", o->name, value);
  }
  return text;
}
