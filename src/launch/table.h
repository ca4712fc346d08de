/* One target is one table: each row joins a noun of ours (an option of a layout or a job) with a key of the target. The same
 * row writes a plan out and reads settings back, so the two directions cannot disagree. */
#ifndef MAL_LAUNCH_TABLE_H
#define MAL_LAUNCH_TABLE_H
#include "launch/settings.h"
#include "plan/plan.h"

typedef struct mal_bridge mal_bridge;
typedef struct mal_row mal_row;

/* Words of ours and theirs; a list ends with ours NULL. */
typedef struct mal_pair {
  const char *ours, *theirs;
} mal_pair;
#define MAL_ALONE    ""                 /* theirs: the key without a value */
#define MAL_LEFT_OUT ((char *)0)        /* theirs: the key is not there */
extern const mal_pair mal_flag_words[]; /* on: the key alone; off: left out */
extern const mal_pair mal_bool_words[]; /* true, false */

struct mal_row {
  const char *key;  /* theirs; NULL: the target has none, and it is said when the plan's differs from `otherwise` */
  const char *noun; /* option of a layout or a job; NULL: functions alone */
  const mal_pair *words; /* NULL: the value as it is */
  const char *otherwise; /* ours: what the target does without the key; NULL: the noun stays as it is */
  bool always;           /* written even where it is what the target does anyway */
  /* For what a word does not say. Without `write` and `read` the row does it alone. */
  void (*write)(mal_bridge *b, const mal_row *row);
  mal_status (*read)(mal_bridge *b, const mal_row *row, mal_error *e);
};

struct mal_bridge {
  mal_arena *a;
  const char *target;       /* "Megatron-LM", for words */
  const mal_plan *plan;     /* what is written */
  mal_job job;              /* what is read */
  mal_layout layout;        /* what is read */
  int64_t nodes, gpus;      /* that the settings name, GPUs of a node; 0: they do not */
  const char *model;        /* that the settings name or describe; NULL: they do not */
  const char *profile;      /* of the framework that reads such settings */
  mal_settings *settings;   /* the target's */
  const char *elsewhere[8]; /* nouns that the program has to say here, beside those it always says; NULL ends them */
  mal_notes notes;          /* what the target, or the plan, cannot say */
};

void mal_rows_write(mal_bridge *b, const mal_row *rows, int count);
mal_status mal_rows_read(mal_bridge *b, const mal_row *rows, int count, mal_error *e);

/* The noun's value in the plan, as its option is written; NULL: left to the framework. */
const char *mal_noun_value(mal_arena *a, const mal_plan *p, const char *noun);
mal_status mal_noun_set(mal_bridge *b, const char *noun, const char *value, const mal_setting *from, mal_error *e);
/* Says that the target cannot do what the plan says of this noun. */
void mal_noun_elsewhere(mal_bridge *b, const char *noun);
void mal_noun_lost(mal_bridge *b, const char *noun, const char *why);
#endif
