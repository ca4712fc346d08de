#include "simulate/fault.h"
#include "core/suggest.h"
#include "core/units.h"
#include <math.h>
#include <string.h>

const char *const mal_simulated_fault_name[MAL_BROKEN_KINDS] = {
    "slow", "throttle", "nvlink", "nic", "uplink", "rail", "jitter", "die", "pcie", "numa", "cpulink", "storage"};

enum { MAX_FAULTS = 64 };

typedef enum key { KEY_RANK, KEY_NODE, KEY_LEAF, KEY_ALL, KEY_BY, KEY_DEAD, KEY_AT, KEY_FOR, KEY_CV, KEYS } key;
static const char *const key_name[KEYS] = {"rank", "node", "leaf", "all", "by", "dead", "at", "for", "cv"};

#define BIT(k) (1u << (k))
static const struct {
  unsigned allowed, needed_one; /* of `needed_one` at least one must be said */
} rules[MAL_BROKEN_KINDS] = {
    [MAL_BROKEN_SLOW] = {BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_ALL) | BIT(KEY_BY), BIT(KEY_BY)},
    [MAL_BROKEN_THROTTLE] = {BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_ALL) | BIT(KEY_BY) | BIT(KEY_AT) | BIT(KEY_FOR),
                             BIT(KEY_BY)},
    [MAL_BROKEN_NVLINK] = {BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_BY) | BIT(KEY_DEAD), BIT(KEY_BY) | BIT(KEY_DEAD)},
    [MAL_BROKEN_NIC] = {BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_BY) | BIT(KEY_DEAD), BIT(KEY_BY) | BIT(KEY_DEAD)},
    [MAL_BROKEN_UPLINK] = {BIT(KEY_LEAF) | BIT(KEY_BY) | BIT(KEY_DEAD), BIT(KEY_BY) | BIT(KEY_DEAD)},
    [MAL_BROKEN_RAIL] = {BIT(KEY_NODE), BIT(KEY_NODE)},
    [MAL_BROKEN_JITTER] = {BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_ALL) | BIT(KEY_CV), BIT(KEY_CV)},
    [MAL_BROKEN_DIE] = {BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_AT), BIT(KEY_AT)},
    [MAL_BROKEN_PCIE] = {BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_ALL) | BIT(KEY_BY), BIT(KEY_BY)},
    [MAL_BROKEN_NUMA] = {BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_ALL), BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_ALL)},
    [MAL_BROKEN_CPULINK] = {BIT(KEY_NODE) | BIT(KEY_ALL) | BIT(KEY_BY), BIT(KEY_BY)},
    [MAL_BROKEN_STORAGE] = {BIT(KEY_ALL) | BIT(KEY_BY), BIT(KEY_BY)},
};

static char *trimmed(char *text) {
  text += strspn(text, " \t\n");
  for (size_t n = strlen(text); n && strchr(" \t\n", text[n - 1]); n--) text[n - 1] = '\0';
  return text;
}

static mal_status index_of(const char *fault, const char *name, const char *value, int64_t most, int64_t *into,
                           mal_error *e) {
  mal_status status = mal_parse_count(value, name, into, e);
  if (status) return mal_fail_in(e, "--fault %.80s", fault);
  if (*into >= most)
    return mal_fail(e, MAL_BAD, _("--fault %.80s: %s=%lld, but there are %lld; they count from 0."), fault, name,
                    (long long)*into, (long long)most);
  return MAL_OK;
}

/* "20%" or 0.2 */
static mal_status share_of(const char *fault, const char *name, const char *value, double most, double *into,
                           mal_error *e) {
  char number[32];
  size_t n = strlen(value);
  bool percent = n > 1 && value[n - 1] == '%';
  if (n >= sizeof number) return mal_fail(e, MAL_BAD, _("--fault %.80s: %s=%.40s is no share."), fault, name, value);
  memcpy(number, value, n + 1);
  if (percent) number[n - 1] = '\0';
  mal_status status = mal_parse_number(number, name, into, e);
  if (status) return mal_fail_in(e, "--fault %.80s", fault);
  if (percent) *into /= 100;
  if (!(*into > 0 && *into <= most))
    return mal_fail(e, MAL_BAD, _("--fault %.80s: %s=%.40s must lie above 0 and not above %.0f%%."), fault, name, value,
                    100 * most);
  return MAL_OK;
}

typedef struct limits {
  int64_t ranks, nodes;
} limits;

static mal_status set_key(mal_simulated_fault *f, key k, const char *value, const limits *m, mal_error *e) {
  static const double most_lost = 0.99; /* of speed: a rank that does nothing is `die` */
  static const double most_cv = 10;
  mal_status status;
  if (k == KEY_ALL || k == KEY_DEAD) {
    if (*value) return mal_fail(e, MAL_BAD, _("--fault %.80s: %s takes no value."), f->text, key_name[k]);
    if (k == KEY_DEAD) f->lost = 1;
    return MAL_OK;
  }
  if (!*value) return mal_fail(e, MAL_BAD, _("--fault %.80s: %s needs a value."), f->text, key_name[k]);
  switch (k) {
  case KEY_RANK: return index_of(f->text, "rank", value, m->ranks, &f->place.rank, e);
  case KEY_NODE: return index_of(f->text, "node", value, m->nodes, &f->place.node, e);
  case KEY_LEAF: return index_of(f->text, "leaf", value, INT32_MAX, &f->place.leaf, e);
  case KEY_BY: return share_of(f->text, "by", value, most_lost, &f->lost, e);
  case KEY_CV: return share_of(f->text, "cv", value, most_cv, &f->cv, e);
  default: break;
  }
  double *into = k == KEY_AT ? &f->at_s : &f->for_s;
  status = mal_parse_quantity(value, "s", key_name[k], into, e);
  if (status) return mal_fail_in(e, "--fault %.80s", f->text);
  if (!(*into >= 0)) return mal_fail(e, MAL_BAD, _("--fault %.80s: %s is negative."), f->text, key_name[k]);
  return MAL_OK;
}

static mal_status kind_of(const char *word, mal_simulated_fault *f, mal_error *e) {
  char near[128];
  for (int k = 0; k < MAL_BROKEN_KINDS; k++)
    if (strcmp(word, mal_simulated_fault_name[k]) == 0) {
      f->kind = (mal_simulated_fault_kind)k;
      return MAL_OK;
    }
  mal_suggest(word, mal_simulated_fault_name, MAL_BROKEN_KINDS, near, sizeof near);
  return mal_fail(
      e, MAL_BAD,
      _("--fault %.80s: '%.40s' is no kind of fault. There are slow, throttle, nvlink, nic, uplink, rail, jitter "
        "and die.%s%s"),
      f->text, word, *near ? _(" Nearest: ") : "", near);
}

static mal_status read_keys(char *at, mal_simulated_fault *f, const limits *m, mal_error *e) {
  unsigned said = 0;
  for (char *next; at; at = next) {
    next = strchr(at, ',');
    if (next) *next++ = '\0';
    char *word = trimmed(at), *value = strchr(word, '=');
    if (value)
      *value++ = '\0';
    else
      value = word + strlen(word);
    int k = 0;
    while (k < KEYS && strcmp(word, key_name[k]) != 0) k++;
    if (k == KEYS || !(rules[f->kind].allowed & BIT(k)))
      return mal_fail(e, MAL_BAD, _("--fault %.80s: %s has no '%.40s'. See malha simulate --help."), f->text,
                      mal_simulated_fault_name[f->kind], word);
    said |= BIT(k);
    mal_status status = set_key(f, (key)k, trimmed(value), m, e);
    if (status) return status;
  }
  unsigned places = BIT(KEY_RANK) | BIT(KEY_NODE) | BIT(KEY_LEAF) | BIT(KEY_ALL);
  unsigned where = said & places;
  if (!where || (where & (where - 1)))
    return mal_fail(e, MAL_BAD, _("--fault %.80s: say where, once: %s."), f->text,
                    f->kind == MAL_BROKEN_UPLINK    ? "leaf=N"
                    : f->kind == MAL_BROKEN_RAIL    ? "node=N"
                    : f->kind == MAL_BROKEN_CPULINK ? "node=N or all"
                    : f->kind == MAL_BROKEN_STORAGE ? "all"
                                                    : "rank=N, node=N or all");
  if (!(said & rules[f->kind].needed_one))
    return mal_fail(e, MAL_BAD, _("--fault %.80s: how much? Add %s."), f->text,
                    f->kind == MAL_BROKEN_JITTER ? "cv=5%"
                    : f->kind == MAL_BROKEN_DIE  ? "at=1s"
                                                 : "by=20%");
  return MAL_OK;
}

static mal_status read_one(mal_arena *a, char *text, const limits *m, mal_simulated_fault *f, mal_error *e) {
  *f = (mal_simulated_fault){.place = {-1, -1, -1}, .for_s = INFINITY, .text = mal_copy(a, text)};
  char *colon = strchr(text, ':');
  if (!colon)
    return mal_fail(e, MAL_BAD, _("--fault %.80s: write KIND:WHERE,KEY=VALUE, as slow:rank=5,by=20%%."), text);
  *colon = '\0';
  mal_status status = kind_of(trimmed(text), f, e);
  return status ? status : read_keys(colon + 1, f, m, e);
}

mal_status mal_faults_parse(mal_arena *a, const char *text, int64_t ranks, int64_t nodes, mal_simulated_fault **faults,
                            int *count, mal_error *e) {
  const limits m = {ranks, nodes};
  *count = 0;
  *faults = MAL_ARRAY(a, mal_simulated_fault, MAX_FAULTS);
  for (char *at = mal_copy(a, text), *next; at; at = next) {
    next = strchr(at, ';');
    if (next) *next++ = '\0';
    at = trimmed(at);
    if (!*at) continue;
    if (*count == MAX_FAULTS) return mal_fail(e, MAL_BAD, _("--fault: more than %d faults at once."), MAX_FAULTS);
    mal_status status = read_one(a, at, &m, *faults + *count, e);
    if (status) return status;
    ++*count;
  }
  if (!*count) return mal_fail(e, MAL_BAD, _("--fault is empty. Write KIND:WHERE,KEY=VALUE, as slow:rank=5,by=20%%."));
  return MAL_OK;
}
