#!/bin/sh
# A real Slurm, started for this test alone: sbatch accepts the scripts, and a small training runs through one, bound to the cores
# that were asked for.
set -u
for tool in munged mungekey slurmctld slurmd sbatch scontrol; do
  command -v $tool >/dev/null 2>&1 || PATH=$PATH:/usr/sbin:/sbin
  command -v $tool >/dev/null 2>&1 || { echo "$tool is not installed"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "needs root, to start slurmd"; exit 77; }
dir=$(mktemp -d) || exit 3
pids=
finish() {
  for pid in $pids; do kill "$pid" 2>/dev/null; done
  sleep 0.5
  for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
  rm -rf "$dir"
}
trap finish EXIT
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }
chmod 755 "$dir"
mkdir -p "$dir/munge" "$dir/state" "$dir/spool" "$dir/work"
chmod 711 "$dir/munge"
port=$((20000 + $$ % 20000))
cores=$(nproc)

mungekey --create --keyfile "$dir/munge/key" 2>"$dir/log" || { cat "$dir/log"; exit 77; }
munged --foreground --force --key-file "$dir/munge/key" --socket "$dir/munge/socket" --pid-file "$dir/munge/pid" \
  --log-file "$dir/munge/log" --seed-file "$dir/munge/seed" >"$dir/munge/out" 2>&1 &
pids="$pids $!"
cat >"$dir/slurm.conf" <<END
ClusterName=malha
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
TopologyPlugin=topology/tree
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=here NodeHostname=$(hostname) NodeAddr=127.0.0.1 CPUs=$cores RealMemory=1000 State=UNKNOWN
NodeName=node[1-4] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$((port + 2))-$((port + 5))] CPUs=112 RealMemory=2000000 Gres=gpu:8 State=UNKNOWN
PartitionName=here Nodes=here Default=YES MaxTime=INFINITE State=UP
PartitionName=gpus Nodes=node[1-4] MaxTime=INFINITE State=UP
END
printf 'SwitchName=leaf1 Nodes=node[1-4]\nSwitchName=leaf2 Nodes=here\nSwitchName=spine Switches=leaf[1-2]\n' >"$dir/topology.conf"
for gpu in 0 1 2 3 4 5 6 7; do : >"$dir/gpu$gpu"; done
echo "NodeName=node[1-4] Name=gpu File=$dir/gpu[0-7]" >"$dir/gres.conf"
printf 'CgroupAutomount=no\n' >"$dir/cgroup.conf"
export SLURM_CONF="$dir/slurm.conf"
slurmctld -D -i -f "$SLURM_CONF" >"$dir/slurmctld.out" 2>&1 &
pids="$pids $!"
for node in here node1 node2 node3 node4; do # the GPUs of the last four are only words
  mkdir -p "$dir/spool-$node"
  slurmd -D -N $node -f "$SLURM_CONF" >"$dir/slurmd-$node.out" 2>&1 &
  pids="$pids $!"
done
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" -eq 5 ] && break
  sleep 1
done
[ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" -eq 5 ] || {
  echo "Slurm does not start here: $(tail -3 "$dir"/slurm*.log "$dir"/slurm*.out 2>/dev/null)"
  exit 77
}

# --- sbatch takes what is written for GPUs, on one node and on four -----------------------------------------------------
for on in 8xh100-sxm 4x8xh100-sxm; do
  "$MALHA" export llama-3-8b --on $on --layout tp=2,micro-batch=1 --tokens 10G --for megatron,slurm -o "$dir/$on" >"$dir/out" 2>&1
  sbatch --test-only -p gpus "$dir/$on/train.sbatch" >"$dir/out" 2>&1
  grep -q "to start at" "$dir/out" || fail "sbatch --test-only: $(cat "$dir/out")"
done
sed 's/--requeue/--no-such-thing/' "$dir/8xh100-sxm/train.sbatch" >"$dir/wrong.sbatch"
sbatch --test-only -p gpus "$dir/wrong.sbatch" >/dev/null 2>&1 && fail "sbatch takes anything, so its word is worth nothing"

# --- a training through one, on the cores that it asked for -----------------------------------------------------------------
cd "$dir/work" || exit 3
"$MALHA" plan layers=2,hidden=64,heads=2,vocab=256 --on 1xhere --layout micro-batch=1 --seq 64 --global-batch 4 --precision fp32 --profile malha \
  -o plan.json >"$dir/out" 2>&1 || fail "plan: $(cat "$dir/out")"
"$MALHA" export --from plan.json --for slurm -o . >"$dir/out" 2>&1 || fail "export: $(cat "$dir/out")"
head -c 20000 /dev/urandom | od -An -tx1 >text.txt
PATH=$(dirname "$MALHA"):$PATH
export PATH
sed -i 's/^#SBATCH --cpus-per-task=.*/#SBATCH --cpus-per-task=1/' train.sbatch
job=$(sbatch --parsable train.sbatch --data text.txt --steps 3 2>"$dir/err") || fail "sbatch: $(cat "$dir/err")"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
  state=$(scontrol show job "$job" 2>/dev/null | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p')
  case $state in COMPLETED | FAILED | CANCELLED | TIMEOUT) break ;; esac
  sleep 1
done
[ "$state" = COMPLETED ] || fail "the job ends as $state: $(cat ./*.out 2>/dev/null; scontrol show job "$job" | head -8)"
out=$(cat ./malha-*-"$job".out 2>/dev/null)
echo "$out" | grep -q "cpu-bind=MASK\|cpu-bind-cores\|cpu-bind" || fail "no word of the binding: $out"
mask=$(echo "$out" | sed -n 's/.*mask 0x\([0-9A-Fa-f]*\).*/\1/p' | head -1)
case $mask in 1 | 2 | 4 | 8 | *10 | *20 | *40 | *80) ;; *) fail "bound to mask '$mask', not to one core: $out" ;; esac
echo "$out" | grep -qi "loss" || fail "no training: $out"
scontrol show job "$job" | grep -q "Requeue=1" || fail "the job is not requeued"
exit $failed
