#!/bin/sh
# malha probe --measure: figures by the schema, and a machine file that plan and train take. No figure is judged: others work here too.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) && cd "$work" || exit 3
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAIL: $*" >&2
  exit 1
}
command -v python3 >/dev/null || exit 77
"$MALHA" probe --measure -o here.yaml --json >measured.json || fail "measure: $?"
python3 "$here/tests/cli_schema.py" "$here/docs/schema/measure.json" <measured.json || fail schema
python3 - <<'PY' || fail "figures that cannot be"
import json
m = json.load(open("measured.json"))
assert all(1e8 < p["flops_per_s"] <= m["flops_per_s"] < 1e13 for p in m["products"]), m["products"]
assert 0 < m["attention_share"] <= 1 and 1e8 < m["memory_bytes_per_s"] < 1e12, m
PY
"$MALHA" plan gpt2 --on here.yaml --profile malha --precision fp32 --layout micro-batch=1 --seq 128 >plan || fail "plan: $?"
grep -q 'here.yaml' plan || fail "the file is not named"
"$MALHA" train layers=2,hidden=32,heads=2,vocab=256,gated=1 --data "$here/LICENSE" --seq 32 --global-batch 8 --on here.yaml \
  --steps 2 >run || fail "train: $?"
"$MALHA" probe --measure --from here.yaml 2>err && fail "--measure with a listing"
grep -q 'this computer' err || fail "$(cat err)"
