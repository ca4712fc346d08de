#!/bin/sh
# malha export and malha import as a user has them: files that bash and shellcheck take, settings that come back, hostile names.
set -u
dir=$(mktemp -d) || exit 3
trap 'rm -rf "$dir"' EXIT
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }
run() { "$MALHA" "$@" >"$dir/out" 2>"$dir/err"; status=$?; }
expect() { # STATUS TEXT...: of the last run
  [ "$status" -eq "$1" ] || fail "exit $status instead of $1: $(head -3 "$dir/err")"
  shift
  for text; do cat "$dir/out" "$dir/err" | tr -s ' \n' '  ' | grep -qF -- "$text" || fail "no '$text' in: $(cat "$dir/out" "$dir/err" | head -20)"; done
}

# --- a plan and its script ---------------------------------------------------------------------------------------------
run plan llama-3-8b --on 2x8xh100-sxm --layout tp=2,micro-batch=1 --global-batch 64 -o "$dir/plan.json"
run export --from "$dir/plan.json" --for megatron -o "$dir/run"
expect 0 "written $dir/run/train-megatron.sh"
[ -x "$dir/run/train-megatron.sh" ] || fail "the script cannot be run"
run export --from "$dir/plan.json" --for megatron
expect 0
sed 's/written by:.*//' "$dir/out" >"$dir/one"
sed 's/written by:.*//' "$dir/run/train-megatron.sh" | cmp -s - "$dir/one" || fail "standard output is another script"
run import "$dir/run/train-megatron.sh" --on 8xh100-sxm --as-is -o "$dir/back.json"
expect 0 "llama-3-8b" "2 nodes" "64 = 1"
grep -v '"kept"' "$dir/plan.json" >/dev/null
for key in model layout machine; do
  python3 - "$dir/plan.json" "$dir/back.json" $key 2>/dev/null <<'END' || fail "$key is not the same after a round trip"
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:3])
sys.exit(a[sys.argv[3]] != b[sys.argv[3]])
END
done

# --- bash runs it as it says ----------------------------------------------------------------------------------------------
cat >"$dir/torchrun" <<'END'
#!/bin/sh
printf '%s\n' "$@"
END
chmod +x "$dir/torchrun"
PATH="$dir:$PATH" TRAIN_ITERS=7 NODE_RANK=0 MASTER_ADDR=a bash "$dir/run/train-megatron.sh" --log-interval 3 >"$dir/words" 2>"$dir/err" ||
  fail "the script does not run: $(cat "$dir/err")"
for word in --tensor-model-parallel-size --mock-data 128256 7 --log-interval; do
  grep -qx -- "$word" "$dir/words" || fail "no $word among the words of torchrun"
done
PATH="$dir:$PATH" bash "$dir/run/train-megatron.sh" >/dev/null 2>"$dir/err" && fail "it runs without a number of steps"
grep -q "how many steps" "$dir/err" || fail "it does not ask for the number of steps"

# --- hostile names: quoted, kept, never run --------------------------------------------------------------------------------
cat >"$dir/mine.sh" <<END
#!/bin/bash
export NCCL_DEBUG='x; touch $dir/pwned' NCCL_P2P_DISABLE=1
DATA='\$(touch $dir/pwned) \`touch $dir/pwned\` "a" '"'"'b'"'"
ARGS="--num-layers 32 --hidden-size 4096 --num-attention-heads 32"
torchrun --nproc_per_node 8 pretrain_gpt.py \$ARGS --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 \\
  --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope \\
  --rotary-base 500000 --max-position-embeddings 8192 --seq-length 8192 --micro-batch-size 1 --global-batch-size 64 --bf16 \\
  --tensor-model-parallel-size 4 --sequence-parallel --use-distributed-optimizer --vocab-size 128256 \\
  --data-path "\$DATA" --save "\$(touch $dir/pwned)" --lr \$LR --my-own-option 'a b'
END
run import "$dir/mine.sh" --on 8xh100-sxm -o "$dir/mine.json" --better "$dir/better.json"
expect 0 "llama-3-8b" "--my-own-option=a b" "NCCL_P2P_DISABLE" "unset it" "change by change" "overlap-dp-grad off to on" "is not run"
run plan --from "$dir/better.json"
expect 0 "Fits"
for plan in mine better; do
  run export --from "$dir/$plan.json" --for megatron -o "$dir/hostile-$plan"
  LR=1 TRAIN_ITERS=1 LINE_9=x PATH="$dir:$PATH" bash "$dir/hostile-$plan/train-megatron.sh" >"$dir/words" 2>"$dir/err" || fail "$(cat "$dir/err")"
  # shellcheck disable=SC2016
  grep -qF '$(touch '"$dir"'/pwned) `touch '"$dir"'/pwned` "a" '"'b'" "$dir/words" || fail "the data path is not what it was: $(cat "$dir/words")"
  grep -qx 'a b' "$dir/words" || fail "the option with a blank is cut"
done
[ ! -e "$dir/pwned" ] || fail "something of the settings was run"
run import "$dir/mine.sh" --on 8xh100-sxm --as-is --json
expect 0 '"key": "--my-own-option"' '"findings"'

if command -v python3 >/dev/null 2>&1; then
  python3 tests/cli_schema.py docs/schema/import.json <"$dir/out" || fail "import --json is not as its schema says"
  run export --from "$dir/mine.json" --for megatron --json
  python3 tests/cli_schema.py docs/schema/export.json <"$dir/out" || fail "export --json is not as its schema says"
  python3 tests/cli_schema.py docs/schema/plan-file.json <"$dir/mine.json" || fail "a plan with settings kept is not as its schema says"
fi

# --- what cannot be expressed is said --------------------------------------------------------------------------------------
run export llama-3-8b --on 8xh100-sxm --layout pp=4,micro-batch=1,schedule=zb-h1 --profile zero-bubble --for megatron -o "$dir/zb"
expect 1 "schedule=zb-h1" "interleaved or not"
grep -q "not expressed: schedule=zb-h1" "$dir/zb/train-megatron.sh" || fail "the script does not say what is missing"
run export llama-3-8b --on 8xh100-sxm --layout zero=3,micro-batch=1 --for megatron -o "$dir/fsdp"
expect 1 "priced for"

# --- files of keys: Python's own parsers read them, and they come back -------------------------------------------------------
if python3 -c 'import yaml, tomllib' 2>/dev/null; then
  run plan llama-3-8b --on 2x8xh100-sxm --layout zero=3,micro-batch=2,recompute=full --global-batch 64 -o "$dir/fsdp2.json"
  run export --from "$dir/fsdp2.json" --for accelerate -o "$dir/keys"
  expect 0 "elsewhere" "global-batch=64"
  run export llama-3-8b --on 2x8xh100-sxm --layout zero=3,micro-batch=2 --profile torchtitan --for torchtitan -o "$dir/keys"
  expect 0 "torchtitan.toml"
  run export llama-3-8b --on 2x8xh100-sxm --layout zero=3,micro-batch=2 --profile deepspeed --offload optimizer:cpu --for deepspeed -o "$dir/keys"
  expect 0 "deepspeed.json"
  for line in "accelerate.yaml|num_processes|16" "torchtitan.toml|parallelism.data_parallel_shard_degree|16" \
    "deepspeed.json|zero_optimization.offload_optimizer.device|\"cpu\""; do
    file=${line%%|*} rest=${line#*|}
    python3 tests/flatten.py "$dir/keys/$file" | grep -qF "${rest%%|*}	${rest#*|}" || fail "$file does not say $rest: $(cat "$dir/keys/$file")"
  done
  run import "$dir/keys/accelerate.yaml" --on 8xh100-sxm --model llama-3-8b --seq 8192 --layout micro-batch=2 --global-batch 64 --as-is
  expect 0 "2 nodes" "64 = 2" "zero=3" "recompute=full" "fsdp2"
  run import "$dir/keys/torchtitan.toml" --on 2x8xh100-sxm --as-is
  expect 1 "llama-3-8b" "torchtitan"
  run import "$dir/keys/deepspeed.json" --on 2x8xh100-sxm --as-is
  expect 2 "Add --model"
fi
printf 'a: 1\n' >"$dir/other.yaml"
run import "$dir/other.yaml" --on 8xh100-sxm
expect 2 "no settings that are known"

# --- usage ------------------------------------------------------------------------------------------------------------------
run export --from "$dir/plan.json"
expect 2 "--for megatron"
run export --from "$dir/plan.json" --for megatorn
expect 2 "Nearest: megatron"
run export --from "$dir/plan.json" --for ,
expect 2 "--for is empty"
run export --from "$dir/plan.json" --for megatron -o "$dir/plan.json"
expect 2 "is no folder"
run import
expect 2 "Which files"
run import "$dir/mine.sh"
expect 2 "Add --on"
run import "$dir/plan.json" --on 8xh100-sxm
expect 2 "no settings that are known"
run import "$dir/absent.sh" --on 8xh100-sxm
expect 2 "no such file"
sed 's/--global-batch-size 64/--global-batch-size x/' "$dir/mine.sh" >"$dir/wrong.sh"
run import "$dir/wrong.sh" --on 8xh100-sxm
expect 2 "wrong.sh:5: --global-batch-size"
# shellcheck disable=SC2016
sed 's/--global-batch-size 64/--global-batch-size $GBS/' "$dir/mine.sh" >"$dir/open.sh"
run import "$dir/open.sh" --on 8xh100-sxm
expect 2 "NAME=VALUE"
run import "$dir/open.sh" GBS=64 --on 8xh100-sxm --as-is
expect 0 "64 = 1"

# --- shellcheck -----------------------------------------------------------------------------------------------------------
if command -v shellcheck >/dev/null 2>&1; then
  find "$dir" -name '*.sh' -path '*/*/train-*' | while read -r script; do
    case $script in "$dir"/run/* | "$dir"/hostile-* | "$dir"/zb/*) shellcheck -S warning "$script" || echo bad >>"$dir/bad" ;; esac
  done
  [ ! -e "$dir/bad" ] || fail "shellcheck"
else
  echo "shellcheck is not installed: not checked"
fi
exit $failed
