# Sourced by the tests that call malha as a user: a folder to work in, what an answer must show. The test says its JSON's schema:
# schema=plan
# shellcheck shell=sh
set -u
: "${MALHA:?path of the command}"
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 3
command -v python3 >/dev/null || exit 77
failed=0
fail() {
  echo "FAIL: $*" >&2
  failed=$((failed + 1))
}
expect() { # expect CODE ARGUMENT...: answer in ./out, messages in ./err, the same on one line in ./said
  want=$1
  shift
  "$MALHA" "$@" >out 2>err
  code=$?
  tr '\n' ' ' <err | tr -s ' ' >said
  [ $code -eq "$want" ] || fail "exit $code instead of $want: malha $* ($(head -c 300 err))"
}
shows() { grep -Eq -- "$1" out || fail "no '$1' in the answer"; }
says() { grep -Eq -- "$1" said || fail "no '$1' in: $(cat said)"; }
valid() { python3 "$here/tests/cli_schema.py" "$here/docs/schema/$schema.json" <out >&2 || fail "JSON differs from the schema: $*"; }
# A layout or a path has no place to break: an option and its value may be longer.
narrow() {
  python3 -c 'import sys; sys.exit(any(len(l.rstrip("\n")) > 80 and len(l.split()) > 2 for l in sys.stdin))' <out || fail "wider than 80 columns: $*"
}
value() { python3 -c 'import json,sys; v = json.load(open("out")); print(eval("v" + sys.argv[1]))' "$1"; }
ends() { # the last line of a test
  [ $failed -eq 0 ] || { echo "$failed failed" >&2; exit 1; }
  echo ok
}
