/* How full each class of links was up to the end of the step. */
#include "simulate/play.h"
#include <math.h>

typedef enum bearer { OF_RANK, OF_NIC, OF_STORAGE, OF_PCIE, OF_SOCKET, OF_FABRIC } bearer;

typedef struct row {
  const char *name;
  bearer bearer;
  int32_t from, to, step;
  int64_t count;
} row;

typedef struct table {
  mal_arena *arena;
  const mal_sim_world *w;
  const mal_sim_played *p;
  mal_simulated *out;
} table;

static const char *name_of(const table *t, const row *r, int32_t link) {
  const mal_sim_world *w = t->w;
  if (r->bearer == OF_FABRIC) return mal_topology_link_name(&w->topology, t->arena, link - r->from);
  if (r->bearer == OF_STORAGE) return _("shared storage");
  if (r->bearer == OF_NIC) {
    const mal_sim_nic *nic = &w->nics[(link - r->from) % w->n_nics];
    return mal_print(t->arena, _("NIC %lld of node %lld"), (long long)nic->index, (long long)nic->node);
  }
  if (r->bearer == OF_SOCKET) {
    const mal_sim_socket *s = &w->sockets[(link - r->from) / r->step];
    return mal_print(t->arena, _("socket %lld of node %lld"), (long long)s->index, (long long)s->node);
  }
  int32_t class = r->bearer == OF_PCIE ? (link - r->from) / 2 : link % w->n_classes;
  return mal_print(t->arena, _("rank %lld"), (long long)(w->classes[class].team * w->team_size));
}

static void add(const table *t, const row *r) {
  int32_t best = r->from;
  double used = -1;
  for (int32_t i = r->from; i < r->to; i += r->step) {
    double capacity = t->w->capacity[i], share = capacity > 0 ? t->p->link_bytes[i] / capacity : 0;
    if (share > used) used = share, best = i;
  }
  if (r->from >= r->to || isinf(t->w->capacity[best])) return;
  mal_simulated_link *l = &t->out->links[t->out->n_links++];
  *l = (mal_simulated_link){.name = r->name, .count = r->count, .bytes_per_s = t->w->capacity[best]};
  l->bytes = t->p->link_bytes[best];
  l->busy_s = t->p->link_busy_s[best];
  l->used = t->out->played_s > 0 ? used / t->out->played_s : 0;
  l->busiest = name_of(t, r, best);
}

static void add_hosts(const table *t) {
  const mal_sim_world *w = t->w;
  int64_t sockets = 0;
  int32_t first = mal_sim_socket_link(w, 0, 0), end = mal_sim_socket_link(w, w->n_sockets, 0);
  static const char *const names[MAL_SOCKET_LINKS] = {"host-memory", "cpu-link", "nvme-read", "nvme-write"};
  for (int32_t i = 0; i < w->n_sockets; i++) sockets += w->sockets[i].count;
  add(t, &(row){"host-pcie", OF_PCIE, mal_sim_pcie(w, 0, false), first, 1, w->ranks});
  for (int k = 0; k < MAL_SOCKET_LINKS; k++)
    add(t, &(row){names[k], OF_SOCKET, first + k, end, MAL_SOCKET_LINKS, sockets});
}

void mal_sim_used_links(mal_arena *a, const mal_sim_world *w, const mal_sim_played *p, mal_simulated *out) {
  enum { MOST_ROWS = 12 };
  const mal_machine *m = &w->program->plan->machine;
  table t = {a, w, p, out};
  bool nvlink = m->gpu->nvlink_bytes_per_s.value > 0 && mal_machine_domain(m) > 1;
  int64_t nics = 0;
  out->links = MAL_ARRAY(a, mal_simulated_link, MOST_ROWS);
  add(&t, &(row){nvlink ? "nvlink" : "pcie", OF_RANK, 0, mal_sim_nic_out(w, 0), 1, w->ranks});
  for (int32_t n = 0; n < w->n_nics; n++) nics += w->nics[n].count;
  if (m->nodes > 1) add(&t, &(row){"nic", OF_NIC, mal_sim_nic_out(w, 0), mal_sim_storage_read(w), 1, nics});
  if (w->fabric) {
    int32_t fabric = mal_sim_fabric_link(w, 0);
    add(&t, &(row){"fabric", OF_FABRIC, fabric, w->n_links, 1, w->n_links - fabric});
  }
  if (w->hosts) add_hosts(&t);
  add(&t, &(row){"storage-read", OF_STORAGE, mal_sim_storage_read(w), mal_sim_storage_write(w), 1, 1});
  add(&t, &(row){"storage-write", OF_STORAGE, mal_sim_storage_write(w), mal_sim_storage_write(w) + 1, 1, 1});
  double most = 0;
  for (int i = 0; i < out->n_links; i++)
    if (out->links[i].used > most) most = out->links[i].used, out->slowest_link = out->links[i].busiest;
}
