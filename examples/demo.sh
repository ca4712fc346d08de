#!/bin/sh
# Can Llama-3-70B be trained on one server with eight 80 GB GPUs? Every number below comes from malha, now.
set -u
MALHA=${1:-${MALHA:-malha}}
command -v "$MALHA" >/dev/null || {
  echo "demo: no such command: $MALHA (give its path, or set MALHA)" >&2
  exit 2
}
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else
  bold='' dim='' plain=''
fi

MODEL=llama-3-70b
SPLIT=zero=3,micro-batch=1,recompute=full # everything sharded, all activations recomputed: the least memory
BATCH="--global-batch 512 --tokens 15T"
TP=tp=8,micro-batch=1,recompute=full

title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# 0 and 1 are answers; anything else ends the demo.
ask() {
  answer=$("$MALHA" "$@")
  code=$?
  [ $code -le 1 ] || {
    echo "demo: malha $* failed with $code" >&2
    exit $code
  }
}

# short WORDS ARGUMENT...: the verdict, the speed and the command only.
short() {
  words=$1
  shift
  ask plan $MODEL "$@"
  printf '\n%s\n' "$words"
  printf '%s\n' "$answer" | sed -n '/^Fits/,/^$/p; /^Does not fit/,/^$/p; /^Were/p; /^speed/p; /^target/,/^UNV/{/^UNV/!p;}' |
    sed '/^$/d; s/^/  /'
  printf '%s' "$dim"
  printf '%s\n' "$answer" | sed -n '/^again: /,$p' | sed 's/^again: /  $ /; s/^  --/      --/'
  printf '%s' "$plain"
}

title "Can Llama-3-70B be trained on one server with eight 80 GB GPUs?"
echo "As asked: all weights, bf16, AdamW in fp32 (16 bytes a parameter), and the split"
echo "that needs the least memory."
echo
printf '%s$ malha plan %s --on 8xa100-80-sxm,8xh100-sxm \\\n    --layout %s %s%s\n' "$dim" $MODEL $SPLIT "$BATCH" "$plain"
ask plan $MODEL --on 8xa100-80-sxm,8xh100-sxm --layout $SPLIT $BATCH
printf '%s\n' "$answer" | sed '/^again/,$d'

title "Why not, and what would: one H100 server in full"
ask plan $MODEL --on 8xh100-sxm --layout $SPLIT $BATCH
printf '%s\n' "$answer" | sed -n '/^Does not fit/,/^UNVERIFIED/p; /^Fits/,/^UNVERIFIED/p' | sed '/^UNVERIFIED/d'

title "The shortcuts that people name, one at a time"
short "8-bit Adam" --on 8xh100-sxm --layout $SPLIT $BATCH --optimizer adamw-8bit
short "8-bit Adam, no fp32 copy of the weights, bf16 gradients (as LLMQ does)" \
  --on 8xh100-sxm --layout $TP $BATCH --profile llmq --optimizer adamw-8bit
short "Adam with bf16 moments, no fp32 copy, bf16 gradients (Megatron-Bridge)" \
  --on 8xh100-sxm --layout $TP $BATCH --profile megatron-bridge --optimizer adamw-bf16
short "LoRA, on the A100 server" --on 8xa100-80-sxm --layout $SPLIT $BATCH --train lora

title "15 T tokens within a year: a cluster"
short "128 servers" --on 128x8xh100-sxm --layout tp=8,pp=4,micro-batch=1,recompute=selective \
  --global-batch 2048 --tokens 15T

title "Next"
cat <<'END'
  malha plan llama-3-70b --on 4x8xh100-sxm --layout tp=8,pp=4,micro-batch=1
  malha plan llama-3-8b --on 8xh100-sxm        a layout to start from
  malha models llama-3-70b                     weights, parameter count, source
  malha machines h100-80-sxm                   every value and who says so
  malha                                        all commands
END
