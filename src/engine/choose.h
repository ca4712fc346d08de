/* A layout for this machine, where none was asked for. */
#ifndef MAL_ENGINE_CHOOSE_H
#define MAL_ENGINE_CHOOSE_H
#include "engine/train.h"

/* Every tp × pp × dp of the machine's ranks that the engine runs, priced; the fastest that fits (of equals the first: least tp,
 * then least pp). plan: as mal_plan_make takes it, over the asked-for job and layout (tp, pp and dp are set). MAL_NO: none fits;
 * MAL_BAD: none is possible, with the last reason. */
mal_status mal_engine_choose(mal_arena *a, const char *model, const char *machine, const char *profile,
                             const mal_job *job, const mal_layout *asked, mal_plan *plan, mal_error *e);
#endif
