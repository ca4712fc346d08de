#!/bin/sh
# malha train as a user runs it: text in, loss down, planned equal to measured; JSON by its schema; refusals.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) && cd "$work" || exit 3
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
  echo "FAIL: $*" >&2
  failed=1
}
command -v python3 >/dev/null || {
  echo "skipped: no python3"
  exit 77
}
text=$here/LICENSE
model=layers=2,hidden=32,heads=4,kv_heads=2,vocab=256,gated=1
small="--data $text --seq 32 --global-batch 8"

# shellcheck disable=SC2086
"$MALHA" train $model $small --steps 15 --lr 1e-2 --layout tp=2,pp=2,dp=2,micro-batch=1 --eval "$text" --eval-batches 1 --json \
  --trace trace.json >lines || fail "run: $?"
while IFS= read -r line; do
  printf '%s\n' "$line" | python3 "$here/tests/cli_schema.py" "$here/docs/schema/train.json" || fail "schema: $line"
done <lines
python3 - <<'PY' || fail "what the lines say"
import json
lines = [json.loads(l) for l in open("lines")]
steps = [l for l in lines if l["kind"] == "step"]
end = lines[-1]
assert lines[0]["kind"] == "start" and end["kind"] == "summary" and len(steps) == 15, len(steps)
assert steps[-1]["loss"] < steps[0]["loss"] - 1, (steps[0]["loss"], steps[-1]["loss"])
assert abs(steps[0]["loss"] - 5.545) < 0.1, steps[0]["loss"]  # ln 256: nothing is known yet
assert end["evaluation_loss"] < steps[0]["loss"] - 1
p, m = end["planned"], end["measured"]
assert p["memory_bytes"] == m["memory_bytes"] and p["flops"] == m["flops"], (p, m)
assert p["sent_bytes"].keys() == m["sent_bytes"].keys() == {"tp", "dp", "stages"}, m
for key in p["sent_bytes"]:
    assert abs(p["sent_bytes"][key] / m["sent_bytes"][key] - 1) < 1e-9, key
events = json.load(open("trace.json"))["traceEvents"]
names = {e["name"].split()[0] for e in events}
assert {"matmul", "attention", "all-gather", "optimizer"} <= names, names
assert len({e["pid"] for e in events}) == 8
PY

# shellcheck disable=SC2086
"$MALHA" train $model $small --steps 3 >page || fail "a layout is chosen: $?"
grep -q 'chosen' page || fail "what was chosen is said"
[ "$(grep -c 'equal$' page)" -ge 2 ] || fail "planned against measured"
awk 'length($0) > 90' page | grep -q . && fail "wider than a page"

# refused CODE WORD ARGUMENT...
refused() {
  code=$1 word=$2
  shift 2
  "$MALHA" train "$@" >out 2>err
  [ $? -eq "$code" ] || fail "$* should exit $code"
  grep -q -- "$word" err || fail "$word is not in: $(cat err)"
}
# shellcheck disable=SC2086
{
  refused 2 '--data' $model --seq 32
  refused 2 'experts' layers=2,hidden=32,heads=4,vocab=256,gated=1,experts=4 $small --steps 1
  printf '{"model_type":"llama","hidden_size":32,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":64,"vocab_size":256,"rope_scaling":{"rope_type":"llama3","factor":8}}' >"$work/stretched.json"
  refused 2 'rope_scaling' "$work/stretched.json" $small --steps 1
  refused 2 'precision' $model $small --precision bf16 --layout dp=1 --steps 1
  refused 2 'ZeRO' $model $small --layout dp=2,zero=3 --steps 1
  refused 2 'nowhere' $model --data nowhere.txt --seq 32 --steps 1
  refused 1 'not a number' $model $small --steps 20 --lr 1e30 --warmup 1 --lr-schedule constant
}

# Ctrl-C: the step under way, the summary, exit 0.
# shellcheck disable=SC2086
"$MALHA" train $model $small --steps 1000000 >page 2>err &
pid=$!
sleep 2
kill -TERM $pid # as Ctrl-C; INT itself is ignored by what a script runs in the background
wait $pid || fail "interrupted: $?"
grep -q 'Planned against measured' page || fail "no summary after an interruption"
exit $failed
