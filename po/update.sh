#!/bin/sh
# Collects the words of the sources into po/*.po; what is new stays English until translated. Needs gettext.
set -eu
cd "$(dirname "$0")/.."
find src -name '*.c' -o -name '*.h' | sort |
  xgettext --files-from=- --from-code=UTF-8 --language=C --keyword=_ --keyword=N_ --keyword=P_:1,2 --sort-by-file --no-location \
    --add-comments=Translators --package-name=malha --output=po/malha.pot
for po in po/*.po; do
  msgmerge --quiet --update --backup=none --no-fuzzy-matching --no-location "$po" po/malha.pot
done
rm po/malha.pot
