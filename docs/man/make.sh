#!/bin/sh
# Writes the man pages from the option tables: after a change of options, MALHA=build/malha sh docs/man/make.sh
set -eu
cd "$(dirname "$0")"
MALHA=${MALHA:-../../build/malha}
case $MALHA in
/*) ;;
*/*) [ -x "$MALHA" ] || MALHA=../../$MALHA ;;
esac
# The verbs are those of the overview.
for page in malha $("$MALHA" | sed -n 's/^ *malha \([a-z]*\) .*/\1/p' | sort -u); do
  file=malha-$page.1
  [ "$page" != malha ] || file=malha.1
  "$MALHA" help --man "$page" >"$file"
done
