/* XML as a tree, over expat. A text that breaks off or is malformed gives the tree up to there. */
#ifndef MAL_MACHINE_TOPOLOGY_XML_H
#define MAL_MACHINE_TOPOLOGY_XML_H
#include "core/lines.h"

typedef struct mal_xml {
  const char *name, *text; /* text: what stands between the tags, trimmed; never NULL */
  const char **attributes; /* name, value, ..., NULL */
  struct mal_xml *child, *next, *parent;
  int line; /* of the opening tag, in the paste */
} mal_xml;

/* The first element called `root` in the paste, which may stand among other text. NULL when there is none. *broken (may be
 * NULL): the line where reading stopped before the element's end, else 0. At most MAL_XML_DEPTH deep. */
enum { MAL_XML_DEPTH = 256, MAL_XML_ELEMENTS = 1 << 20 };
mal_xml *mal_xml_read(mal_arena *a, const mal_paste *p, const char *root, int *broken);
const char *mal_xml_attribute(const mal_xml *x, const char *name); /* NULL when absent */
mal_xml *mal_xml_child(const mal_xml *x, const char *name);        /* the first of that name; x may be NULL */
const char *mal_xml_text(const mal_xml *x, const char *name);      /* text of that child, NULL when absent */
mal_xml *mal_xml_next(const mal_xml *x, const mal_xml *top);       /* in document order below top; NULL at the end */
#endif
