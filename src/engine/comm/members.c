#include "engine/comm/comm.h"

int32_t mal_members_size(const mal_members *m) {
  int32_t size = 1;
  for (int d = 0; d < m->dims; d++) size *= m->extent[d];
  return size;
}

int32_t mal_members_rank(const mal_members *m, int32_t index) {
  int32_t rank = m->base;
  for (int d = 0; d < m->dims; d++) {
    rank += index % m->extent[d] * m->stride[d];
    index /= m->extent[d];
  }
  return rank;
}

int32_t mal_members_index(const mal_members *m, int32_t rank) {
  int32_t size = mal_members_size(m);
  for (int32_t i = 0; i < size; i++)
    if (mal_members_rank(m, i) == rank) return i;
  return -1;
}
