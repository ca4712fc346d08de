#!/bin/sh
# malha check as a user calls it, and the walkthrough of docs/slow-node.md.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
corpus=tests/fuzz/corpus/check
fail() { echo "FAIL: $*" >&2; failed=1; }
expect() { # STATUS WORD COMMAND...
  status=$1 word=$2
  shift 2
  "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" -eq "$status" ] || fail "$*: exit $got, not $status: $(cat "$work/err")"
  cat "$work/out" "$work/err" | tr -s '\n ' '  ' | grep -qF -- "$word" || fail "$*: '$word' is not said: $(cat "$work/out" "$work/err")"
}

# The walkthrough: its commands run, the sick node is sick and the cured one well.
sed -n 's/^\$ malha //p' docs/slow-node.md >"$work/commands"
[ "$(wc -l <"$work/commands")" -eq 3 ] || fail "docs/slow-node.md has other commands"
run() { sed -n "$1p" "$work/commands" | xargs "$MALHA"; }
run 1 >"$work/before" && fail "the sick node is called well"
for word in "joined by SYS, and should be by NV18" "XID 74" "9 % of what" "NCCL_ALGO=Ring" "names are prefixes" "before/topo.txt:2" "before/dmesg.txt:2"; do
  tr -s '\n ' '  ' <"$work/before" | grep -qF "$word" || fail "the walkthrough's '$word' is not said"
done
run 2 >"$work/after" || fail "the cured node is called sick: $(cat "$work/after")"
grep -q '^Well: 0 errors, 0 warnings' "$work/after" || fail "the cured node: $(cat "$work/after")"
run 3 | grep -q 'base: h100-80-sxm' || fail "no machine file"
command -v python3 >/dev/null && { python3 -c 'import sys; sys.exit(any(len(l.rstrip("\n")) > 80 for l in sys.stdin))' <"$work/before" || fail "lines over 80 columns"; }

# Usage and input.
expect 2 "no such file" "$MALHA" check "$work/none"
expect 2 "Nearest" "$MALHA" check --jsn
expect 2 "nothing in it is of a kind" "$MALHA" check README.md
expect 2 "leave the files away" "$MALHA" check --for 1s $corpus/env
printf 'NCCL_DEBUG=INFO\n' | gzip >"$work/env.gz"
expect 2 "compressed by gzip" "$MALHA" check "$work/env.gz"
expect 2 "a program" "$MALHA" check "$MALHA"
expect 2 "a program" "$MALHA" probe --from "$MALHA"
printf '[    0.000000] Linux version 6.1\n[    1.200000] usb 1-1: new device\n' >"$work/dmesg"
expect 0 "Well" "$MALHA" check "$work/dmesg"
expect 0 "Well" "$MALHA" check - <"$work/dmesg"
head -c 100000 /dev/urandom >"$work/garbage"
expect 2 "nothing in it" "$MALHA" check "$work/garbage"
{ cat "$work/garbage"; printf '\n[1] NVRM: Xid (PCI:0000:9b:00): 79, pid=1\n'; } >"$work/mixed"
expect 1 "XID 79" "$MALHA" check "$work/mixed"
"$MALHA" check >"$work/out" 2>"$work/err"
code=$? judged=$(sed -n 's/.*; \([0-9]*\) of [0-9]* rules.*/\1/p' "$work/out")
if [ "$judged" -eq 0 ]; then # a machine with nothing to judge is not called well
  [ "$code" -eq 2 ] && grep -q '^Not judged' "$work/out" || fail "nothing was judged: exit $code, $(cat "$work/out")"
else
  [ "$code" -le 1 ] || fail "this machine: exit $code"
fi
expect 1 "NCCL_P2P_DISABLE=1" env NCCL_P2P_DISABLE=1 "$MALHA" check --env
"$MALHA" check --for 1s >"$work/out" 2>"$work/err"
[ $? -eq "$code" ] || fail "watched, the answer differs: $(cat "$work/out" "$work/err")"

# The same facts for machines.
"$MALHA" check $corpus/kernel $corpus/nccl --json --junit "$work/junit.xml" --prometheus "$work/malha.prom" >"$work/json"
command -v python3 >/dev/null && {
  python3 tests/cli_schema.py docs/schema/check.json <"$work/json" || fail "JSON and docs/schema/check.json differ"
  python3 - "$work/junit.xml" <<'END' || fail "JUnit: $(cat "$work/junit.xml")"
import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
cases = suite.findall("testcase")
assert int(suite.get("tests")) == len(cases) == 38
assert int(suite.get("failures")) == sum(c.find("failure") is not None for c in cases) >= 2
assert int(suite.get("skipped")) == sum(c.find("skipped") is not None for c in cases)
END
}
grep -q '^malha_check_healthy 0$' "$work/malha.prom" || fail "Prometheus: $(cat "$work/malha.prom")"
if command -v promtool >/dev/null; then
  promtool check metrics <"$work/malha.prom" || fail "promtool"
else
  echo "skipped: no promtool (Debian's package prometheus)"
fi
[ "$failed" -eq 0 ]
