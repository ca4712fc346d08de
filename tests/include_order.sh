#!/bin/sh
# A folder of src/ includes only itself and folders before it in this order: what CONTRIBUTING.md says, and no cycles.
set -u
order="core model machine job layout plan program timeline reliability price search simulate engine design check launch report library cli"
cd "$(dirname "$0")/.." || exit 3

# Reads lines FILE:#include "FOLDER/NAME"; prints those that break the order and exits 1 when there is one.
judge() {
  awk -v order="$order" '
    BEGIN { n = split(order, names, " "); for (i = 1; i <= n; i++) place[names[i]] = i }
    {
      split($0, quoted, "\"")
      split($0, path, "/")
      split(quoted[2], target, "/")
      from = place[path[2]]
      to = place[target[1]]
      if (!from || !to || to > from) { print "out of order: " $0; bad = 1 }
    }
    END { exit bad }'
}

includes() { grep -rHE '^#[[:space:]]*include[[:space:]]*"' src --include='*.[ch]'; }

failed=0
[ "$(includes | wc -l)" -gt 100 ] || { echo "FAIL: no includes found" >&2; failed=1; }
includes | judge || { echo "FAIL: includes out of order" >&2; failed=1; }
for wrong in core/x.c:model/model.h reliability/x.c:price/price.h price/x.h:cli/cli.h core/x.c:nowhere/x.h core/x.c:x.h; do
  echo "src/${wrong%%:*}:#include \"${wrong#*:}\"" | judge >/dev/null && { echo "FAIL: $wrong is let through" >&2; failed=1; }
done
for folder in src/*/; do
  case " $order " in
  *" $(basename "$folder") "*) ;;
  *) echo "FAIL: $folder has no place in the order" >&2; failed=1 ;;
  esac
done
listed=$(sed -n 's/^| `\([a-z]*\)\/` |.*/\1/p' CONTRIBUTING.md | tr '\n' ' ')
[ "$listed" = "$order " ] || { echo "FAIL: CONTRIBUTING.md lists: $listed" >&2; failed=1; }
[ "$failed" -eq 0 ]
