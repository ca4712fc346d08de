/* The hosts: CPU sockets with their memory and drives, links between them, each GPU's PCIe link, shared storage. */
#include "core/random.h"
#include "price/kernel.h"
#include "price/upkeep.h"
#include "program/block.h"
#include "simulate/maker.h"
#include <math.h>

static int64_t socket_of(const mal_sim_maker *m, int64_t local) {
  return local * m->sockets / m->plan->machine.gpus_per_node;
}

static int64_t gpu_socket(const mal_sim_maker *m, int64_t rank) {
  return socket_of(m, rank % m->plan->machine.gpus_per_node);
}

static int64_t memory_socket(const mal_sim_maker *m, int64_t rank) {
  return (gpu_socket(m, rank) + m->ranks[rank].far_memory) % m->sockets;
}

static int64_t nic_socket(const mal_sim_maker *m, int64_t rank) {
  return m->ranks[rank].nic * m->sockets / m->node_nics;
}

void mal_sim_count_sockets(mal_sim_maker *m) {
  const mal_machine *machine = &m->plan->machine;
  int64_t all = (int64_t)machine->node->cpu_sockets.value;
  m->sockets = all < 1 ? 1 : all < machine->gpus_per_node ? all : machine->gpus_per_node;
  m->pcie_rate = mal_pcie_copy_rate(machine);
  m->cpu_left = MAL_ARRAY(m->w->arena, double, machine->nodes);
  for (int64_t n = 0; n < machine->nodes; n++) m->cpu_left[n] = 1;
}

static bool copies(const mal_program *p) {
  for (int b = 0; b < p->n_blocks; b++)
    for (int list = 0; list < MAL_LISTS; list++)
      for (int i = 0; i < p->blocks[b].count[list]; i++)
        if (p->blocks[b].list[list][i].op == MAL_OP_COPY && p->blocks[b].list[list][i].variant) return true;
  return false;
}

bool mal_sim_needs_hosts(const mal_sim_maker *m) {
  if (m->setup->checkpoint || copies(m->w->program)) return true;
  for (int i = 0; i < m->setup->n_faults; i++)
    if (m->setup->faults[i].kind >= MAL_BROKEN_PCIE) return true;
  for (int64_t r = 0; r < m->w->ranks; r++)
    if (gpu_socket(m, r) != nic_socket(m, r)) return true;
  return false;
}

static int64_t socket_at(const mal_sim_maker *m, int64_t rank, int64_t socket) {
  return mal_sim_node_of(m, rank) * m->sockets + socket;
}

uint64_t *mal_sim_socket_colours(const mal_sim_maker *m, uint64_t *into) {
  int64_t all = m->plan->machine.nodes * m->sockets;
  for (int64_t i = 0; i < all; i++) into[i] = mal_mix64((uint64_t)(1e6 * m->cpu_left[i / m->sockets]));
  for (int64_t r = 0; r < m->w->ranks; r++) {
    uint64_t colour = m->colour[r / m->w->team_size];
    int64_t at = gpu_socket(m, r);
    bool memory = memory_socket(m, r) != at, nic = nic_socket(m, r) != at;
    into[socket_at(m, r, at)] += mal_mix64(colour + memory + 2 * nic);
    if (memory) into[socket_at(m, r, memory_socket(m, r))] += mal_mix64(colour + 5);
    if (nic) into[socket_at(m, r, nic_socket(m, r))] += mal_mix64(colour + 7);
  }
  return into;
}

/* What a rank takes up of the colours of its sockets. */
uint64_t mal_sim_socket_colour(const mal_sim_maker *m, const uint64_t *sockets, int64_t rank) {
  return mal_mix64(sockets[socket_at(m, rank, gpu_socket(m, rank))]) ^
         3 * mal_mix64(sockets[socket_at(m, rank, memory_socket(m, rank))] + 1) ^
         5 * mal_mix64(sockets[socket_at(m, rank, nic_socket(m, rank))] + 2);
}

static mal_sim_guest *guest_of(mal_sim_socket *s, int32_t class) {
  for (int32_t i = 0; i < s->n_guests; i++)
    if (s->guests[i].class == class) return &s->guests[i];
  s->guests[s->n_guests].class = class;
  return &s->guests[s->n_guests++];
}

static void set_socket(const mal_sim_maker *m, mal_sim_socket *s) {
  const mal_sim_world *w = m->w;
  const mal_machine *machine = &m->plan->machine;
  int64_t gpus = machine->gpus_per_node, own = 0;
  s->guests = MAL_ARRAY(w->arena, mal_sim_guest, gpus);
  for (int64_t g = 0; g < gpus; g++) own += socket_of(m, g) == s->index;
  for (int64_t g = 0; g < gpus && s->node * gpus + g < w->ranks; g++) {
    int64_t r = s->node * gpus + g;
    bool here = gpu_socket(m, r) == s->index, memory = memory_socket(m, r) == s->index,
         nic = nic_socket(m, r) == s->index;
    if (!here && !memory && !nic) continue;
    mal_sim_guest *x = guest_of(s, w->class_of[r / w->team_size]);
    x->memory += memory;
    x->from_memory += memory && !here, x->to_memory += here && !memory;
    x->from_nic += nic && !here, x->to_nic += here && !nic;
  }
  const mal_node *node = machine->node;
  double share = (double)own / (double)gpus;
  s->memory = node->ram_bytes_per_s.value > 0 ? node->ram_bytes_per_s.value * share : INFINITY;
  s->read = node->nvme_read_bytes_per_s.value > 0 ? node->nvme_read_bytes_per_s.value * share : INFINITY;
  s->write = node->nvme_write_bytes_per_s.value > 0 ? node->nvme_write_bytes_per_s.value * share : INFINITY;
  double link = node->cpu_link_bytes_per_s.value > 0 ? node->cpu_link_bytes_per_s.value : s->memory;
  s->link = link * m->cpu_left[s->node];
}

void mal_sim_set_sockets(mal_sim_maker *m) {
  mal_sim_world *w = m->w;
  int64_t all = m->plan->machine.nodes * m->sockets;
  int32_t *first;
  uint64_t *colour = mal_sim_socket_colours(m, MAL_ARRAY(w->arena, uint64_t, all));
  if (w->all_ranks)
    for (int64_t i = 0; i < all; i++) colour[i] = (uint64_t)i;
  w->socket_class = MAL_ARRAY(w->arena, int32_t, all);
  w->n_sockets = mal_sim_number(w->arena, colour, all, w->socket_class, &first);
  w->sockets = MAL_ARRAY(w->arena, mal_sim_socket, w->n_sockets);
  for (int64_t i = 0; i < all; i++) w->sockets[w->socket_class[i]].count++;
  for (int32_t s = 0; s < w->n_sockets; s++) {
    w->sockets[s].node = first[s] / m->sockets, w->sockets[s].index = first[s] % m->sockets;
    set_socket(m, &w->sockets[s]);
  }
}

void mal_sim_set_host_links(mal_sim_maker *m) {
  mal_sim_world *w = m->w;
  const mal_machine *machine = &m->plan->machine;
  double left = 1 - m->setup->background;
  for (int i = 0; i < m->setup->n_faults; i++)
    if (m->setup->faults[i].kind == MAL_BROKEN_STORAGE) left *= 1 - m->setup->faults[i].lost;
  w->capacity[mal_sim_storage_read(w)] = mal_storage_reads(machine).all * left;
  w->capacity[mal_sim_storage_write(w)] = mal_storage_writes(machine).all * left;
  if (!w->hosts) return;
  for (int32_t s = 0; s < w->n_sockets; s++)
    for (int k = 0; k < MAL_SOCKET_LINKS; k++)
      w->capacity[mal_sim_socket_link(w, s, k)] =
          ((const double[]){w->sockets[s].memory, w->sockets[s].link, w->sockets[s].read, w->sockets[s].write})[k];
  /* what goes to the NIC uses the same lanes; alone it must not be held up */
  for (int32_t c = 0; c < w->n_classes; c++)
    for (int out = 0; out < 2; out++)
      w->capacity[mal_sim_pcie(w, c, out)] = fmax(m->pcie_rate, m->nic_share) * w->classes[c].pcie_left;
}

/* --- what a copy uses ------------------------------------------------------------------------------------------------------ */

static void add(mal_flow_use *uses, int32_t *count, int32_t link, double weight) {
  if (weight > 0) uses[(*count)++] = (mal_flow_use){link, (float)weight};
}

static const mal_sim_guest *guest(const mal_sim_socket *s, int32_t class) {
  for (int32_t i = 0; i < s->n_guests; i++)
    if (s->guests[i].class == class) return &s->guests[i];
  return NULL;
}

/* from, to: mal_place; bytes of one rank. */
int32_t mal_sim_copy_uses(const mal_sim_world *w, int32_t class, int from, int to, mal_flow_use *uses) {
  const mal_sim_class *c = &w->classes[class];
  int32_t count = 0;
  if (!w->hosts) return 0;
  double pcie = fmax(w->maker->pcie_rate, w->maker->nic_share) / w->maker->pcie_rate;
  if ((from == MAL_DEVICE) != (to == MAL_DEVICE)) add(uses, &count, mal_sim_pcie(w, class, from == MAL_DEVICE), pcie);
  for (int32_t k = 0; k < c->n_sockets; k++) {
    int32_t at = c->sockets[k];
    const mal_sim_guest *g = guest(&w->sockets[at], class);
    if (!g) continue;
    add(uses, &count, mal_sim_socket_link(w, at, MAL_SOCKET_MEMORY), g->memory);
    if (from == MAL_NVME) add(uses, &count, mal_sim_socket_link(w, at, MAL_SOCKET_READ), g->memory);
    if (to == MAL_NVME) add(uses, &count, mal_sim_socket_link(w, at, MAL_SOCKET_WRITE), g->memory);
    if (to == MAL_DEVICE) add(uses, &count, mal_sim_socket_link(w, at, MAL_SOCKET_LINK), g->from_memory);
    if (from == MAL_DEVICE) add(uses, &count, mal_sim_socket_link(w, at, MAL_SOCKET_LINK), g->to_memory);
  }
  return count;
}

/* The way between a class's GPUs and its NICs, inside the node; out: from the GPUs. */
int32_t mal_sim_nic_way(const mal_sim_world *w, int32_t class, bool out, mal_flow_use *uses) {
  const mal_sim_class *c = &w->classes[class];
  int32_t count = 0;
  if (!w->hosts) return 0;
  add(uses, &count, mal_sim_pcie(w, class, out), 1);
  for (int32_t k = 0; k < c->n_sockets; k++) {
    const mal_sim_guest *g = guest(&w->sockets[c->sockets[k]], class);
    if (g) add(uses, &count, mal_sim_socket_link(w, c->sockets[k], MAL_SOCKET_LINK), out ? g->to_nic : g->from_nic);
  }
  return count;
}

void mal_sim_note_sockets(mal_sim_maker *m) {
  mal_sim_world *w = m->w;
  for (int32_t c = 0; c < w->n_classes; c++) {
    mal_sim_class *class = &w->classes[c];
    class->sockets = MAL_ARRAY(w->arena, int32_t, 3 * w->team_size);
    for (int64_t k = 0; k < w->team_size; k++) {
      int64_t r = class->team * w->team_size + k, at[3] = {gpu_socket(m, r), memory_socket(m, r), nic_socket(m, r)};
      for (int i = 0; i < 3; i++)
        class->n_sockets =
            mal_sim_add_member(class->sockets, 0, class->n_sockets, w->socket_class[socket_at(m, r, at[i])]);
    }
  }
}
