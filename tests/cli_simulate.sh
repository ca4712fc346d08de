#!/bin/sh
# simulate as a user meets it: exit codes, faults, files, JSON by its schema, 80 columns, the same answer twice.
. "$(dirname "$0")/cli.sh"
schema=simulate

STEP="llama-3-8b --on 2x8xh100-sxm --layout tp=2,pp=2,micro-batch=1 --global-batch 32"

expect 0 simulate $STEP --days 20 --runs 20
narrow "$STEP"
shows '^step .*as planned'
shows 'goodput'
shows 'Daly 2006'
cp out first
expect 0 simulate $STEP --days 20 --runs 20
cmp -s first out || fail "the same question got two answers"

# Faults: each costs something, the report says whose.
expect 0 simulate $STEP --fault slow:rank=5,by=20% --fault nic:rank=9,by=50%
narrow faults
shows 'slow:rank=5,by=20%'
shows 'for rank 5 '
expect 0 simulate $STEP --fault "slow:rank=5,by=20%; nic:rank=9,by=50%" --json
valid faults
[ "$(value '["faults"][0]["cost_s"] > 0.05 * v["healthy_step_s"]')" = True ] || fail "a GPU at 80 % costs nothing"
[ "$(value '["slowest_rank"]')" = 5 ] || fail "slowest_rank"
[ "$(value '["classes"] < 8')" = True ] || fail "two faults split everything"
expect 1 simulate $STEP --fault die:rank=3,at=0.5s
shows 'rank 3 has died'
expect 1 simulate $STEP --fault die:rank=3,at=0.5s --json
valid dead
[ "$(value '["step_s"] is None and not v["finished"]')" = True ] || fail "a dead rank ends its step"
expect 0 simulate $STEP --fault jitter:all,cv=10% --seed 1 --json
value '["step_s"]' >one
expect 0 simulate $STEP --fault jitter:all,cv=10% --seed 1 --json
[ "$(value '["step_s"]')" = "$(cat one)" ] || fail "the same seed, another step"
expect 0 simulate $STEP --fault jitter:all,cv=10% --seed 2 --json
[ "$(value '["step_s"]')" != "$(cat one)" ] || fail "another seed, the same step"

# Hosts and storage: a checkpoint in the step, a link to a host that is worse.
OFFLOADED="llama-3-8b --on 2x8xh100-sxm --layout micro-batch=1,zero=2,offload-optimizer=cpu --profile deepspeed"
expect 0 simulate $OFFLOADED --checkpoint --fault pcie:rank=5,by=50% --json
valid checkpoint
[ "$(value '["checkpoint"]["written_s"] > v["checkpoint"]["stall_s"] > 1')" = True ] || fail "a checkpoint that costs nothing"
[ "$(value '["faults"][0]["cost_s"] > 0.01 * v["healthy_step_s"]')" = True ] || fail "half of a PCIe link costs nothing"
expect 0 simulate $OFFLOADED --checkpoint
narrow checkpoint
shows '^checkpoint training stands'
shows 'host-pcie'

# Bad usage is said.
expect 2 simulate $STEP --fault slow:rank=99,by=20%
says 'there are 16'
expect 2 simulate $STEP --fault slo:rank=1,by=20%
says 'Nearest: slow'
expect 2 simulate $STEP --fault slow:rank=1
says 'how much'
expect 2 simulate $STEP --fault slow:by=20%
says 'say where'
expect 2 simulate $STEP --background 2
expect 2 simulate $STEP --ranks 1-99 --trace t.json
expect 2 simulate $STEP --trace same --svg same

# Files.
expect 0 simulate $STEP --trace trace.json --svg step.svg --ranks 0,4-5
python3 - <<'END' || fail "trace.json or step.svg"
import json, xml.dom.minidom
events = json.load(open("trace.json"))["traceEvents"]
assert {e["pid"] for e in events if e["ph"] == "X"} == {0, 4, 5}
assert any(e["name"] == "attention" for e in events)
xml.dom.minidom.parse("step.svg")
END

# A program from lower: played, edited, refused.
expect 0 lower $STEP -o step.json
expect 0 simulate --from step.json --json
value '["step_s"]' >program
expect 0 simulate $STEP --json
[ "$(value '["step_s"]')" = "$(cat program)" ] || fail "the program's step differs"
edit() { python3 -c 'import json, sys; d = json.load(open("step.json")); s = [x["schedule"] for x in d["stages"]]; exec(sys.argv[1]); json.dump(d, open("edited.json", "w"))' "$1"; }
edit 's[0] = [x for x in s[0] if x != next(y for y in s[0] if y.startswith("SEND_F 0 3"))]; d["stages"][0]["schedule"] = s[0]'
expect 2 simulate --from edited.json
says 'stage 1, entry [0-9]+, RECV_F of chunk 0, micro-batch 3: nothing sends it in stage 0'
edit 'i = next(k for k, x in enumerate(s[0]) if x.startswith("BW 0 0")); j = next(k for k, x in enumerate(s[0]) if x.startswith("F 0 0")); s[0].insert(j, s[0].pop(i))'
expect 2 simulate --from edited.json
says 'waits in a circle'
says 'rank 0 .*waits for the message that B of chunk 0, micro-batch 0 needs'
edit 's[0][0] = "JUMP 0 0 0"'
expect 2 simulate --from edited.json
says 'stage 0, entry 0'
edit 'd["blocks"].pop()'
expect 2 simulate --from edited.json
says 'block [0-9]+ is not what its plan lowers to'

# Interrupted: what was played so far, and exit 1.
"$MALHA" simulate llama-3.1-405b --on 2048x8xh100-sxm --layout tp=8,pp=16,micro-batch=1 --global-batch 2048 --fault jitter:all,cv=5% \
  >out 2>err &
child=$!
sleep 0.6
kill -INT $child 2>/dev/null
wait $child
code=$?
if [ $code -ne 0 ]; then
  [ $code -eq 1 ] || fail "interrupted: exit $code"
  shows 'Interrupted'
fi

ends
