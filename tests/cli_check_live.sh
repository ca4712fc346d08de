#!/bin/sh
# malha check and probe on a live node of eight H100: the driver's library and the PCI bus are stand-ins (tests/stand_in, hwloc's XML).
set -u
[ -f "${STAND_IN_FOLDER:-}/libnvidia-ml.so.1" ] || { echo "skipped: no stand-in of the driver's library"; exit 77; }
[ "$(nproc)" -ge 2 ] || { echo "skipped: the stand-in's sockets need two CPUs"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }
export LD_LIBRARY_PATH="$STAND_IN_FOLDER${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" HWLOC_XMLFILE=tests/data/node/eight-h100.xml HWLOC_THISSYSTEM=0
unset SLURM_JOB_ID PBS_JOBID LSB_JOBID NVIDIA_VISIBLE_DEVICES
export STAND_IN="$work/node"
node() { printf '%s\n' "$@" >"$STAND_IN"; rm -f "$STAND_IN.calls"; }
expect() { # STATUS WORD COMMAND...
  status=$1 word=$2
  shift 2
  "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" -eq "$status" ] || fail "$*: exit $got, not $status: $(cat "$work/out" "$work/err")"
  cat "$work/out" "$work/err" | tr -s '\n ' '  ' | grep -qF -- "$word" || fail "$*: '$word' is not said: $(cat "$work/out" "$work/err")"
}
check() { expect "$1" "$2" "$MALHA" check; }

node ""
check 0 "Well: 0 errors"
grep -q '8 × NVIDIA H100' "$work/out" || fail "the machine: $(cat "$work/out")"
expect 0 "Well: 0 errors" "$MALHA" check --for 3s
[ "$(cat "$STAND_IN.calls")" -ge 4 ] || fail "watching took $(cat "$STAND_IN.calls") samples"

# What is wrong from the start.
node "1 * count 7"
[ -e /.dockerenv ] || [ -e /run/.containerenv ] || [ -n "${KUBERNETES_SERVICE_HOST:-}" ] || check 1 "NVML (the driver) has 7 GPUs, of 8 that are there"
expect 0 "NVML (the driver) has 7 GPUs, of 8 that are there" env SLURM_JOB_ID=1 "$MALHA" check # a job may be given fewer
node "1 3 lost 1"
check 1 "GPU3: the driver cannot read it (GPU is lost)"
node "1 2 links_down 2"
check 1 "GPU2: 2 of 18 NVLinks inactive (links 0, 1)"
node "1 * links_down 6"
check 1 "6 of 18 NVLinks inactive"
node "1 * links_down 18"
check 1 "no NVLink is active"
node "1 4 fabric_state 2"
check 1 "GPU4: its NVLink fabric is 'In Progress'"
node "1 4 fabric_status 1"
check 1 "GPU4: joining the NVLink fabric ended with 'Failure'"
node "1 5 width 8"
check 1 "GPU5: its link has 8 of 16 lanes"
node "1 6 rows_pending 1"
check 1 "GPU6: a memory row waits to be remapped"
node "1 7 ecc 2"
check 1 "GPU7: 2 uncorrected memory errors"
node "1 1 mig 1"
check 0 "GPU1: MIG is on"

# What comes while it is watched, a fault a GPU: the first nvmlInit is discovery, the second the beginning of the watch.
node "4 0 reasons 64" "4 1 reasons 128" "4 2 sm_mhz 1200" "4 3 celsius 91" "4 4 link_errors 40" "4 5 links_down 1" "4 6 replays 300" "4 7 lost 1"
expect 1 "Sick: 9 errors" "$MALHA" check --for 3s
for said in "GPU0: clock held down by heat (HW thermal slowdown)" "GPU1: clock held down by the power brake" \
  "GPU2: runs at 1200 MHz under load, the others at 1755 MHz" "GPU3: 91 °C, slows down at 87 °C" \
  "GPU4: NVLink errors grew by 40 while watched" "GPU5: 1 NVLinks went down while watched" \
  "GPU6: PCIe replays grew by 300 while watched" "GPU7: the driver cannot read it"; do
  tr -s '\n ' '  ' <"$work/out" | grep -qF -- "$said" || fail "watched, '$said' is not said: $(cat "$work/out")"
done
node "1 * percent 0" "4 2 sm_mhz 345"
expect 0 "0 of 8 GPUs had work" "$MALHA" check --for 2s --all # an idle clock is no fault

# probe of the same node, and the machine file that plan takes.
node ""
expect 0 "base: h100-80-sxm" "$MALHA" probe -o -
"$MALHA" probe --json >"$work/probe.json" || fail "probe --json"
grep -q '"NV18"\|"nvlinks": 18' "$work/probe.json" || fail "probe: no NV18: $(head -c 600 "$work/probe.json")"
python3 tests/cli_schema.py docs/schema/probe.json <"$work/probe.json" || fail "probe's JSON and docs/schema/probe.json differ"
"$MALHA" check --json --prometheus "$work/malha.prom" >"$work/check.json" || fail "check --json"
python3 tests/cli_schema.py docs/schema/check.json <"$work/check.json" || fail "check's JSON and docs/schema/check.json differ"
grep -q '^malha_check_gpu_sm_clock_hertz{device="GPU7"} 1755000000$' "$work/malha.prom" || fail "Prometheus: $(cat "$work/malha.prom")"
if command -v promtool >/dev/null; then promtool check metrics <"$work/malha.prom" || fail promtool; fi
[ "$failed" -eq 0 ]
