#!/bin/sh
# What malha export writes for schedulers, MPI and NCCL: names that exist, groups that are those of the plan, ranks beside their GPUs.
set -u
: "${MALHA:?path of the command}"
command -v python3 >/dev/null || exit 77
dir=$(mktemp -d) || exit 3
trap 'rm -rf "$dir"' EXIT
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }
export_to() { # FOLDER STATUS ARGUMENT...
  folder=$dir/$1 wanted=$2
  shift 2
  "$MALHA" export "$@" -o "$folder" >"$dir/out" 2>"$dir/err"
  got=$?
  [ "$got" -eq "$wanted" ] || fail "export $*: exit $got: $(cat "$dir/out" "$dir/err")"
}

# --- NCCL: variables that there are, only where they are needed -----------------------------------------------------------
for on in 8xh100-sxm 4xdgx-h100 4xaws-p5 2xazure-nd-a100-v4 2xazure-nd-h100-v5 2xoci-bm-gpu4-8 2xoci-bm-gpu-h100-8 2xhgx-h100; do
  export_to "$on" 0 llama-3-8b --on "$on" --layout tp=2,micro-batch=1 --for nccl
  sed -n 's/^export \([A-Z0-9_]*\)=.*/\1/p' "$dir/$on/nccl.sh" >"$dir/names"
  while read -r name; do
    grep -qx "$name" tests/data/options/nccl-v2.30.txt || [ "$name" = FI_PROVIDER ] || fail "$on: there is no $name"
  done <"$dir/names"
  grep '^export' "$dir/$on/nccl.sh" | grep -v ' # [a-zA-Z]' && fail "$on: a line does not say why"
  # shellcheck source=/dev/null
  (. "$dir/$on/nccl.sh" && env) | grep '^NCCL_IB_HCA' >"$dir/hca"
  grep -q . "$dir/hca" && ! grep -q '^NCCL_IB_HCA==mlx5_' "$dir/hca" && fail "$on: adapters are matched by prefix: $(cat "$dir/hca")"
done
grep -q '^export' "$dir/8xh100-sxm/nccl.sh" && fail "one node of NVLink needs nothing"
grep -q FI_PROVIDER=efa "$dir/4xaws-p5/nccl.sh" || fail "EFA is not asked for"
grep -q NCCL_TOPO_FILE= "$dir/2xazure-nd-a100-v4/nccl.sh" || fail "Azure has no topology file"

# --- nccl-tests: exactly the groups of the plan ---------------------------------------------------------------------------
cat >"$dir/groups.py" <<'END'
import re, sys
tp, cp, dp, pp = map(int, sys.argv[2:6])
world = tp * cp * dp * pp
def coordinates(r):
    return {"tp": r % tp, "cp": r // tp % cp, "dp": r // tp // cp % dp, "pp": r // tp // cp // dp}
moves = {"tp": ["tp"], "cp": ["cp"], "dp": ["cp", "dp"], "pp": ["pp"]}
seen = set()
for line in open(sys.argv[1]):
    m = re.match(r"run (\w+) '([^']*)' (\w+) (\d+)", line)
    if not m: continue
    axis, split, _, gbs = m.groups()
    assert int(gbs) > 0, line
    op, n = (split.split() + ["0"])[:2] if split else ("DIV", str(world))
    n = int(n, 0)
    colour = {"DIV": lambda r: r // n, "MOD": lambda r: r % n, "AND": lambda r: r & n}[op]
    fixed = lambda r: tuple(v for k, v in coordinates(r).items() if k not in moves[axis])
    for r in range(world):
        for q in range(world):
            assert (colour(r) == colour(q)) == (fixed(r) == fixed(q)), f"{line.strip()}: ranks {r} and {q}"
    seen.add(axis)
want = {a for a, n in (("tp", tp), ("cp", cp), ("dp", cp * dp), ("pp", pp)) if n > 1}
assert seen == want, f"{seen} instead of {want}"
END
for split in "2 1 8 2" "8 1 2 2" "1 1 32 1" "4 2 2 2" "2 2 8 1" "1 1 4 8"; do
  # shellcheck disable=SC2086
  set -- $split
  export_to groups 0 gpt3-175b --on 4x8xh100-sxm --profile megatron --layout "tp=$1,cp=$2,dp=$3,pp=$4,micro-batch=1" --for nccl-tests
  # shellcheck disable=SC2086
  python3 "$dir/groups.py" "$dir/groups/nccl-tests.sh" $split || fail "groups of $split"
done
export_to odd 1 gpt3-175b --on 3x8xh100-sxm --layout tp=2,dp=6,pp=2,micro-batch=1 --global-batch 48 --for nccl-tests
tr -s ' \n' '  ' <"$dir/out" | grep -q "none makes groups of 6 ranks 2 apart" || fail "groups that cannot be made are not said: $(cat "$dir/out")"
# Published: reduce_scatter on 8 H100, 363 GB/s.
export_to busbw 0 llama-3-8b --on 8xh100-sxm --layout tp=8,micro-batch=1 --for nccl-tests
expected=$(sed -n "s/^run tp '' reduce_scatter_perf //p" "$dir/busbw/nccl-tests.sh")
[ "$expected" -ge 327 ] && [ "$expected" -le 399 ] || fail "reduce_scatter of 8 H100: $expected GB/s, published are 363"

# --- the wrapper: the NUMA node of the GPU, whatever its index ---------------------------------------------------------------
export_to bind 0 llama-3-8b --on 8xh100-sxm --layout tp=2,micro-batch=1 --for slurm,mpi
mkdir -p "$dir/bin" "$dir/sys/bus/pci/devices/0000:1b:00.0" "$dir/sys/bus/pci/devices/0000:9d:00.0"
echo 1 >"$dir/sys/bus/pci/devices/0000:1b:00.0/numa_node"
echo 0 >"$dir/sys/bus/pci/devices/0000:9d:00.0/numa_node"
cat >"$dir/bin/nvidia-smi" <<'END'
#!/bin/sh
for last; do :; done
case $last in 0) echo 00000000:1B:00.0 ;; *) echo 00000000:9D:00.0 ;; esac
END
printf '#!/bin/sh\necho numactl "$@"\n' >"$dir/bin/numactl"
chmod +x "$dir/bin/nvidia-smi" "$dir/bin/numactl"
bound() { env SYSFS="$dir/sys" PATH="$dir/bin:$PATH" "$@" "$dir/bind/bind.sh" echo 'a b'; }
[ "$(bound LOCAL_RANK=0)" = "numactl --cpunodebind=1 --preferred=1 echo a b" ] || fail "rank 0: $(bound LOCAL_RANK=0)"
[ "$(bound SLURM_LOCALID=3)" = "numactl --cpunodebind=0 --preferred=0 echo a b" ] || fail "rank 3: $(bound SLURM_LOCALID=3)"
[ "$(bound CUDA_VISIBLE_DEVICES=5,0 OMPI_COMM_WORLD_LOCAL_RANK=1)" = "numactl --cpunodebind=1 --preferred=1 echo a b" ] ||
  fail "visible devices are not looked at"
[ "$(SYSFS=/nowhere "$dir/bind/bind.sh" echo 'a  b')" = "a  b" ] || fail "without GPUs the command is not run as it is"

# --- Open MPI takes host and rank file ---------------------------------------------------------------------------------------
export_to many 2 llama-3-8b --on 2x8xh100-sxm --layout tp=2,micro-batch=1 --for mpi --hosts a
export_to evil 2 llama-3-8b --on 2x8xh100-sxm --layout tp=2,micro-batch=1 --for mpi --hosts 'a;id,b'
if command -v mpirun >/dev/null 2>&1; then
  export_to mpi 0 layers=2,hidden=64,heads=2,vocab=256 --on 2xhere --layout tp=2,micro-batch=1 --precision fp32 --profile malha \
    --for mpi --hosts localhost
  # shellcheck disable=SC2016
  MPI_ARGS="--allow-run-as-root" PATH=$(dirname "$MALHA"):$PATH timeout 60 "$dir/mpi/run-mpi.sh" \
    sh -c 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"' >"$dir/out" 2>"$dir/err" || fail "mpirun: $(cat "$dir/err")"
  sort "$dir/out" | tr '\n' ' ' | grep -q "rank 0 of 2 rank 1 of 2" || fail "ranks: $(cat "$dir/out" "$dir/err")"
else
  echo "mpirun is not installed: not checked"
fi

# --- shellcheck -----------------------------------------------------------------------------------------------------------
if command -v shellcheck >/dev/null 2>&1; then
  export_to all 0 llama-3-8b --on 4xdgx-h100 --layout tp=2,micro-batch=1 --for megatron,torchrun,slurm,nccl,nccl-tests,mpi
  shellcheck "$dir"/all/*.sh "$dir"/all/*.sbatch || fail "shellcheck"
else
  echo "shellcheck is not installed: not checked"
fi
exit $failed
