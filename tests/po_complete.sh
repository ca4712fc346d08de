#!/bin/sh
# Portuguese: no message of plan, lower, validate, models and machines is missing, and each has the form of the English one.
# To mend: sh po/update.sh, then fill the empty msgstr of po/pt.po.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
for tool in xgettext msgmerge msgattrib msgfmt; do
  command -v $tool >/dev/null || exit 77
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here" || exit 3
{
  for folder in core model machine job layout plan program price; do
    find src/$folder -maxdepth 1 -name '*.[ch]' ! -name 'placement.c' ! -name 'here.c'
  done
  find src/check src/report -name 'row*.[ch]' -o -name 'run*.[ch]' -o -name 'validat*.[ch]' -o -name 'frameworks.[ch]' \
    -o -name 'answer.c' -o -name 'page.c' -o -name 'plan_*.c' -o -name 'models.c' -o -name 'machines.c'
  for file in catalog help inputs lower main plan validate; do echo "src/cli/$file.c"; done
} | sort | xargs ls 2>/dev/null |
  xgettext --files-from=- --from-code=UTF-8 --language=C --keyword=_ --keyword=N_ --keyword=P_:1,2 --sort-by-file \
    --no-location --output="$work/pot"
msgmerge --quiet --no-fuzzy-matching --no-location --output-file="$work/po" po/pt.po "$work/pot" || exit 1
msgattrib --untranslated --no-obsolete "$work/po" >"$work/missing"
if grep -q '^msgid "..*\|^"..*' "$work/missing"; then
  echo "not in po/pt.po (sh po/update.sh, then fill the empty msgstr):" >&2
  grep -v '^#' "$work/missing" >&2
  exit 1
fi
msgfmt --check-format --output-file=/dev/null po/pt.po || exit 1
echo ok
