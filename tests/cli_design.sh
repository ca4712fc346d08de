#!/bin/sh
# malha design: what a user sees; JSON by its schema; files; the check of cables; refusals.
set -u
: "${MALHA:?path of the command}"
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }
# run CODE WORDS...: exit code, 80 columns
run() {
  want=$1
  shift
  "$MALHA" "$@" >"$work/out" 2>"$work/err"
  code=$?
  [ "$code" -eq "$want" ] || fail "malha $*: exit $code, not $want: $(cat "$work/err")"
  awk 'length($0) > 80 { print; bad = 1 } END { exit bad }' "$work/err" >/dev/null || fail "malha $*: messages wider than 80"
}
has() { grep -q -- "$1" "$work/out" "$work/err" || fail "no '$1' in: $(head -5 "$work/out" "$work/err")"; }

run 0 design --gpus 1016 --node dgx-h100 --ufm --cabling "$work/cables.csv" --bom "$work/bom.csv" --html "$work/d.html" -o "$work/cluster.yaml"
has "32 *16 *0 *1,020 *1,024"
python3 - "$work/out" <<'END' || fail "wider than 80"
import sys
sys.exit(any(len(line.rstrip("\n")) > 80 for line in open(sys.argv[1], encoding="utf-8")))
END
[ "$(grep -c ',compute,leaf-spine,' "$work/cables.csv")" -eq 1024 ] || fail "cables of the CSV"
cp "$work/cables.csv" "$work/first.csv"
run 0 design --from "$work/cluster.yaml" --cabling "$work/cables.csv"
cmp -s "$work/first.csv" "$work/cables.csv" || fail "the same cluster has another cable list"
for size in "--gpus 1016 --ufm" "--nodes 16 --grow 40 --whole-units" "--single-node" "--nodes 3 --topology tree --ethernet"; do
  # shellcheck disable=SC2086
  run 0 design --node dgx-h100 $size --json
  python3 tests/cli_schema.py docs/schema/design.json <"$work/out" || fail "schema: $size"
done
run 0 design llama-3-70b --single-node --node dgx-a100 --inference --refresh dgx-h100 --json
python3 tests/cli_schema.py docs/schema/design.json <"$work/out" || fail "schema: refresh, inference"
run 0 design llama-3-70b --nodes 8 --node dgx-a100 --inference --refresh dgx-b200
has "they run at 50 %"
has "no room"
run 2 design --nodes 4 --node dgx-h100 --inference
run 0 design llama-3-8b --node dgx-h100 --inference
run 1 design --nodes 4 --node dgx-h100 --dataset 1e30TB
has "storage servers"
run 2 design --nodes 4 --node dgx-h100 --repair 1e30d
run 2 design --single-node --node here
run 0 design --nodes 4 --node dgx-h100 --switch sn2201 --ethernet
has "ports of sn2201 give 1 Gb/s"
run 2 design --nodes 4 --node dgx-h100 --refresh dgx-h1000
python3 - "$work/d.html" <<'END' || fail "the page"
import html.parser, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
outside = re.findall(r'(?:src|href)\s*=', text)
parser = html.parser.HTMLParser()
parser.feed(text)
sys.exit(bool(outside) or text.count("<svg") != 4 or text.count("<svg") != text.count("</svg>"))
END
printf 'part,price,currency\ndgx-h100,300000,USD\n' >"$work/prices.csv"
run 0 design --nodes 4 --node dgx-h100 --prices "$work/prices.csv"
has "1,200,000"
printf 'part,price,currency\ndgx-h100,-3,USD\n' >"$work/prices.csv"
run 2 design --nodes 4 --node dgx-h100 --prices "$work/prices.csv"
has "prices.csv:2"
run 2 design check --expected "$work/cluster.yaml"
run 1 design check --expected "$work/cluster.yaml" --found tests/fuzz/corpus/design_wiring/ib.txt
has "missing"
run 2 design check --expected "$work/cluster.yaml" --found README.md
run 2 design
run 2 design --nodes 4
run 2 design --nodes 4 --node dgx-h10
has "dgx-h100"
run 2 design --nodes -4 --node dgx-h100
run 2 design --nodes 4 --node dgx-h100 --site nowhere
run 2 design --nodes 4 --node dgx-h100 --oversubscription 0
run 2 design --nodes 4 --node dgx-h100 --goodput 1.5
run 2 design llama --nodes 4 --node dgx-h100
run 2 design llama-3-8b --node dgx-h100
run 0 design llama-3-8b --tokens 1T --deadline 60d --node dgx-h100 --json
python3 tests/cli_schema.py docs/schema/design.json <"$work/out" || fail "schema: a target"
python3 - "$work/out" <<'END' || fail "the target"
import json, sys
d = json.load(open(sys.argv[1]))
t = d["target"]
sys.exit(not (t["time_to_target_s"] <= 60 * 86400 and d["nodes"]["spare"] >= 0 and t["checkpoint_bytes"] > 8e9 * 14 * 0.9 and t["wh_per_token"] > 0
             and abs(t["wh_per_token"] * t["tokens_per_s"] * t["goodput"] * 86400 / d["power"]["energy_wh_per_day"] - 1) < 1e-6))
END
# Every supply that sites have: 208, 220/380, 230/400, 240/415 V in three phases, one phase, 277/480 V behind a transformer.
for supply in 208:3:60:0 380:3:32:0 400:3:32:0 415:3:60:0 230:1:63:0 480:3:60:240 480:3:60:208; do
  IFS=: read -r volts phases breaker outlet <<SUPPLY
$supply
SUPPLY
  printf 'volts: %s\nphases: %s\nbreaker_a: %s\noutlet_v: %s\nfeeds: 4\nnetwork_feeds: 4\n' "$volts" "$phases" "$breaker" "$outlet" >"$work/site.yaml"
  run 0 design --nodes 4 --node dgx-h100 --site "$work/site.yaml"
done
printf 'base: default\nvolts: 480\n' >"$work/site.yaml"
run 1 design --nodes 4 --node dgx-h100 --site "$work/site.yaml"
has "site.yaml:2"
has "outlet_v"
printf 'phases: 2\n' >"$work/site.yaml"
run 2 design --nodes 4 --node dgx-h100 --site "$work/site.yaml"
has "site.yaml:1"
printf 'rack_ru: 0\n' >"$work/site.yaml"
run 2 design --nodes 4 --node dgx-h100 --site "$work/site.yaml"
printf 'redundancy: 2n\n' >"$work/site.yaml"
run 1 design --nodes 4 --node dgx-h100 --site "$work/site.yaml"
has "feeds"
printf 'breaker_a: 10\n' >"$work/site.yaml"
run 1 design --nodes 4 --node dgx-h100 --site "$work/site.yaml"
has "breaker_a"
printf 'max_racks: 2\n' >"$work/site.yaml"
run 1 design --nodes 64 --node dgx-h100 --site "$work/site.yaml"
run 1 design --nodes 900000 --node dgx-h100 --switch qm8700
exit "$failed"
