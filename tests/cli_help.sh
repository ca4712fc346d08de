#!/bin/sh
# Help: every verb has it, nothing is wider than 80 columns, the man pages are those of the tables.
set -u
: "${MALHA:?path of the command}"
command -v python3 >/dev/null || exit 77
here=$(cd "$(dirname "$0")/.." && pwd)
failed=0
fail() {
  echo "FAIL: $*" >&2
  failed=$((failed + 1))
}
narrow() { python3 -c 'import sys; sys.exit(any(len(l.rstrip("\n")) > 80 for l in sys.stdin))'; }

"$MALHA" >/dev/null || fail "malha alone"
"$MALHA" | narrow >&2 || fail "malha alone is wider than 80 columns"
"$MALHA" --version | grep -Eq '^malha [0-9]+\.[0-9]+' || fail "--version"
verbs=$("$MALHA" | sed -n 's/^ *malha \([a-z]*\) .*/\1/p' | sort -u)
for verb in $verbs; do
  "$MALHA" | grep -q "malha $verb" || fail "$verb is not in the overview"
  "$MALHA" $verb --help >/dev/null || fail "$verb --help"
  "$MALHA" $verb --help | narrow >&2 || fail "$verb --help is wider than 80 columns"
  [ "$("$MALHA" $verb --help)" = "$("$MALHA" help $verb)" ] || fail "help $verb and $verb --help differ"
  "$MALHA" help --man $verb | grep -q '^.TH MALHA' || fail "man page of $verb"
done
"$MALHA" plan --help | grep -q 'global-batch' || fail "the job's options are missing in plan --help"
"$MALHA" plan --help | grep -q 'recompute=' || fail "the layout's keys are missing in plan --help"
for page in malha $verbs; do
  file=$here/docs/man/malha-$page.1
  [ $page = malha ] && file=$here/docs/man/malha.1
  "$MALHA" help --man $page | cmp -s - "$file" || fail "$file is not what malha help --man $page writes: run sh docs/man/make.sh"
done
for verb in $verbs; do
  grep -q "malha $verb" "$here/docs/$verb.md" || fail "docs/$verb.md"
done
# In Portuguese too, where it was built.
if LC_ALL=C.UTF-8 LANGUAGE=pt "$MALHA" | grep -q 'malha plan MODELO'; then
  for verb in plan lower validate models machines; do
    LC_ALL=C.UTF-8 LANGUAGE=pt "$MALHA" $verb --help | narrow >&2 || fail "$verb --help in Portuguese is wider than 80 columns"
  done
fi
# What validate prints at length; the table of runs where it is there.
"$MALHA" validate --defaults | narrow >&2 || fail "validate --defaults is wider than 80 columns"
runs=$here/../shared/data/runs.csv
if [ -r "$runs" ]; then
  "$MALHA" validate "$runs" --rows | narrow >&2 || fail "validate --rows is wider than 80 columns"
fi
[ $failed -eq 0 ] || exit 1
echo ok
