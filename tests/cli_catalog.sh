#!/bin/sh
# models and machines: lists, one of each, sources, JSON.
set -u
: "${MALHA:?path of the command}"
command -v python3 >/dev/null || exit 77
failed=0
fail() {
  echo "FAIL: $*" >&2
  failed=$((failed + 1))
}
has() { # has PATTERN ARGUMENT...
  pattern=$1
  shift
  "$MALHA" "$@" >/dev/null || fail "malha $*"
  "$MALHA" "$@" | grep -Eq -- "$pattern" || fail "no '$pattern' in malha $*"
  "$MALHA" "$@" | python3 -c 'import sys; sys.exit(any(len(l.rstrip("\n")) > 80 for l in sys.stdin))' || fail "wider than 80: malha $*"
}

has '^llama-3-70b' models
has '70,553,706,496' models llama-3-70b
has 'q_proj' models llama-3-70b
has 'experts' models mixtral-8x7b
has '^h100-80-sxm' machines
has '^dgx-h100' machines
has 'UNVERIFIED' machines h100-80-sxm
has 'whitepaper' machines h100-sxm
has 'nvme' machines dgx-a100
has 'jitter' machines 16x8xh100-sxm
for name in $("$MALHA" models --json | python3 -c 'import json,sys; [print(m["name"]) for m in json.load(sys.stdin)["models"]]'); do
  has 'parameters' models "$name"
  "$MALHA" models "$name" --json | python3 -c '
import json, math, sys
m = json.load(sys.stdin)
total = sum(math.prod(w["shape"]) * w["copies"] * w["layers"] for w in m["weights"] if w["role"] != "buffer")
sys.exit(total > m["parameters"])' || fail "the weights of $name are more than its parameters"
done
for name in $("$MALHA" machines --json | python3 -c 'import json,sys; d = json.load(sys.stdin); [print(x["name"]) for x in d["gpus"] + d["nodes"]]'); do
  has 'memory|nics|ram' machines "$name"
  "$MALHA" machines "$name" --json | python3 -c 'import json,sys; json.load(sys.stdin)' || fail "JSON of $name"
done
[ $failed -eq 0 ] || exit 1
echo ok
