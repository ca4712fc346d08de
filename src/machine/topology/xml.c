#include "machine/topology/xml.h"
#include <expat.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct building {
  mal_arena *arena;
  XML_Parser parser;
  mal_xml *root, *open, *last[MAL_XML_DEPTH + 1]; /* last child of each open element */
  mal_writing text[MAL_XML_DEPTH + 1];
  int depth, elements, line;
  bool done;
} building;

static void XMLCALL opening(void *user, const XML_Char *name, const XML_Char **attributes) {
  building *b = user;
  if (b->depth >= MAL_XML_DEPTH || ++b->elements > MAL_XML_ELEMENTS) {
    XML_StopParser(b->parser, XML_FALSE);
    return;
  }
  int n = 0;
  while (attributes[n]) n++;
  mal_xml *x = MAL_NEW(b->arena, mal_xml);
  x->name = mal_copy(b->arena, name);
  x->text = "";
  x->attributes = MAL_ARRAY(b->arena, const char *, n + 1);
  for (int i = 0; i < n; i++) x->attributes[i] = mal_copy(b->arena, attributes[i]);
  x->line = b->line + (int)XML_GetCurrentLineNumber(b->parser) - 1;
  x->parent = b->open;
  if (!b->open)
    b->root = x;
  else if (b->last[b->depth])
    b->last[b->depth]->next = x;
  else
    b->open->child = x;
  b->last[b->depth] = x;
  b->open = x;
  b->depth++;
  b->last[b->depth] = NULL;
  b->text[b->depth] = (mal_writing){.arena = b->arena};
}

static void close_text(building *b) {
  mal_writing *w = &b->text[b->depth];
  if (w->text) b->open->text = mal_trimmed(b->arena, w->text, w->used);
}

static void XMLCALL closing(void *user, const XML_Char *name) {
  building *b = user;
  (void)name;
  close_text(b);
  b->open = b->open->parent;
  b->depth--;
  if (b->depth == 0) {
    b->done = true; /* what follows the element is other text */
    XML_StopParser(b->parser, XML_FALSE);
  }
}

static void XMLCALL characters(void *user, const XML_Char *text, int length) {
  building *b = user;
  if (b->depth > 0 && length > 0) mal_write(&b->text[b->depth], "%.*s", length, text);
}

/* Declarations of entities are refused: captures have none, and they are how XML is made to explode. */
static void XMLCALL entity(void *user, const XML_Char *name, int parameter, const XML_Char *value, int length,
                           const XML_Char *base, const XML_Char *system, const XML_Char *public,
                           const XML_Char *notation) {
  building *b = user;
  (void)name, (void)parameter, (void)value, (void)length, (void)base, (void)system, (void)public, (void)notation;
  XML_StopParser(b->parser, XML_FALSE);
}

static const char *find_root(const mal_paste *p, const char *root) {
  size_t n = strlen(root);
  for (const char *at = p->text; (at = strchr(at, '<')); at++)
    if (strncmp(at + 1, root, n) == 0 && strchr(" \t\r\n>/", at[1 + n]) && at[1 + n]) return at;
  return NULL;
}

mal_xml *mal_xml_read(mal_arena *a, const mal_paste *p, const char *root, int *broken) {
  if (broken) *broken = 0;
  const char *from = find_root(p, root);
  if (!from) return NULL;
  building *b = MAL_NEW(a, building);
  *b = (building){.arena = a, .line = 1, .parser = XML_ParserCreate("UTF-8")};
  if (!b->parser) return NULL;
  for (const char *at = p->text; (at = memchr(at, '\n', (size_t)(from - at))); at++) b->line++;
  XML_SetUserData(b->parser, b);
  XML_SetElementHandler(b->parser, opening, closing);
  XML_SetCharacterDataHandler(b->parser, characters);
  XML_SetEntityDeclHandler(b->parser, entity);
  size_t left = (size_t)(p->text + p->length - from);
  enum { CHUNK = 1 << 20 };
  bool failed = false;
  while (left && !failed && !b->done) {
    size_t n = left < CHUNK ? left : CHUNK;
    failed = XML_Parse(b->parser, from, (int)n, n == left) != XML_STATUS_OK;
    from += n;
    left -= n;
  }
  if (!b->done && broken) *broken = b->line + (int)XML_GetCurrentLineNumber(b->parser) - 1;
  while (b->open) { /* what was open when it broke off */
    close_text(b);
    b->open = b->open->parent;
    b->depth--;
  }
  XML_ParserFree(b->parser);
  return b->root;
}

const char *mal_xml_attribute(const mal_xml *x, const char *name) {
  for (int i = 0; x && x->attributes[i]; i += 2)
    if (strcmp(x->attributes[i], name) == 0) return x->attributes[i + 1];
  return NULL;
}

mal_xml *mal_xml_child(const mal_xml *x, const char *name) {
  for (mal_xml *c = x ? x->child : NULL; c; c = c->next)
    if (strcmp(c->name, name) == 0) return c;
  return NULL;
}

const char *mal_xml_text(const mal_xml *x, const char *name) {
  const mal_xml *c = mal_xml_child(x, name);
  return c ? c->text : NULL;
}

mal_xml *mal_xml_next(const mal_xml *x, const mal_xml *top) {
  if (x->child) return x->child;
  while (x != top && !x->next) x = x->parent;
  return x == top ? NULL : x->next;
}
