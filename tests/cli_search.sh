#!/bin/sh
# plan without --layout, as a user meets it: the best, what it says of others, the line that pins it, exit codes, JSON.
. "$(dirname "$0")/cli.sh"
schema=plan

NODE="llama-3-8b --on 8xh100-sxm"

# The best of all, the same twice and on any number of threads; the line that pins it gives the same figures.
expect 0 plan $NODE
narrow "$NODE"
shows '^Fits'
shows '^searched .*layouts that can be lowered'
shows '^Next best'
shows '^take it +malha plan'
cp out first
expect 0 plan $NODE --threads 1
sed '/^again/,$d' first >a
sed '/^again/,$d' out | sed 's/ --threads 1//' >b
cmp -s a b || fail "one thread and several give two answers"
expect 0 plan $NODE --json
valid "$NODE"
cp out best.json
layout=$(python3 -c 'import json; d = json.load(open("best.json")); print("--seq", d["job"]["seq"], "--global-batch", d["job"]["global-batch"], "--layout", d["layouts"][0]["layout"])')
# shellcheck disable=SC2086
expect 0 plan $NODE $layout --json
python3 - <<'END' || fail "the layout found is priced otherwise when it is asked for"
import json
a, b = json.load(open("best.json")), json.load(open("out"))
x, y = a["layouts"][0], b["layouts"][0]
assert abs(x["step_s"] / y["step_s"] - 1) < 1e-12 and x["memory_bytes"] == y["memory_bytes"], (x["step_s"], y["step_s"])
s = a["search"]
assert s["valid"] <= s["space"] and s["bounded"] + s["evaluated"] == s["valid"] and s["optimum_proven"]
assert 0 < s["fitting"] <= s["evaluated"]
steps = [l["step_s"] for l in a["layouts"]]
assert len(steps) == 5 and steps == sorted(steps)
assert all(l["fit_probability"] >= 0.9 for l in a["layouts"])
END

# Pinned keys, held against another, more of the best.
expect 0 plan $NODE --fix tp=4,zero=1 --against tp=8,zero=1,micro-batch=1 --best 7 --json
valid "fix and against"
python3 - <<'END' || fail "--fix, --best or --against"
import json
d = json.load(open("out"))
assert len(d["layouts"]) == 7 and all(l["degrees"]["tp"] == 4 and l["degrees"]["zero"] == 1 for l in d["layouts"])
assert d["against"]["degrees"]["tp"] == 8 and d["against"]["step_s"] > d["layouts"][0]["step_s"]
END
expect 0 plan $NODE --against tp=8,zero=1,micro-batch=1
shows '^against +tp=8'
shows '%; by cause, against the layout above'

# What is least decides.
for what in cost energy memory; do
  expect 0 plan $NODE --usd-per-gpu-hour 2 --objective $what --json
  valid "$what"
  cp out $what.json
done
python3 - <<'END' || fail "--objective"
import json
def best(name, *keys):
    x = json.load(open(name + ".json"))["layouts"][0]
    for k in keys:
        x = x[k]
    return x
for name, keys in (("cost", ("usd_per_mtoken",)), ("energy", ("kwh_per_mtoken",)), ("memory", ("memory_bytes", "total"))):
    assert all(best(name, *keys) <= best(other, *keys) * (1 + 1e-9) for other in ("cost", "energy", "memory")), name
END

# Nothing fits: the answer is no, with what comes nearest and what would.
expect 1 plan llama-3.1-405b --on 8xrtx4090
shows 'Does not fit'
shows 'comes nearest|nearest'
shows 'would make it fit'
expect 1 plan llama-3.1-405b --on 8xrtx4090 --json
valid "nothing fits"
# A plan is never chosen to the last GiB, unless that is asked for.
expect 0 plan llama-3-8b --on 8xa100-40-sxm --json
python3 -c 'import json; l = json.load(open("out"))["layouts"]; assert all(x["fit_probability"] >= 0.9 for x in l)' || fail "a risky fit was chosen"

# Side by side, each with its own best.
expect 0 plan llama-3-8b --on 8xa100-80-sxm,8xh100-sxm
shows '^layout +8xh100-sxm: '
expect 0 plan llama-3-8b --on 8xa100-80-sxm,8xh100-sxm --json
valid "side by side"

# A plan file of what was found.
expect 0 plan $NODE -o found.json
expect 0 plan --from found.json

ends
