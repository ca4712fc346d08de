#!/bin/sh
# Writes the man pages from the option tables: after a change of options, MALHA=build/malha sh docs/man/make.sh
set -eu
cd "$(dirname "$0")"
MALHA=${MALHA:-../../build/malha}
case $MALHA in
/*) ;;
*/*) [ -x "$MALHA" ] || MALHA=../../$MALHA ;;
esac
for page in malha plan lower train validate data models machines design; do
  file=malha-$page.1
  [ "$page" != malha ] || file=malha.1
  "$MALHA" help --man "$page" >"$file"
done
