#!/bin/sh
# Can Llama-3-70B be trained on one server with eight 80 GB GPUs? And a small one, trained here. Every number comes from malha, now.
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

# Eight GPUs split each layer, and all activations are recomputed: what needs the least memory.
ASKED="llama-3-70b --layout tp=8,micro-batch=1,recompute=full --global-batch 64 --tokens 15T"

title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# ask ARGUMENT...: shows the command; its answer is kept. 0 and 1 are answers, anything else ends the demo.
ask() {
  printf '%s$ malha %s%s\n' "$dim" "$(printf '%s' "$*" | sed 's/ --global-batch/ \\\n    &/; s/   *--/    --/')" "$plain"
  answer=$("$MALHA" "$@")
  code=$?
  [ $code -le 1 ] || {
    echo "demo: malha $* failed with $code" >&2
    exit $code
  }
}
part() { printf '%s\n' "$answer" | sed -n "/^$1/,/^\$/p" | sed '/^$/d'; }

title "Can Llama-3-70B be trained on one server with eight 80 GB GPUs?"
# shellcheck disable=SC2086
ask plan $ASKED --on 8xa100-80-sxm,8xh100-sxm
part machine

title "What would make it fit on the H100 server, and how fast is each?"
# shellcheck disable=SC2086
ask plan $ASKED --on 8xh100-sxm
part 'Does not fit'
part 'What would'

title "15 T tokens: a cluster of 128 servers"
ask plan llama-3-70b --layout tp=8,pp=4,micro-batch=1,recompute=selective --global-batch 2048 --tokens 15T \
  --on 128x8xh100-sxm
part 'Fits'
part 'step  ' | sed -n '/^speed/p; /^target/,$p'

# The licences that Debian's base-files ships, as bytes; elsewhere the one of this project.
text=
for file in /usr/share/common-licenses/GPL-2 /usr/share/common-licenses/GPL-3 /usr/share/common-licenses/LGPL-2.1 \
  "$(dirname "$0")/../LICENSE"; do
  [ -r "$file" ] && [ ${#text} -lt 200 ] && text=$text${text:+,}$file
done
title "And run one here: a small Llama on eight ranks, split three ways, on the text of some licences"
ask train layers=4,hidden=128,heads=4,kv_heads=2,vocab=256,gated=1 --data "$text" --seq 128 --global-batch 16 \
  --steps 60 --lr 3e-3 --layout tp=2,pp=2,dp=2,micro-batch=2
printf '%s\n' "$answer" | sed -n '/^step/p' | sed -n '1p;$p'
printf '%s\n' "$answer" | sed -n '/^Planned/,/^$/p'

title "Next"
cat <<'END'
  malha plan llama-3-8b --on 8xh100-sxm        the best layout of all
  malha models llama-3-70b                     weights, parameter count, source
  malha machines h100-80-sxm                   every value and who says so
  malha                                        all commands
END
