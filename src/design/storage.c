#include "design/storage.h"
#include "machine/hardware.h"
#include "reliability/reliability.h"
#include <math.h>
#include <string.h>

const char *const mal_data_level_name[] = {"text", "images", "video", NULL};

/* RA-11333-001 V11, table 6: bytes/s of one node and of one scalable unit; four units want four times one unit's. */
static const struct {
  double node_read, node_write, unit_read, unit_write;
} guidance[MAL_DATA_LEVELS] = {{4e9, 2e9, 15e9, 7e9}, {8e9, 4e9, 40e9, 20e9}, {40e9, 20e9, 125e9, 62e9}};
static const double unit_nodes = 32;
static const double full_share = 0.8; /* plan to fill no more than this (Bekman, ML Engineering, storage) */

double mal_storage_node_read(int level) { return guidance[level].node_read; }

#define OF mal_storage_server
#define VALUE(name)                                                                                                    \
  { .key = #name, .kind = MAL_FIELD_VALUE, .offset = offsetof(OF, name), .required = true }
static const mal_field server_table[] = {
    {.key = "base", .kind = MAL_FIELD_BASE},
    {.key = "name", .kind = MAL_FIELD_TEXT, .offset = offsetof(OF, name), .required = true},
    {.key = "title", .kind = MAL_FIELD_TEXT, .offset = offsetof(OF, title), .required = true},
    VALUE(read_bytes_per_s),
    VALUE(write_bytes_per_s),
    VALUE(bytes),
    VALUE(ports),
    VALUE(port_bytes_per_s),
    VALUE(ru),
    VALUE(weight_kg),
    VALUE(max_w),
    VALUE(supplies),
    {0},
};

mal_status mal_storage_server_load(mal_arena *a, const char *name, mal_storage_server **out, mal_error *e) {
  *out = MAL_NEW(a, mal_storage_server);
  mal_status s = mal_hardware_load(a, "storage", "storage server", server_table, name, *out, e);
  if (s != MAL_OK) return s;
  const mal_storage_server *v = *out;
  if (v->read_bytes_per_s.value > 0 && v->write_bytes_per_s.value > 0 && v->bytes.value > 0 && v->ports.value >= 1)
    return MAL_OK;
  return mal_fail(e, MAL_BAD, _("storage server '%s': rates, bytes and ports must be above zero."), name);
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

void mal_storage_server_each(const mal_storage_server *s, void (*visit)(void *, const char *, const mal_value *),
                             void *context) {
  mal_storage_server copy = *s;
  mal_fields_each(server_table, &copy, pass_on, &(each){visit, context});
}

/* --- checkpoints ----------------------------------------------------------------------------------------------------- */

/* Goodput with so fast a write. Asynchronous: training stops for the copy to host memory; a checkpoint still cannot begin
 * before the one before is written. */
static double goodput_of(const mal_storage_ask *k, double rate, mal_storage *s) {
  double copy = k->checkpoint_bytes / ((double)k->nodes * k->host_copy_bytes_per_s);
  s->write_s = k->checkpoint_bytes / rate;
  s->stall_s = k->asynchronous ? copy : s->write_s;
  s->young_s = mal_interval_young_s(s->stall_s, s->mttf_s);
  s->interval_s = fmax(mal_interval_daly_s(s->stall_s, s->mttf_s), s->write_s);
  return mal_ettr(s->mttf_s, k->restart_s + s->write_s, s->interval_s, s->stall_s);
}

/* Slowest write that reaches the goodput, by halving the range on a logarithmic scale: goodput only rises with the rate. */
static mal_status solve_write(const mal_storage_ask *k, mal_storage *s, mal_error *e) {
  double lo = 1e6, hi = 1e16; /* bytes/s, beyond any storage */
  double best = goodput_of(k, hi, s);
  if (best < k->goodput)
    return mal_fail(e, MAL_NO,
                    _("no storage reaches a goodput of %.1f %%: with %lld nodes failing every %.1f h, restarts alone "
                      "leave %.1f %%. Lower --goodput, or shorten the restart (--restart)."),
                    100 * k->goodput, (long long)k->nodes, s->mttf_s / 3600, 100 * best);
  for (int i = 0; i < 80; i++) {
    double middle = sqrt(lo * hi);
    *(goodput_of(k, middle, s) >= k->goodput ? &hi : &lo) = middle;
  }
  s->needed_write = hi;
  return MAL_OK;
}

/* --- servers --------------------------------------------------------------------------------------------------------- */

static mal_status count_servers(mal_storage *s, mal_error *e) {
  const mal_storage_server *v = s->server;
  const struct {
    double count;
    const char *because;
  } needs[] = {
      {s->read_bytes_per_s / v->read_bytes_per_s.value, N_("reading")},
      {s->write_bytes_per_s / v->write_bytes_per_s.value,
       s->needed_write > s->guided_write ? N_("checkpoints") : N_("writing")},
      {s->bytes / v->bytes.value, N_("capacity")},
  };
  double most = 2; /* so that one may fail */
  s->because = N_("the least: so that one may fail");
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
    if (needs[i].count > most) most = needs[i].count, s->because = needs[i].because;
  if (!(most <= MAL_STORAGE_SERVERS_MOST))
    return mal_fail(
        e, MAL_NO,
        _("%s asks for %.3g storage servers, more than %d: keep less (--dataset, --checkpoint, --keep), or take a "
          "larger server (--storage-server)."),
        _(s->because), most, MAL_STORAGE_SERVERS_MOST);
  s->servers = (int64_t)ceil(most - 1e-9);
  return MAL_OK;
}

mal_status mal_storage_make(const mal_storage_ask *ask, const mal_storage_server *server, mal_storage *s,
                            mal_error *e) {
  *s = (mal_storage){.ask = *ask, .server = server};
  double nodes = (double)ask->nodes, units = fmax(nodes / unit_nodes, 1.0 / unit_nodes);
  double each = fmin(guidance[ask->level].node_read, ask->node_ports_bytes_per_s);
  s->guided_read = fmin(nodes * each, fmax(each, units * guidance[ask->level].unit_read));
  s->guided_write = fmin(nodes * guidance[ask->level].node_write,
                         fmax(guidance[ask->level].node_write, units * guidance[ask->level].unit_write));
  s->mttf_s = mal_mttf_s(ask->failures_per_node_day, ask->nodes);
  if (ask->checkpoint_bytes > 0) {
    mal_status status = solve_write(ask, s, e);
    if (status != MAL_OK) return status;
  }
  s->read_bytes_per_s = s->guided_read;
  s->write_bytes_per_s = fmax(s->guided_write, s->needed_write);
  s->bytes = ((double)ask->kept * ask->checkpoint_bytes + ask->dataset_bytes) / full_share;
  s->cache_share = ask->dataset_bytes > 0 ? fmin(1, nodes * ask->node_nvme_bytes / ask->dataset_bytes) : 1;
  mal_status counted = count_servers(s, e);
  if (counted != MAL_OK) return counted;
  if (ask->checkpoint_bytes > 0) s->goodput = goodput_of(ask, (double)s->servers * server->write_bytes_per_s.value, s);
  return MAL_OK;
}
