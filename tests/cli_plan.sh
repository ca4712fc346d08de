#!/bin/sh
# plan and lower as a user meets them: exit codes, files, JSON by its schema, 80 columns, the same answer twice.
. "$(dirname "$0")/cli.sh"
schema=plan

SMALL="llama-3-8b --on 8xh100-sxm --layout zero=3,micro-batch=1,recompute=full --global-batch 64"
BIG="llama-3-70b --on 8xh100-sxm --layout tp=8,micro-batch=1,recompute=selective --global-batch 64"

# Within the bytes, but with less than 90 %: it may fit, which is no fit anywhere, and what is offered is one.
MAY="llama-3-8b --on 8xh100-sxm --layout zero=3,micro-batch=1 --seq 7488"
expect 1 plan $MAY
shows '^May fit'
shows 'would make it fit'
expect 1 plan $MAY --json
valid "$MAY"
[ "$(value '["layouts"][0]["fits"]')" = False ] || fail "what may fit is called a fit"
change=$(value '["remedies"][0]["change"]')
expect 0 plan $MAY $change
shows '^Fits'

# It fits.
expect 0 plan $SMALL --tokens 15T
narrow "$SMALL"
shows '^Fits'
shows 'MFU'
shows '64 = 1 × 8 × 8'
shows 'profile +fsdp2'
shows '^again: malha plan llama-3-8b'
shows '15.0 T tokens'
shows '^because .*matrix products'
shows '^layout +zero=3, micro-batch=1, recompute=full$'
shows 'fp32 gradients, fp32 master weights'
grep -q 'matmul' out && fail "matmul is no word for people"
cp out first
expect 0 plan $SMALL --tokens 15T
cmp -s first out || fail "the same question got two answers"
sh -c "$(sed -n '/^again: /,$p' first | sed 's|^again: malha|"$MALHA"|')" >again
cmp -s first again || fail "the command that is printed gives another answer"
expect 0 plan $SMALL --tokens 15T --json
valid "$SMALL"
[ "$(value '["layouts"][0]["fits"]')" = True ] || fail "fits is not true"
python3 - <<'END' || fail "causes do not sum up"
import json
l = json.load(open("out"))["layouts"][0]
m = dict(l["memory_bytes"])
total = m.pop("total"); m.pop("limit"); m.pop("missing")
assert sum(m.values()) == total, (sum(m.values()), total)
assert abs(sum(l["time_s"].values()) - l["step_s"]) < 1e-6 * l["step_s"]
assert l["interval"]["low_s"] <= l["step_s"] <= l["interval"]["high_s"]
END

# As people write it.
expect 0 plan $SMALL --optimizer adamw8bit --json
[ "$(value '["job"]["optimizer"]')" = adamw-8bit ] || fail "adamw8bit is not adamw-8bit"

# A deadline and a budget are part of the question.
expect 1 plan $SMALL --tokens 15T --deadline 30d
shows '^deadline +missed'
expect 0 plan $SMALL --tokens 1G --deadline 30d --usd-per-gpu-hour 2 --budget "USD 20000"
shows '^deadline +kept'
shows '^budget +kept'
expect 1 plan $SMALL --tokens 15T --usd-per-gpu-hour 2 --budget 20000 --json
valid "budget"
[ "$(value '["layouts"][0]["target"]["in_budget"]')" = False ] || fail "in_budget is not false"

# It does not: the answer is no, with what would help, each of which holds when it is asked for.
expect 1 plan $BIG --tokens 15T
narrow "$BIG"
shows 'Does not fit'
shows 'bytes\)'
shows 'would make it fit'
expect 1 plan $BIG --json
valid "$BIG"
[ "$(value '["layouts"][0]["fits"]')" = False ] || fail "fits is not false"
[ "$(value '["layouts"][0]["memory_bytes"]["missing"] > 0')" = True ] || fail "nothing is missing"
remedies_hold() { # remedies_hold QUESTION: each change, appended, gives exactly the numbers that it promised
  question=$1
  python3 - >changes <<'END'
import json
for r in json.load(open("out"))["remedies"]:
    print(r["step_s"], r["memory_bytes"]["total"], r["change"])
END
  [ -s changes ] || fail "no remedy: $question"
  while read -r step bytes change; do
    # shellcheck disable=SC2086
    expect 0 plan $question $change --json
    [ "$(value '["layouts"][0]["step_s"], v["layouts"][0]["memory_bytes"]["total"]')" = "($step, $bytes)" ] ||
      fail "$change does not give what it promised"
  done <changes
}
remedies_hold "$BIG"
OTHER="llama-3-8b --on 8xrtx4090 --layout zero=1,micro-batch=4 --offload optimizer:cpu --gradients fp32"
expect 1 plan $OTHER --json
remedies_hold "$OTHER"
expect 1 plan $BIG
shows '--optimizer adamw-8bit --gradients bf16'
shows '--offload-optimizer cpu'
shows '--train lora'
shows '--on [0-9]+x8xh100-sxm'

# Types of gradients and master weights: said, saved, and the flag wins over the file.
expect 0 plan $SMALL --gradients bf16 --master none -o types.json
shows 'bf16 gradients, no master weights'
expect 0 plan --from types.json --json
[ "$(value '["job"]["gradients"], v["job"]["master"]')" = "('bf16', 'none')" ] || fail "types are not in the plan file"
value '["layouts"][0]["memory_bytes"]["gradients"]' >narrow
expect 0 plan --from types.json --gradients fp32 --json
[ "$(value '["layouts"][0]["memory_bytes"]["gradients"]')" = $((2 * $(cat narrow))) ] || fail "--gradients fp32"
expect 2 plan $SMALL --precision fp32 --gradients bf16

# Files.
expect 0 plan $SMALL -o plan.json --trace trace.json
python3 -c 'import json; json.load(open("plan.json")); assert json.load(open("trace.json"))' || fail "plan.json or trace.json"
expect 0 plan $SMALL --json
value '["layouts"][0]["step_s"]' >step
expect 0 plan --from plan.json --json
[ "$(value '["layouts"][0]["step_s"]')" = "$(cat step)" ] || fail "the plan file gives another step time"
expect 0 plan --from plan.json --on 16x8xh100-sxm --global-batch 512 --json
[ "$(value '["machine"]["gpus"]')" = 128 ] || fail "--on does not win over --from"
expect 0 plan --from plan.json --optimizer adamw-8bit --json
[ "$(value '["job"]["optimizer"]')" = adamw-8bit ] || fail "--optimizer does not win over --from"
value '["layouts"][0]["degrees"]["sequence-parallel"]' | grep -q off || fail "sequence parallelism without tp"
expect 0 plan --from plan.json --tp 2 --profile megatron --json
[ "$(value '["layouts"][0]["degrees"]["sequence-parallel"]')" = on ] || fail "a derived value of the file outlives what it came from"
# A batch that was derived follows; one that was asked for stays, and of three numbers the flag wins.
expect 0 plan llama-3-8b --on 8xh100-sxm --layout zero=3,micro-batch=2,recompute=full -o derived.json
expect 0 plan --from derived.json --on 2x8xh100-sxm --json
[ "$(value '["job"]["global-batch"]')" = 32 ] || fail "a derived batch outlives the machine it came from"
expect 0 plan --from derived.json --global-batch 64 --json
[ "$(value '["job"]["accumulation"]')" = 4 ] || fail "--global-batch with a derived batch"
expect 0 plan --from plan.json --on 2x8xh100-sxm --json
[ "$(value '["job"]["global-batch"], v["job"]["accumulation"]')" = "(64, 4)" ] || fail "a batch that was asked for"
expect 0 plan --from plan.json --accumulation 3 --json
[ "$(value '["job"]["global-batch"]')" = 24 ] || fail "--accumulation does not win over the file's batch"
expect 2 plan $SMALL -o same.json --trace same.json
[ ! -e same.json ] || fail "-o and --trace share a file"
[ ! -w /dev/full ] || "$MALHA" --version 2>err >/dev/full || grep -q 'standard output' err || fail "--version into a full disk"
for precision in fp32 tf32; do
  expect 0 plan layers=4,hidden=1024,heads=8,vocab=1000 --on 8xa100-80-sxm --layout zero=3,micro-batch=1 --seq 131072 \
    --precision $precision --json
  python3 -c 'import json; assert json.load(open("out"))["layouts"][0]["hfu"] < 0.8' || fail "$precision: attention beyond the peak"
done
printf 'global-batch: 128\noptimizer: lion\n' >job.yaml
expect 0 plan llama-3-8b --on 8xh100-sxm --layout zero=3,micro-batch=1,recompute=full --job job.yaml --seq 4096 --json
[ "$(value '["job"]["global-batch"], v["job"]["optimizer"], v["job"]["seq"]')" = "(128, 'lion', 4096)" ] || fail "job.yaml"

# A machine file: the answer names what differs from the catalogue.
printf 'name: mine\nnode: {base: dgx-h100, nics: {value: 4, source: ours}}\nfabric: {base: default, oversubscription: {value: 2, source: ours}}\n' >mine.yaml
expect 0 plan llama-3-8b --on ./mine.yaml --layout zero=3,micro-batch=1,recompute=full
shows 'as ./mine.yaml says: node.nics, fabric.oversubscription'
expect 0 plan llama-3-8b --on ./mine.yaml --layout zero=3,micro-batch=1,recompute=full --json
valid "a machine file"
[ "$(value '["machine"]["own"]')" = "['node.nics', 'fabric.oversubscription']" ] || fail "own values of a machine file"

# One of a thing is not many.
expect 0 plan gpt2 --on 1xh100-sxm --layout zero=0
expect 2 plan gpt2 --on 1xh100-sxm --layout tp=2
grep -q 'the 1 GPU of' err || fail "1 GPUs"
expect 2 plan llama-3-8b --on 8xh100-sxm --layout cp=8 --seq 9
grep -q 'nearest: 16' err || fail "nearest is 0"

# Side by side.
expect 0 plan llama-3-8b --on 8xa100-80-sxm,8xh100-sxm --layout zero=3,micro-batch=1,recompute=full
narrow "side by side"
shows '^8xa100-80-sxm +yes'
shows '^8xh100-sxm +yes'
expect 0 plan llama-3-8b --on 8xa100-80-sxm,8xh100-sxm --layout zero=3,micro-batch=1,recompute=full --json
valid "side by side"
expect 1 plan llama-3-70b --on 8xa100-80-sxm,8xh100-sxm --layout tp=8,micro-batch=1
expect 0 plan llama-3-8b --on 4xh100-sxm,8xh100-sxm --layout tp=8,micro-batch=1,zero=1
shows '^4xh100-sxm +no such split'

# Lower wants a layout: it says a line that works.
"$MALHA" lower llama-3-8b --on 8xh100-sxm >out 2>err
[ $? -eq 2 ] || fail "no layout is bad usage"
line=$(sed -n '/^  malha lower /,$p' err | tr -d '\\\n' | sed 's/^ *malha //')
[ -n "$line" ] || fail "no layout to start from"
# shellcheck disable=SC2086
expect 0 $line

# lower
expect 0 lower $SMALL
expect 0 lower $SMALL -o step.json
python3 -c 'import json; json.load(open("step.json"))' || fail "step.json"
expect 0 lower --from plan.json --json
python3 -c 'import json; json.load(open("out"))' || fail "lower --json"

ends
