#!/bin/sh
# malha train when something goes wrong: resumed runs against the run never stopped, killed workers, Ctrl-C, damage, a full disk.
set -u
: "${MALHA:?path of the command}"
command -v python3 >/dev/null || exit 77
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 3
failed=0
fail() {
  echo "FAIL: $*" >&2
  failed=$((failed + 1))
}
now() { date +%s%N; }

rises="--warmup 1"
model=layers=4,hidden=32,heads=4,kv_heads=4,vocab=256,gated=1
# train NAME OPTION...: writes NAME.json and NAME.err
train() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$MALHA" train "$model" --data "$here/LICENSE" --seq 32 --global-batch 16 \
    --lr 1e-3 --lr-schedule constant $rises --json "$@" >"$name.json" 2>"$name.err"
}
eight="--layout tp=2,pp=2,dp=2,micro-batch=2"

# The run never stopped, and one that is resumed twice on the same layout; then on others: 8, 3 (dp), 4 (tp), 2 (pp), 1 ranks.
train whole $eight --steps 12 || fail "a whole run: $(cat whole.err)"
train same1 $eight --steps 5 --out same && train same2 $eight --steps 9 --out same --resume --checkpoint-every 2 &&
  train same3 $eight --steps 12 --out same --resume || fail "resuming: $(cat same?.err)"
train other1 $eight --steps 3 --out other && train other2 --layout dp=4,micro-batch=4 --steps 5 --out other --resume &&
  train other3 --layout tp=4,micro-batch=4 --steps 8 --out other --resume &&
  train other4 --layout pp=2,micro-batch=4 --steps 10 --out other --resume &&
  train other5 --layout micro-batch=8 --steps 12 --out other --resume || fail "resuming on others: $(cat other?.err)"
# ZeRO-2, another layout, and ZeRO-2 again on other ranks.
whole_model=$model
model=$model,tied=0
train apart1 --layout dp=2,micro-batch=4,zero=2 --steps 3 --out cut && train apart2 $eight --steps 5 --out cut --resume &&
  train apart3 --layout dp=4,pp=2,micro-batch=2,zero=2 --steps 8 --out cut --resume &&
  train untied --layout micro-batch=8 --steps 8 || fail "ZeRO-2 resumed: $(cat apart?.err)"
model=$whole_model
# The warm-up is the run's own: a longer --steps does not change it, --warmup does.
rises=
train rise1 $eight --warmup 50 --steps 2 --out rising && train rise2 $eight --steps 3 --out rising --resume ||
  fail "rising: $(cat rise?.err)"
grep '"step":3,' rise2.json | grep -q '"lr":5.99999' || fail "the checkpoint's warm-up: $(cat rise2.json)"
train rise3 $eight --warmup 100 --steps 4 --out rising --resume || fail "rising: $(cat rise3.err)"
grep '"step":4,' rise3.json | grep -q '"lr":3.99999' || fail "--warmup beside the checkpoint's: $(cat rise3.json)"

rises="--warmup 1"
train none --steps 12 --resume && fail "--resume without --out"
train same4 $eight --steps 12 --out same && fail "a folder with checkpoints is taken for a new run"
grep -q resume same4.err || fail "a folder with checkpoints: $(cat same4.err)"
train same5 $eight --steps 12 --out same --resume && fail "nothing is left to do"
train same6 $eight --steps 14 --out same --resume --seed 1 && fail "another seed"

# A worker killed: within 2 s it is over, and says who was where; with --restarts the run goes on as if nothing had been.
# kill_worker SIGNAL PID: the worker of that supervisor, once it has kept something
kill_worker() {
  for _ in $(seq 200); do ls "$3" 2>/dev/null | grep -q '^step' && break; sleep 0.05; done
  victim=$(pgrep -P "$2") && kill -"$1" "$victim"
}
train killed $eight --steps 1000000 --out killed --checkpoint-every 1 &
pid=$!
sleep 0.2
supervisor=$(pgrep -P $pid || echo $pid)
kill_worker KILL "$supervisor" killed
from=$(now)
wait $pid
[ $? -eq 3 ] || fail "killed: status"
[ $(($(now) - from)) -lt 2000000000 ] || fail "killed: over after $((($(now) - from) / 1000000)) ms"
tr -s ' \n' ' ' <killed.err | grep -q 'ended by signal 9 .*rank 0 was at step .*rank 7 was at step' || fail "killed: $(cat killed.err)"
pgrep -P "$supervisor" >/dev/null && fail "killed: something is left"

train again $eight --steps 80 --out again --checkpoint-every 1 --restarts 3 &
pid=$!
sleep 0.2
kill_worker SEGV "$(pgrep -P $pid || echo $pid)" again
wait $pid || fail "restarts: $(cat again.err)"
grep -q 'starting again from the last checkpoint (1 of 3)' again.err || fail "restarts: $(cat again.err)"

# A rank that is a process, killed: it is the one that is named, with what it was doing; nothing of the others is left.
train apart $eight --steps 12 --ranks-as processes || fail "processes: $(cat apart.err)"
train alone $eight --ranks-as processes --steps 1000000 --out alone --checkpoint-every 1 &
pid=$!
sleep 0.2
supervisor=$(pgrep -P $pid || echo $pid)
for _ in $(seq 200); do ls alone 2>/dev/null | grep -q '^step' && break; sleep 0.05; done
ranks=$(pgrep -P "$supervisor")
[ "$(echo "$ranks" | wc -l)" -eq 8 ] || fail "a process for each rank: $ranks"
kill -KILL "$(echo "$ranks" | sed -n 6p)"
from=$(now)
wait $pid
[ $? -eq 3 ] || fail "rank killed: status"
[ $(($(now) - from)) -lt 2000000000 ] || fail "rank killed: over after $((($(now) - from) / 1000000)) ms"
tr -s ' \n' ' ' <alone.err | grep -q 'Rank 5 was ended by signal 9 .*rank 5 was at step' || fail "rank killed: $(cat alone.err)"
for rank in $ranks; do kill -0 "$rank" 2>/dev/null && fail "rank killed: $rank is left"; done
train alone2 $eight --ranks-as processes --steps 80 --out alone2 --checkpoint-every 1 --restarts 3 &
pid=$!
sleep 0.2
supervisor=$(pgrep -P $pid || echo $pid)
for _ in $(seq 200); do ls alone2 2>/dev/null | grep -q '^step' && break; sleep 0.05; done
kill -KILL "$(pgrep -P "$supervisor" | sed -n 3p)"
wait $pid || fail "rank killed, restarts: $(cat alone2.err)"

# Ctrl-C keeps the step and leaves with status 0.
train stopped $eight --steps 1000000 --out stopped &
pid=$!
for _ in $(seq 200); do grep -q '"step":' stopped.json 2>/dev/null && break; sleep 0.05; done
kill -TERM "$(pgrep -P $pid || echo $pid)"
wait $pid || fail "Ctrl-C: $(cat stopped.err)"
[ "$(ls stopped | wc -l)" -eq 1 ] || fail "Ctrl-C keeps: $(ls stopped)"
last=$(ls stopped | sed 's/step-0*//')
train resumed $eight --steps $((last + 3)) --out stopped --resume || fail "after Ctrl-C: $(cat resumed.err)"

train straight $eight --steps $((last + 3 > 80 ? last + 3 : 80)) || fail "straight: $(cat straight.err)"

# A damaged shard is named and the one before is used; with none before it is refused.
train good $eight --steps 4 --out damaged --checkpoint-every 2 || fail "$(cat good.err)"
printf 'XXXX' | dd of=damaged/step-00000004/rank-00005.shard bs=1 seek=3000 conv=notrunc 2>/dev/null
train before $eight --steps 6 --out damaged --resume || fail "damaged: $(cat before.err)"
grep -q 'step-00000004/rank-00005.shard: hash check failed' before.json || fail "damage is not named: $(head -1 before.json)"
rm -rf damaged/step-00000006
truncate -s 100 damaged/step-0000000*/manifest.json
train refused $eight --steps 6 --out damaged --resume
[ $? -eq 1 ] || fail "only damaged ones: status"

# A disk that is full: named, and the last checkpoint stands. (A limit of the size of a file stands for it.)
train fits $eight --steps 2 --out full || fail "$(cat fits.err)"
(ulimit -f 20 && trap '' XFSZ && train full $eight --steps 4 --out full --resume)
[ $? -eq 3 ] || fail "a full disk: status"
tr -s ' \n' ' ' <full.err | grep -q 'shard: cannot be written: .* Checkpoints written before stand' || fail "a full disk: $(cat full.err)"
train after $eight --steps 4 --out full --resume || fail "after a full disk: $(cat after.err)"

python3 - "$last" <<'END' || fail "losses"
import json, sys
def run(*names):
    lines = [json.loads(l) for n in names for l in open(n + '.json')]
    return {o['step']: (o['loss'], o['grad_norm']) for o in lines if o['kind'] == 'step'}
def same(what, a, b, steps):
    if sorted(b) != list(range(1, steps + 1)): sys.exit(f'{what}: steps {sorted(b)}')
    if any(a[s] != b[s] for s in b): sys.exit(f"{what}: not bit-identical at step {min(s for s in b if a[s] != b[s])}")
whole, straight = run('whole'), run('straight')
untied, cut = run('untied'), run('apart1', 'apart2', 'apart3')
if sorted(cut) != list(range(1, 9)) or any(abs(untied[s][0] - cut[s][0]) > 2e-5 for s in cut): sys.exit(f'ZeRO-2: {untied} {cut}')
same('resumed', whole, run('same1', 'same2', 'same3'), 12)
other = run('other1', 'other2', 'other3', 'other4', 'other5')
if any(abs(whole[s][0] - other[s][0]) > 2e-5 for s in whole): sys.exit(f'other layouts: {whole} {other}')
same('restarted', straight, run('again'), 80)
same('processes', whole, run('apart'), 12)
same('processes restarted', straight, run('alone2'), 80)
same('stopped', straight, run('stopped', 'resumed'), int(sys.argv[1]) + 3)
same('damaged', whole, run('good', 'before'), 6)
same('full', whole, run('fits', 'after'), 4)
END
for folder in same other again alone2 stopped damaged full; do
  ls -A $folder | grep -q part && fail "$folder has $(ls -A $folder)"
done
[ $failed -eq 0 ] || exit 1
echo ok
