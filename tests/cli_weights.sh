#!/bin/sh
# malha weights, train --init and --save-hf as a user runs them, against PyTorch's reading and writing of the same files.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) && cd "$work" || exit 3
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
  echo "FAIL: $*" >&2
  failed=1
}
python=$(for p in python3 /usr/bin/python3; do "$p" -c 'import torch' 2>/dev/null && echo "$p" && break; done)
[ -n "$python" ] || {
  echo "skipped: no PyTorch (python3-torch)"
  exit 77
}
torch() { "$python" "$here/tests/weights.py" || failed=1; }
later() { echo "$*" >>checks; } # PyTorch takes long to start: all of its checks in the end
text=$here/LICENSE
small="--data $text --seq 32 --global-batch 8"
split="--layout tp=2,pp=2,dp=2,micro-batch=1"

for family in gpt2 llama; do
  for type in F32 BF16 F16; do echo "make $family $family-$type $type"; done
  echo "make $family $family-parts F32 3"
done | torch
for family in gpt2 llama; do
  # What was read is written: the same bits, whatever the type and the number of files.
  for from in F32 BF16 F16 parts; do
    "$MALHA" weights $family-$from -o $family-$from-copy --shard-size 50kB >page || fail "weights $family-$from: $?"
    later compare $family-$from $family-$from-copy
  done
  for type in bf16:BF16 fp16:F16; do
    "$MALHA" weights $family-F32 -o $family-${type%:*} --dtype ${type%:*} >page || fail "--dtype $type"
    later rounded $family-F32 $family-${type%:*} ${type#*:}
  done
  # The same loss as PyTorch's on the same weights; a step of next to no length leaves them as they are, on any layout.
  # shellcheck disable=SC2086
  "$MALHA" train --init $family-parts $small --steps 1 --lr 1e-30 --weight-decay 0 $split --eval "$text" --eval-batches 1 \
    --save-hf $family-kept --json >lines || fail "train --init $family-parts"
  later compare $family-parts $family-kept
  later forward $family-parts "$text" 32 8 "$(sed -n 's/.*"evaluation_loss":\([0-9.]*\).*/\1/p' lines)"
  while IFS= read -r line; do
    printf '%s\n' "$line" | python3 "$here/tests/cli_schema.py" "$here/docs/schema/train.json" || fail "schema: $line"
  done <lines
  # A checkpoint is the model that --save-hf writes; --init gives way to --resume.
  # shellcheck disable=SC2086
  "$MALHA" train --init $family-BF16 $small --steps 3 $split --save-hf $family-saved --out $family-run >page || fail "train --out"
  grep -q '^weights ' page || fail "the page does not say where weights come from"
  "$MALHA" weights $family-run -o $family-kept2 --json >json || fail "weights of a checkpoint"
  python3 "$here/tests/cli_schema.py" "$here/docs/schema/weights.json" <json || fail "schema of weights"
  later compare $family-saved $family-kept2
done
# shellcheck disable=SC2086
"$MALHA" train --init llama-BF16 $small --steps 4 --out llama-run --resume >page || fail "resume"
grep -q 'after step 3' page || fail "--resume begins anew"

# A bare description becomes Llama's config.json, and that is the same model.
# shellcheck disable=SC2086
"$MALHA" train layers=2,hidden=32,heads=4,kv_heads=2,vocab=256,gated=1 $small --steps 2 --save-hf bare >page || fail "bare"
"$MALHA" weights bare >page || fail "weights bare"
grep -q '(llama)' page || fail "a bare description as Llama"
awk 'length($0) > 80' page | grep -q . && fail "wider than a page"

# refused CODE WORD ARGUMENT...
refused() {
  code=$1 word=$2
  shift 2
  "$MALHA" "$@" >out 2>err
  [ $? -eq "$code" ] || fail "$* should exit $code"
  grep -q -- "$word" err || fail "$word is not in: $(cat err)"
}
refused 2 'folder' weights
refused 2 'nowhere' weights nowhere
refused 2 'not empty' weights gpt2-F32 -o llama-F32
refused 2 'is not there' weights gpt2-F32 -o no/where
refused 2 'which model' weights gpt2-F32/model.safetensors
refused 2 'is not there' weights llama-F32/model.safetensors --model gpt2
refused 2 'bare description' train layers=2,hidden=32,heads=4,vocab=256 --data "$text" --seq 32 --global-batch 8 --steps 1 --save-hf x
# shellcheck disable=SC2086
refused 2 'and the model makes it' train layers=2,hidden=64,heads=4,kv_heads=2,ffn=80,vocab=256,gated=1 $small --steps 1 --init llama-F32
cp -r llama-parts cut && truncate -s -4 cut/model-00002-of-00003.safetensors
refused 2 'model-00002-of-00003' weights cut
cp -r llama-parts lost && rm lost/model-00003-of-00003.safetensors
refused 2 'model-00003-of-00003' weights lost
cp -r llama-parts twice && cp twice/model-00001-of-00003.safetensors twice/model-00002-of-00003.safetensors
refused 2 'Keep one' weights twice
cp -r llama-F32 pointer && printf 'version https://git-lfs.github.com/spec/v1\n' >pointer/model.safetensors
refused 2 'Git LFS' weights pointer
torch <checks
[ "$(wc -l <checks)" -eq 18 ] || fail "checks are missing: $(wc -l <checks)"
[ -z "$(find . -name '*.part')" ] || fail "left over: $(find . -name '*.part')"
exit $failed
