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
shows '^What would change its speed'
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
rows = {r["with"]: r for r in a["sensitivity"]}
assert set(rows) == {"nvlink", "memory-speed", "memory", "half-batch", "twice-batch"}, rows
assert all(abs(r["tokens_per_s"] / x["tokens_per_s"] - 1 - r["gain"]) < 1e-9 for r in rows.values())
assert rows["memory-speed"]["gain"] > 0 and "sensitivity" not in b
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

# The other way round: the smallest machine, the largest size; what pins it gives the same figures.
GOAL="llama-3-8b --on 8xh100-sxm --nodes auto --tokens 100B"
expect 0 plan $GOAL --deadline 5d --json
valid "nodes auto"
cp out nodes.json
python3 - <<'END' || fail "--nodes auto"
import json
d = json.load(open("nodes.json"))
q, n = d["inverse"], d["machine"]["nodes"]
assert q["ask"] == "nodes" and q["found"] and q["answer"]["size"] == n == q["answer"]["nodes"]
assert d["layouts"][0]["target"]["time_s"] <= 5 * 86400 and d["layouts"][0]["target"]["in_time"]
assert q["beside"]["size"] == n - 1 and not q["beside"]["meets"] and q["beside"]["time_s"] > 5 * 86400
assert q["checked_from"] <= n and all(not r["meets"] for r in q["tried"] if r["size"] < n)
END
expect 0 plan $GOAL --deadline 5d
narrow "nodes auto"
shows '^smallest +[0-9]+ nodes of dgx-h100'
shows 'the next smaller, .* too long'
shows '^take it +malha plan llama-3-8b'
eval "set -- $(sed -n '/^take it/,/--layout/p' out | sed 's/^take it *malha//; s/\\$//' | tr '\n' ' ')"
expect 0 "$@" --json
python3 - <<'END' || fail "what takes the smallest machine gives other figures"
import json
a, b = json.load(open("nodes.json")), json.load(open("out"))
assert a["machine"] == b["machine"] and abs(a["layouts"][0]["step_s"] / b["layouts"][0]["step_s"] - 1) < 1e-12
END
expect 1 plan $GOAL --deadline 5min --global-batch 512
shows '^smallest +none will do'
shows 'it would do with --deadline'
expect 1 plan $GOAL --deadline 5min --global-batch 512 --json
valid "no machine will do"
python3 -c 'import json; q = json.load(open("out"))["inverse"]; assert not q["found"] and q["beside"] is None' || fail "no machine will do"
expect 0 plan $GOAL --usd-per-gpu-hour 2 --budget 20k --json
expect 1 plan $GOAL --usd-per-gpu-hour 2 --budget 2k
shows '--budget [0-9]+'
expect 0 plan llama-3-8b --on 8xh100-sxm --nodes 2 --layout tp=8,micro-batch=1 --json
python3 -c 'import json; m = json.load(open("out"))["machine"]; assert m["nodes"] == 2 and m["spec"] == "2x8xh100-sxm"' || fail "--nodes 2"
expect 0 plan llama-3-8b --on 8xa100-80-sxm --min gpus --fix offload-optimizer=none --json
valid "min gpus"
python3 -c 'import json; d = json.load(open("out")); assert d["machine"]["gpus"] == d["inverse"]["answer"]["size"] < 8' || fail "--min gpus"
LAYOUT="llama-3-8b --on 8xh100-sxm --layout zero=3,micro-batch=1,recompute=full"
for what in seq micro-batch params; do
  expect 0 plan $LAYOUT --max $what --json
  valid "--max $what"
  python3 - <<'END' || fail "--max $what"
import json
q = json.load(open("out"))["inverse"]
assert q["found"] and q["answer"]["fits"] and q["beside"]["size"] > q["answer"]["size"] and not q["beside"]["fits"]
END
done
expect 0 plan $LAYOUT --max seq
shows '^largest +sequences of .* tokens'
shows 'made for 8,192'
seq=$(sed -n 's/.*--seq \([0-9]*\).*/\1/p' out | head -1)
expect 0 plan $LAYOUT --seq "$seq"
expect 1 plan $LAYOUT --seq $((seq + 1024))
expect 1 plan llama-3.1-405b --on 8xrtx4090 --layout zero=1,micro-batch=1 --max seq
shows '^largest +none'
shows 'would make it fit'
# One size at a time, and prices for each machine.
expect 2 plan $LAYOUT --max seq --nodes auto
expect 2 plan $LAYOUT --nodes many
expect 2 plan $LAYOUT --nodes 0
expect 2 plan $LAYOUT --max params -o out.json
expect 2 plan $LAYOUT --max micro-batch --accumulation 4
expect 2 plan $LAYOUT --prices 1,2
expect 2 plan $LAYOUT --prices -1
expect 2 plan $LAYOUT --prices 1 --usd-per-gpu-hour 2

# When moving from one machine to another pays: at the price that is said, a token costs the same.
PAIR="llama-3-8b --on 8xa100-80-sxm,8xh100-sxm --layout zero=3,micro-batch=1,recompute=full --tokens 100B"
expect 0 plan $PAIR --prices 1.29,1.99 --json
valid "moves"
price=$(python3 -c 'import json; print(repr(json.load(open("out"))["moves"][0]["usd_per_gpu_hour"]))')
expect 0 plan $PAIR --prices "1.29,$price" --json
python3 - <<'END' || fail "the break-even is none"
import json
d = json.load(open("out"))
x, y = (p["layouts"][0]["usd_per_mtoken"] for p in d["plans"])
assert abs(x / y - 1) < 1e-9 and abs(d["moves"][0]["saved_usd_per_mtoken"]) < 1e-9 * x
END
expect 0 plan $PAIR --prices 1.29,1.99
narrow "moves"
shows '^move +from 8xa100-80-sxm to 8xh100-sxm pays while'
expect 0 plan $PAIR
shows '^move +from 8xa100-80-sxm to 8xh100-sxm pays while'

# A plan file of what was found.
expect 0 plan $NODE -o found.json
expect 0 plan --from found.json

ends
