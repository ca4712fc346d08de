#!/bin/sh
# Bad input of every kind: exit 2, a message that says what, where and what to do, and nothing on standard output.
set -u
: "${MALHA:?path of the command}"
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 3
failed=0
LAYOUT="--on 8xh100-sxm --layout tp=1,zero=3,micro-batch=1,recompute=full"

fail() {
  echo "FAIL: $*" >&2
  failed=$((failed + 1))
}

# refuses PATTERN ARGUMENT...: exit 2 within 20 s, PATTERN (extended, case ignored) in the message.
refuses() {
  pattern=$1
  shift
  timeout 20 "$MALHA" "$@" >out 2>err
  code=$?
  [ $code -eq 2 ] || fail "exit $code instead of 2: malha $* ($(head -c 300 err))"
  [ ! -s out ] || fail "standard output is not empty: malha $*"
  awk 'length > 80 && NF > 1 { exit 1 }' err || fail "a message wider than 80 columns: malha $*"
  tr -s '\n ' ' ' <err >said
  grep -Eiq -- "$pattern" said || fail "no '$pattern' in: $(head -c 300 said) (malha $*)"
  [ "$(wc -c <err)" -lt 3000 ] || fail "the message is longer than a screen: malha $*"
  if LC_ALL=C grep -q "$(printf '\033')" err; then fail "control characters in the message: malha $*"; fi
}

llama() { # llama KEY VALUE: a small config.json with one value replaced
  cat <<END | sed "s|\"$1\": [^,}]*|\"$1\": $2|"
{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
 "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192}
END
}
config() { llama "$1" "$2" >config.json; }

# --- usage
refuses 'no command .*plan' pln
refuses 'no option --frob' plan llama-3-8b --frob
refuses 'no option --frob' --frob
refuses 'which model' plan
refuses 'which machine' plan llama-3-8b
refuses '--layout' lower llama-3-8b --on 8xh100-sxm
refuses 'Leave one out' plan llama-3-8b --on 8xh100-sxm --layout tp=8 --fix zero=1
refuses '--fix.*tq' plan llama-3-8b --on 8xh100-sxm --fix tq=8
refuses 'heads' plan llama-3-8b --on 16x7xh100-sxm --fix tp=7
refuses '--against' plan llama-3-8b --on 8xh100-sxm --against tp=3
refuses 'at most 100' plan llama-3-8b --on 8xh100-sxm --best 101
refuses 'between 0 and 1' plan llama-3-8b --on 8xh100-sxm --fit-probability 1.5
refuses 'tp has no value; write tp=N' plan llama-3-8b --on 8xh100-sxm --layout tp
refuses 'tp is given twice' plan llama-3-8b --on 8xh100-sxm --layout tp=8,tp=4
refuses 'here zero=1; use zero=3' plan llama-3-8b --on 8xh100-sxm --layout tp=8 --offload params:cpu
refuses 'use at most 32' plan llama-3-8b --on 8xh100-sxm --layout recompute=full,recompute-layers=99
refuses '--train lora' lower llama-3-8b --on 8xh100-sxm --train lora --seq 2048
refuses 'needs a value' plan llama-3-8b --on
refuses 'one argument too many' plan llama-3-8b llama-3-70b --on 8xh100-sxm
refuses 'no option --tpp.*tp' plan llama-3-8b --on 8xh100-sxm --tpp 8
refuses 'is not one of' plan llama-3-8b $LAYOUT --precision fp17
refuses 'adamw' plan llama-3-8b $LAYOUT --optimizer adamww
refuses 'optimizer' plan llama-3-8b $LAYOUT --offload everything
refuses 'cpu' plan llama-3-8b $LAYOUT --offload optimizer:disk
refuses 'UTF-8' plan "$(printf 'llama\377')" $LAYOUT
refuses 'UTF-8' models "$(printf '\300\200')"

# --- names
refuses 'llama-3-8b|llama-3' plan llama-3-8bb $LAYOUT
refuses 'llama' models llama-3-7b
refuses 'h100' machines h10
refuses 'h100' plan llama-3-8b --on 8xh1000 --layout tp=8
refuses 'h100' plan llama-3-8b --on 8xa100-80-sxm,8xh1000 --layout tp=8
refuses 'megatron' plan llama-3-8b $LAYOUT --profile megatrom
refuses 'micro-batch' plan llama-3-8b --on 8xh100-sxm --layout micro-bach=1

# --- numbers
refuses '0' plan llama-3-8b --on 0xh100-sxm --layout tp=1
refuses '.' plan llama-3-8b --on 8x0xh100-sxm --layout tp=1
refuses '.' plan llama-3-8b --on 99999999999999999999xh100-sxm --layout tp=1
refuses 'tokens' plan llama-3-8b $LAYOUT --tokens -5
refuses 'tokens' plan llama-3-8b $LAYOUT --tokens nan
refuses 'seq' plan llama-3-8b $LAYOUT --seq 1e99
refuses 'seq' plan llama-3-8b $LAYOUT --micro-batch 1000000000
refuses 'seq' plan llama-3-8b $LAYOUT --seq 1000000000 --attention unfused
refuses 'pue' plan llama-3-8b $LAYOUT --pue 0
refuses 'usd-per-gpu-hour' plan llama-3-8b $LAYOUT --tokens 1T --budget 1
refuses 'seq' plan llama-3-8b $LAYOUT --seq lots
refuses 'tokens' plan llama-3-8b $LAYOUT --deadline 30d
refuses 'batch' plan llama-3-8b $LAYOUT --global-batch 7
refuses 'heads' plan llama-3-8b --on 16x7xh100-sxm --layout tp=7,micro-batch=1
refuses 'tp|GPU' plan llama-3-8b --on 8xh100-sxm --layout tp=16,micro-batch=1
refuses 'pp|layers|stage|GPU' plan llama-3-8b --on 64x8xh100-sxm --layout pp=64,micro-batch=1
refuses 'tp' plan llama-3-8b --on 8xh100-sxm --layout tp=0
refuses 'tp' plan llama-3-8b --on 8xh100-sxm --layout tp=-1
refuses "zero: '-1' is not one of" plan llama-3-8b $LAYOUT --zero -1
refuses "lora-targets: 'foo' is not one of" plan llama-3-8b $LAYOUT --train lora --lora-targets foo
for key in tp cp dp pp vpp ep etp hybrid micro-batch; do # nothing is not the same as not given
  refuses "$key: '0' is nothing" plan llama-3-8b --on 8xh100-sxm --layout zero=3,$key=0
  refuses "$key: '0' is nothing" plan llama-3-8b $LAYOUT --$key 0
done
for key in seq global-batch accumulation tokens lora-rank deadline budget checkpoint-interval; do
  refuses "$key: '0' is nothing" plan llama-3-8b $LAYOUT --tokens 1G --$key 0
done
for key in usd-per-gpu-hour usd-per-kwh pue deadline budget checkpoint-interval; do
  refuses "$key: '-1' is negative" plan llama-3-8b $LAYOUT --tokens 1G --$key -1
done
refuses 'tp' plan llama-3-8b --on 8xh100-sxm --layout tp=1000000000000000000000000000000
refuses 'layers' plan layers=1000000000000000000000000000000,hidden=64,heads=1,ffn=64,vocab=64 $LAYOUT
refuses 'layers' plan layers=-3,hidden=64,heads=1,ffn=64,vocab=64 $LAYOUT
refuses 'hidden' plan layers=2,heads=1,ffn=64,vocab=64 $LAYOUT

# --- a model's config.json
config hidden_size -4096
refuses 'config.json:1: .*hidden_size' plan ./config.json $LAYOUT
config num_hidden_layers 1000000000000000000000000000000
refuses 'config.json' plan ./config.json $LAYOUT
config num_hidden_layers 1e30
refuses 'num_hidden_layers' plan ./config.json $LAYOUT
config num_attention_heads 0
refuses 'num_attention_heads' plan ./config.json $LAYOUT
config num_key_value_heads 5
refuses 'num_key_value_heads' plan ./config.json $LAYOUT
config vocab_size '"many"'
refuses 'vocab_size' plan ./config.json $LAYOUT
config model_type '"lama"'
refuses 'llama' plan ./config.json $LAYOUT
config hidden_size 4096
head -c 100 config.json >truncated.json
refuses 'truncated.json' plan ./truncated.json $LAYOUT
: >empty.json
refuses 'empty.json' plan ./empty.json $LAYOUT
printf '[]' >list.json
refuses 'list.json' plan ./list.json $LAYOUT
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "["; for (i = 0; i < 100000; i++) printf "]" }' >deep.json
refuses 'deep.json' plan ./deep.json $LAYOUT
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "{\"a\":" }' >deep2.json
refuses 'deep2.json' plan ./deep2.json $LAYOUT
printf '{"model_type": "ll\377ma"}' >latin.json
refuses 'latin.json' plan ./latin.json $LAYOUT
printf '{"model_type": "llama", "x": "\\u0000", "hidden_size": 1' >nul.json
refuses 'nul.json' plan ./nul.json $LAYOUT
head -c 4096 /dev/urandom >random.json
refuses 'random.json' plan ./random.json $LAYOUT
truncate -s 1G huge.json
refuses 'huge.json' plan ./huge.json $LAYOUT
refuses 'missing.json' plan ./missing.json $LAYOUT
mkdir folder
refuses 'folder' plan ./folder $LAYOUT
refuses 'null' plan /dev/null $LAYOUT
if [ "$(id -u)" -ne 0 ]; then
  cp config.json secret.json
  chmod 000 secret.json
  refuses 'secret.json' plan ./secret.json $LAYOUT
fi

# --- a machine file, a job file, a plan file
printf 'nodes: 1\ngpu: {base: h100-sxm\n' >machine.yaml
refuses 'machine.yaml' plan llama-3-8b --on ./machine.yaml --layout tp=8
printf 'name: mine\nnodes: -4\nnode: {base: dgx-h100}\n' >machine.yaml
refuses 'machine.yaml' plan llama-3-8b --on ./machine.yaml --layout tp=8
for value in 'pcie_bytes_per_s: {value: 0' 'memory_bytes_per_s: {value: 0' 'memory_bytes: {value: 1e30' 'memory_bytes: {value: 80G'; do
  printf 'node: {base: dgx-h100}\ngpu: {base: h100-sxm, %s, source: mine}}\n' "$value" >machine.yaml
  refuses "machine.yaml:2: ${value%%:*}" plan llama-3-8b --on ./machine.yaml --layout zero=3
done
for nodes in 1e30 2.9 4x 010; do
  printf 'nodes: %s\nnode: {base: dgx-h100}\n' "$nodes" >machine.yaml
  refuses 'machine.yaml:1: nodes' plan llama-3-8b --on ./machine.yaml --layout tp=8
done
printf 'name: mine\nnodes: 1\nnode: {base: dgx-h100}\ncolour: red\n' >machine.yaml
refuses 'colour' plan llama-3-8b --on ./machine.yaml --layout tp=8
refuses 'folder' plan llama-3-8b --on ./folder --layout tp=8
printf '%s\n' 'id,gpu,n_gpus' >runs.csv
refuses 'no row could be judged: there is none' validate runs.csv
printf '%s\n' 'id,gpu,n_gpus' 'one,no-such-gpu,8' >runs.csv
refuses 'no row could be judged: the first, one' validate runs.csv

printf 'seq: 4096\nglobal-bach: 8\n' >job.yaml
refuses 'global-batch' plan llama-3-8b $LAYOUT --job job.yaml
printf 'seq: -1\n' >job.yaml
refuses 'seq' plan llama-3-8b $LAYOUT --job job.yaml
refuses 'nothing.yaml' plan llama-3-8b $LAYOUT --job nothing.yaml
printf '{"version": 1, "model": ' >plan.json
refuses 'plan.json' plan --from plan.json
printf '{}' >plan.json
refuses 'plan.json' plan --from plan.json
printf '{"malha_plan": 99, "model": "llama-3-8b"}' >plan.json
refuses "99" plan --from plan.json
refuses 'huge.json' plan --from huge.json
refuses 'folder' lower --from folder

# --- where answers go
refuses 'one machine' plan llama-3-8b --on 8xh100-sxm,8xa100-80-sxm --layout zero=3,micro-batch=1,recompute=full -o x.json
"$MALHA" plan llama-3-8b $LAYOUT -o folder/none/plan.json >out 2>err
[ $? -ge 2 ] && grep -q 'folder/none/plan.json' err || fail "writing where there is no folder"
if [ -w /dev/full ]; then
  "$MALHA" models >/dev/full 2>err
  [ $? -eq 3 ] || fail "a full disk is a fault: exit 3"
fi

[ $failed -eq 0 ] || { echo "$failed failed" >&2; exit 1; }
echo ok
