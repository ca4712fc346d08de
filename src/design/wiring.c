#include "design/wiring.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/json.h"
#include <stdlib.h>
#include <string.h>

/* Gb/s of one lane by the name that ibnetdiscover prints (InfiniBand Trade Association). */
static const struct {
  const char *name;
  double gbit_s;
} lanes[] = {{"SDR", 2.5}, {"DDR", 5},  {"QDR", 10},  {"FDR10", 10}, {"FDR", 14},
             {"EDR", 25},  {"HDR", 50}, {"NDR", 100}, {"XDR", 200}};

typedef struct reader {
  mal_arena *arena;
  const char *path;
  mal_wiring *found;
  int64_t room;
  /* the device of the lines that follow */
  const char *name, *part;
  bool is_switch;
} reader;

static void add(reader *r, mal_wire link) {
  mal_wiring *f = r->found;
  if (f->count == r->room) {
    int64_t more = 2 * r->room + 256;
    f->links = mal_grow(r->arena, f->links, (size_t)r->room, (size_t)more, sizeof *f->links);
    r->room = more;
  }
  f->links[f->count++] = link;
}

static char *piece(mal_arena *a, const char *from, const char *to) {
  return mal_print(a, "%.*s", (int)(to - from), from);
}

/* --- ibnetdiscover --------------------------------------------------------------------------------------------------- */

/* The first text in double quotes at or after `from` within the line; NULL when there is none. */
static const char *quoted(mal_arena *a, const char *from, const char *end, const char **after) {
  const char *open = memchr(from, '"', (size_t)(end - from));
  const char *close = open ? memchr(open + 1, '"', (size_t)(end - open - 1)) : NULL;
  if (!close) return NULL;
  if (after) *after = close + 1;
  return piece(a, open + 1, close);
}

/* A host describes itself as "HOST ADAPTER"; a switch as "MF0;NAME:MODEL/UNIT" or by its plain name. */
static void set_names(mal_arena *a, const char *description, bool is_switch, const char **device, const char **part) {
  *part = "";
  if (is_switch) {
    const char *at = strncmp(description, "MF0;", 4) == 0 ? description + 4 : description;
    const char *colon = at > description ? strchr(at, ':') : NULL;
    bool director =
        colon && strchr(colon, '/') && strchr(strchr(colon, '/') + 1, '/'); /* MCS8500/L01/U1: keep the board */
    *device = !colon || director ? mal_copy(a, at) : piece(a, at, colon);
    return;
  }
  const char *space = strchr(description, ' ');
  *device = space ? piece(a, description, space) : description;
  if (space) *part = mal_copy(a, space + 1 + strspn(space + 1, " "));
}

static double speed_of(const char *from, const char *end) {
  for (const char *x = end; x-- > from;) {
    if (*x != 'x' || x == from) continue;
    const char *start = x;
    while (start > from && start[-1] >= '0' && start[-1] <= '9') start--;
    if (start == x) continue;
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
      size_t n = strlen(lanes[i].name);
      if ((size_t)(end - x - 1) >= n && memcmp(x + 1, lanes[i].name, n) == 0)
        return strtod(start, NULL) * lanes[i].gbit_s * 1e9 / 8;
    }
  }
  return 0;
}

static mal_status bad_line(const reader *r, int line, const char *what, mal_error *e) {
  return mal_fail(e, MAL_BAD, _("%s:%d: %s; is the output of ibnetdiscover whole?"), r->path, line, what);
}

static mal_status device_line(reader *r, const char *from, const char *end, int line, mal_error *e) {
  const char *after = NULL, *description = NULL;
  r->is_switch = strncmp(from, "Switch", 6) == 0;
  if (!quoted(r->arena, from, end, &after)) return bad_line(r, line, _("a device without its GUID"), e);
  description = quoted(r->arena, after, end, NULL);
  if (!description) return bad_line(r, line, _("a device without its description"), e);
  set_names(r->arena, description, r->is_switch, &r->name, &r->part);
  *(r->is_switch ? &r->found->switches : &r->found->hosts) += 1;
  return MAL_OK;
}

/* [1](guid) "S-..."[21](guid) # ... "description" lid 7 4xHDR. Taken at a switch, and of two switches at one. */
static mal_status port_line(reader *r, const char *from, const char *end, int line, mal_error *e) {
  const char *after = NULL, *guid, *open, *description;
  int64_t port = strtoll(from + 1, NULL, 10);
  if (!r->name) return bad_line(r, line, _("a port before any device"), e);
  guid = quoted(r->arena, from, end, &after);
  if (!guid || after >= end || *after != '[') return bad_line(r, line, _("a port without its peer"), e);
  int64_t peer_port = strtoll(after + 1, NULL, 10);
  open = memchr(after, '#', (size_t)(end - after));
  description = open ? quoted(r->arena, open, end, NULL) : NULL;
  if (!description) return bad_line(r, line, _("a port without the description of its peer"), e);
  if (!r->is_switch) return MAL_OK;
  mal_wire link = {{r->name, "", port, true}, {NULL, NULL, peer_port, guid[0] == 'S'}, speed_of(open, end), line};
  set_names(r->arena, description, link.b.is_switch, &link.b.device, &link.b.part);
  int order = strcmp(link.a.device, link.b.device);
  if (link.b.is_switch && (order > 0 || (order == 0 && port > peer_port))) return MAL_OK;
  add(r, link);
  return MAL_OK;
}

static mal_status parse_ib(reader *r, const char *text, size_t length, mal_error *e) {
  int line = 1;
  mal_status s = MAL_OK;
  for (const char *at = text, *stop = text + length; at < stop && s == MAL_OK; line++) {
    const char *end = memchr(at, '\n', (size_t)(stop - at));
    if (!end) end = stop;
    if (strncmp(at, "Switch", 6) == 0 || strncmp(at, "Ca", 2) == 0)
      s = device_line(r, at, end, line, e);
    else if (*at == '[')
      s = port_line(r, at, end, line, e);
    at = end + 1;
  }
  return s;
}

/* --- LLDP ------------------------------------------------------------------------------------------------------------ */

/* The number that a port's name ends in: swp12 is 12, Ethernet1/5 is 5. */
static int64_t last_number(const char *text) {
  const char *at = text + strlen(text);
  while (at > text && at[-1] >= '0' && at[-1] <= '9') at--;
  return *at ? strtoll(at, NULL, 10) : -1;
}

static void lldp_interface(reader *r, const char *host, const char *name, const json_t *o) {
  const char *device = NULL;
  json_t *chassis = json_object_get(o, "chassis"), *port = json_object_get(o, "port");
  const char *key = json_object_iter_key(json_object_iter(chassis));
  json_t *named = json_object_get(chassis, "name");
  device = json_is_string(named) ? json_string_value(named) : key;
  json_t *id = json_object_get(port, "id");
  const char *value = json_string_value(json_object_get(id, "value"));
  if (!value) value = json_string_value(json_object_get(port, "descr"));
  if (!device || !value || last_number(value) < 0) return;
  bool from_switch = last_number(name) >= 0 && strncmp(name, "swp", 3) == 0;
  mal_wire_end peer = {mal_copy(r->arena, device), "", last_number(value), true};
  mal_wire_end own = {mal_copy(r->arena, host), from_switch ? "" : mal_copy(r->arena, name),
                      from_switch ? last_number(name) : 1, from_switch};
  if (from_switch && strcmp(own.device, peer.device) > 0) return; /* the peer tells of it too */
  add(r, (mal_wire){from_switch ? own : peer, from_switch ? peer : own, 0, 0});
}

static void lldp_host(reader *r, const char *host, const json_t *lldp) {
  json_t *interfaces = json_object_get(lldp, "interface"), *one, *o;
  const char *name;
  size_t i;
  r->found->hosts++;
  if (json_is_object(interfaces)) json_object_foreach(interfaces, name, o) lldp_interface(r, host, name, o);
  json_array_foreach(interfaces, i, one) json_object_foreach(one, name, o) lldp_interface(r, host, name, o);
}

static mal_status parse_lldp(reader *r, const char *text, size_t length, mal_error *e) {
  mal_json j;
  mal_status s = mal_json_parse(r->arena, r->path, text, length, &j, e);
  if (s != MAL_OK) return s;
  json_t *own = json_object_get(j.root, "lldp"), *one;
  const char *host;
  if (own) {
    const char *slash = strrchr(r->path, '/'), *file = slash ? slash + 1 : r->path;
    lldp_host(r, piece(r->arena, file, file + strcspn(file, ".")), own);
  } else {
    json_object_foreach(j.root, host, one)
        lldp_host(r, host, json_object_get(one, "lldp") ? json_object_get(one, "lldp") : one);
  }
  if (r->found->count == 0)
    s = mal_fail(e, MAL_BAD,
                 _("%s: no neighbour in it; give what lldpctl -f json prints, or an object of such by host."), r->path);
  mal_json_free(&j);
  return s;
}

mal_status mal_wiring_parse(mal_arena *a, const char *path, const char *text, size_t length, mal_wiring *f,
                            mal_error *e) {
  *f = (mal_wiring){0};
  reader r = {.arena = a, .path = path, .found = f};
  size_t bad;
  if (!mal_utf8_valid(text, length, &bad))
    return mal_fail(e, MAL_BAD, _("%s:%d: not UTF-8 text."), path, mal_line_of(text, bad));
  size_t at = strspn(text, " \t\r\n");
  if (text[at] == '{') return parse_lldp(&r, text, length, e);
  if (!strstr(text, "switchguid=") && !strstr(text, "caguid="))
    return mal_fail(e, MAL_BAD, _("%s: neither the output of ibnetdiscover nor of lldpctl -f json."), path);
  return parse_ib(&r, text, length, e);
}

mal_status mal_wiring_read(mal_arena *a, const char *path, mal_wiring *f, mal_error *e) {
  char *text;
  size_t length;
  mal_status s = mal_file_read(a, path, MAL_WIRING_LIMIT_BYTES, &text, &length, e);
  return s == MAL_OK ? mal_wiring_parse(a, path, text, length, f, e) : s;
}

/* --- names ----------------------------------------------------------------------------------------------------------- */

typedef struct rename_pair {
  const char *found, *expected;
} rename_pair;

static int by_found(const void *x, const void *y) {
  return strcmp(((const rename_pair *)x)->found, ((const rename_pair *)y)->found);
}

mal_status mal_wiring_rename(mal_arena *a, const char *path, mal_wiring *f, mal_error *e) {
  mal_csv csv;
  mal_status s = mal_csv_read(a, path, &csv, e);
  if (s != MAL_OK) return s;
  int from = mal_csv_column(&csv, "found"), to = mal_csv_column(&csv, "expected");
  if (from < 0 || to < 0)
    return mal_fail(e, MAL_BAD, _("%s: a file of names has the columns found and expected."), path);
  rename_pair *pairs = MAL_ARRAY(a, rename_pair, csv.rows + 1);
  for (int i = 0; i < csv.rows; i++) pairs[i] = (rename_pair){mal_csv_cell(&csv, i, from), mal_csv_cell(&csv, i, to)};
  qsort(pairs, (size_t)csv.rows, sizeof *pairs, by_found);
  for (int64_t i = 0; i < 2 * f->count; i++) {
    mal_wire_end *end = i % 2 ? &f->links[i / 2].b : &f->links[i / 2].a;
    const rename_pair *p = bsearch(&(rename_pair){end->device, NULL}, pairs, (size_t)csv.rows, sizeof *pairs, by_found);
    if (p) end->device = p->expected;
  }
  return MAL_OK;
}
