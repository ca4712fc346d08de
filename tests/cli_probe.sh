#!/bin/sh
# malha probe as a user calls it: listings in, tree, machine file, drawing and JSON out.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
corpus=tests/fuzz/corpus/topology
fail() { echo "FAIL: $*" >&2; failed=1; }
expect() { # STATUS WORD COMMAND...
  status=$1 word=$2
  shift 2
  "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" -eq "$status" ] || fail "$*: exit $got, not $status: $(cat "$work/err")"
  cat "$work/out" "$work/err" | grep -qF -- "$word" || fail "$*: '$word' is not said: $(cat "$work/out" "$work/err")"
}

expect 0 "GPU0" "$MALHA" probe --from $corpus/matrix
expect 0 "mlx5_0" "$MALHA" probe --from $corpus/matrix
expect 0 "NV12" "$MALHA" probe --from $corpus/matrix --layout tp=2
expect 0 "again" "$MALHA" probe
expect 2 "no such file" "$MALHA" probe --from "$work/none"
expect 2 "no listing of a node" "$MALHA" probe --from README.md
expect 2 "--gpu NAME" "$MALHA" probe --from $corpus/matrix -o "$work/node.yaml"
[ ! -e "$work/node.yaml" ] || fail "a machine file without a GPU"

# A pasted matrix becomes a machine that plan takes: two GPUs, one NIC.
expect 0 "GPU1" "$MALHA" probe --from $corpus/matrix $corpus/ibstat --gpu h100-sxm -o "$work/node.yaml" --svg "$work/node.svg"
grep -qF 'nic_bytes_per_s: {value: 5e+10, source: "read: tests/fuzz/corpus/topology/ibstat:7"}' "$work/node.yaml" || fail "the NIC's rate: $(cat "$work/node.yaml")"
expect 0 "2 × NVIDIA H100 SXM5 80GB" "$MALHA" plan smollm2-135m --on "$work/node.yaml" --layout zero=1,micro-batch=1 --seq 2048
expect 0 "50.0 GB/s" "$MALHA" machines "$work/node.yaml"
command -v python3 >/dev/null && {
  python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/node.svg" || fail "the drawing is no XML"
  for listing in matrix smi nccl hwloc lspci class; do
    listing=$corpus/$listing
    "$MALHA" probe --json --from "$listing" >"$work/json" || fail "$listing"
    python3 tests/cli_schema.py docs/schema/probe.json <"$work/json" || fail "$listing: JSON and docs/schema/probe.json differ"
  done
}

# What comes in badly: no end of line, NULs, UTF-16, terminal escapes, a prompt before it.
printf 'x\0y' >"$work/nul"
expect 2 "no listing" "$MALHA" probe --from "$work/nul"
{ printf '$ nvidia-smi topo -m\n'; sed 's/GPU1/\x1b[4mGPU1\x1b[0m/' $corpus/matrix; } >"$work/escapes"
expect 0 "NV12" "$MALHA" probe --from "$work/escapes"
command -v iconv >/dev/null && iconv -f UTF-8 -t UTF-16 $corpus/matrix >"$work/utf16" && expect 0 "NV12" "$MALHA" probe --from "$work/utf16"
"$MALHA" probe --from - <$corpus/matrix | grep -q NV12 || fail "standard input"

# This machine's own lstopo and the live view agree.
command -v lstopo-no-graphics >/dev/null && {
  lstopo-no-graphics --of xml >"$work/lstopo.xml" && "$MALHA" probe --from "$work/lstopo.xml" | grep '^CPUs' >"$work/pasted"
  "$MALHA" probe | grep '^CPUs' >"$work/live"
  cmp -s "$work/pasted" "$work/live" || fail "lstopo: $(cat "$work/pasted"), live: $(cat "$work/live")"
}
[ "$failed" -eq 0 ]
