#include "design/parts.h"
#include "core/catalog.h"
#include "machine/hardware.h"
#include <string.h>

const char *const mal_link_kind_name[] = {"infiniband", "ethernet", NULL};

#define VALUE(name)                                                                                                    \
  { .key = #name, .kind = MAL_FIELD_VALUE, .offset = offsetof(OF, name) }
#define NEEDED(name)                                                                                                   \
  { .key = #name, .kind = MAL_FIELD_VALUE, .offset = offsetof(OF, name), .required = true }
#define TEXT(name, need)                                                                                               \
  { .key = #name, .kind = MAL_FIELD_TEXT, .offset = offsetof(OF, name), .required = need }
#define COUNT(name, least, most)                                                                                       \
  { .key = #name, .kind = MAL_FIELD_INT, .offset = offsetof(OF, name), .lo = least, .hi = most }
#define BASE                                                                                                           \
  { .key = "base", .kind = MAL_FIELD_BASE }

#define OF mal_switch
static const mal_field switch_table[] = {
    BASE,
    TEXT(name, true),
    TEXT(title, true),
    {.key = "kind", .kind = MAL_FIELD_CHOICE, .offset = offsetof(OF, kind), .choices = mal_link_kind_name},
    COUNT(ports, 2, 4096),
    COUNT(ports_per_cage, 1, 8),
    COUNT(uplinks, 0, 64),
    NEEDED(port_bytes_per_s),
    NEEDED(ru),
    VALUE(depth_m),
    VALUE(weight_kg),
    VALUE(typical_w),
    VALUE(max_w),
    VALUE(supplies),
    VALUE(optics_w),
    VALUE(copper_m),
    VALUE(multimode_m),
    VALUE(singlemode_m),
    {0},
};
#undef OF

#define OF mal_chassis
static const mal_field chassis_table[] = {
    BASE,
    TEXT(name, true),
    TEXT(title, true),
    NEEDED(ru),
    VALUE(depth_m),
    VALUE(weight_kg),
    VALUE(max_w),
    VALUE(training_share),
    VALUE(idle_share),
    NEEDED(supplies),
    NEEDED(supplies_full),
    VALUE(supplies_run),
    VALUE(supply_w),
    VALUE(cord_a),
    VALUE(airflow_m3_per_s),
    VALUE(airflow_other_m3_per_s),
    VALUE(heat_w),
    VALUE(inlet_min_c),
    VALUE(inlet_max_c),
    VALUE(storage_ports),
    VALUE(storage_bytes_per_s),
    VALUE(inband_ports),
    VALUE(oob_ports),
    VALUE(pcie_switches),
    VALUE(switch_gpus),
    VALUE(switch_nics),
    VALUE(switch_drives),
    VALUE(switch_up_lanes),
    TEXT(rails, false),
    {0},
};
#undef OF

#define OF mal_appliance
static const mal_field appliance_table[] = {
    BASE,          TEXT(name, true),  TEXT(title, true),     NEEDED(each),
    NEEDED(ru),    NEEDED(weight_kg), NEEDED(idle_w),        NEEDED(training_w),
    NEEDED(max_w), NEEDED(supplies),  NEEDED(supplies_full), VALUE(inband_ports),
    {0},
};
#undef OF

mal_status mal_appliance_load(mal_arena *a, const char *name, mal_appliance **out, mal_error *e) {
  *out = MAL_NEW(a, mal_appliance);
  mal_status s = mal_hardware_load(a, "appliances", "appliance", appliance_table, name, *out, e);
  if (s == MAL_OK && !((*out)->each.value <= 64 && (*out)->ru.value > 0 && (*out)->supplies.value >= 1))
    s = mal_fail(e, MAL_BAD, _("appliance '%s': each is at most 64, ru is above 0, supplies 1 or more."), name);
  return s;
}

mal_status mal_switch_load(mal_arena *a, const char *name, mal_switch **out, mal_error *e) {
  *out = MAL_NEW(a, mal_switch);
  mal_status s = mal_hardware_load(a, "switches", "switch", switch_table, name, *out, e);
  if (s != MAL_OK) return s;
  if ((*out)->ports < 2) return mal_fail(e, MAL_BAD, _("switch '%s': ports is missing; add how many it has."), name);
  if ((*out)->ports_per_cage < 1) (*out)->ports_per_cage = 1;
  return MAL_OK;
}

mal_status mal_chassis_load(mal_arena *a, const mal_node *node, mal_chassis **out, mal_error *e) {
  *out = MAL_NEW(a, mal_chassis);
  const char *name = mal_catalog_has(a, "chassis", node->name, ".yaml") ? node->name : "generic";
  mal_status s = mal_hardware_load(a, "chassis", "chassis", chassis_table, name, *out, e);
  if (s == MAL_OK && (*out)->max_w.value <= 0) (*out)->max_w = node->max_power_w;
  return s;
}

typedef struct each {
  void (*visit)(void *, const char *, const mal_value *);
  void *context;
} each;

static void pass_on(void *context, const char *key, mal_value *value, mal_fitted *fitted) {
  const each *all = context;
  (void)fitted;
  if (value) all->visit(all->context, key, value);
}

void mal_appliance_each(const mal_appliance *s, void (*visit)(void *, const char *, const mal_value *), void *context) {
  mal_appliance copy = *s;
  mal_fields_each(appliance_table, &copy, pass_on, &(each){visit, context});
}

void mal_switch_each(const mal_switch *s, void (*visit)(void *, const char *, const mal_value *), void *context) {
  mal_switch copy = *s;
  mal_fields_each(switch_table, &copy, pass_on, &(each){visit, context});
}

void mal_chassis_each(const mal_chassis *c, void (*visit)(void *, const char *, const mal_value *), void *context) {
  mal_chassis copy = *c;
  mal_fields_each(chassis_table, &copy, pass_on, &(each){visit, context});
}

const char *mal_chassis_hca(mal_arena *a, const mal_chassis *c, int64_t rail) {
  const char *at = c->rails;
  for (int64_t i = 0; at && i < rail; i++) at = (at = strchr(at, ',')) ? at + 1 : NULL;
  if (!at) return mal_print(a, "mlx5_%lld", (long long)rail);
  return mal_print(a, "%.*s", (int)strcspn(at, ","), at);
}
