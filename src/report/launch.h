/* What malha export wrote, and what malha import read, with what would be better. */
#ifndef MAL_REPORT_LAUNCH_H
#define MAL_REPORT_LAUNCH_H
#include "check/node/health.h"
#include "launch/export.h"
#include "launch/import.h"
#include "report/answer.h"
#include "search/path.h"

enum { MAL_EXPORT_VERSION = 1, MAL_IMPORT_VERSION = 1 }; /* of docs/schema/export.json, import.json */

/* folder: where the files went; NULL: nowhere. */
void mal_report_export(mal_page *p, const mal_export *x, const char *folder);
json_t *mal_report_export_json(const mal_export *x, const char *folder);

typedef struct mal_import_answer {
  const mal_imported *read;
  mal_answer now;                  /* the settings as they are */
  const mal_health *health;        /* of the environment; NULL: none was set */
  const mal_search_result *search; /* NULL: not asked for */
  mal_stride *steps;               /* from now to the best */
  int n_steps;
  const char *command;
} mal_import_answer;

void mal_report_import(mal_page *p, const mal_import_answer *a);
json_t *mal_report_import_json(const mal_import_answer *a);
#endif
