#!/bin/sh
# malha design --kit: the folder is complete, its scripts parse, Prometheus accepts its rules, and they fire when they should.
set -u
: "${MALHA:?path of the command}"
command -v promtool >/dev/null || { echo "skipped: no promtool (Debian: prometheus)"; exit 77; }
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }

for node in dgx-h100 dgx-a100 dgx-b200 gb200-nvl72 mi300x-oam pcie-server; do
  "$MALHA" design --node "$node" --nodes 4 --kit "$work/$node" >"$work/out" 2>&1 || fail "$node: $(tail -3 "$work/out")"
  for file in software.csv image.yaml hosts addresses.csv acceptance.csv parts.csv cables.csv cluster.yaml slurm/slurm.conf; do
    [ -s "$work/$node/$file" ] || fail "$node: no $file"
  done
  for script in acceptance.sh slurm/node-check; do
    sh -n "$work/$node/$script" || fail "$node: $script"
    [ -x "$work/$node/$script" ] || fail "$node: $script cannot be run"
  done
  (cd "$work/$node/monitoring" && promtool check config prometheus.yml) >"$work/out" 2>&1 || fail "$node: $(cat "$work/out")"
done
"$MALHA" design --node dgx-h100 --nodes 4 --ethernet --kit "$work/roce" >"$work/out" 2>&1 || fail "Ethernet"
promtool check rules "$work/roce/monitoring/alerts.yml" >"$work/out" 2>&1 || fail "Ethernet: $(cat "$work/out")"
grep -q PortDown "$work/roce/monitoring/alerts.yml" || fail "Ethernet: no PortDown"

# Seven GPUs of eight, a rail at half its rate, one down, an XID 79: these alerts and no healthy node's.
cd "$work/dgx-h100/monitoring" || exit 3
{
  printf 'rule_files: [alerts.yml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n'
  for gpu in 0 1 2 3 4 5 6 7; do
    [ "$gpu" = 7 ] || printf "      - {series: 'DCGM_FI_DEV_SM_CLOCK{instance=\"bad\",gpu=\"%s\"}', values: '1980x60'}\n" "$gpu"
    printf "      - {series: 'DCGM_FI_DEV_SM_CLOCK{instance=\"good\",gpu=\"%s\"}', values: '1980x60'}\n" "$gpu"
  done
  printf "      - {series: 'DCGM_FI_DEV_XID_ERRORS{instance=\"bad\",gpu=\"7\"}', values: '79x60'}\n"
  for hca in 0 3 4 5 6 9 10 11; do
    rate=50e9 up=4
    [ "$hca" != 4 ] || rate=25e9
    [ "$hca" != 10 ] || up=1
    printf "      - {series: 'node_infiniband_rate_bytes_per_second{instance=\"bad\",device=\"mlx5_%s\"}', values: '%sx60'}\n" "$hca" "$rate"
    printf "      - {series: 'node_infiniband_state_id{instance=\"bad\",device=\"mlx5_%s\"}', values: '%sx60'}\n" "$hca" "$up"
    printf "      - {series: 'node_infiniband_rate_bytes_per_second{instance=\"good\",device=\"mlx5_%s\"}', values: '50e9x60'}\n" "$hca"
    printf "      - {series: 'node_infiniband_state_id{instance=\"good\",device=\"mlx5_%s\"}', values: '4x60'}\n" "$hca"
  done
  printf '    alert_rule_test:\n'
  for rule in "GpuMissing:instance: bad, severity: critical" "GpuXidReset:instance: bad, gpu: \"7\", severity: critical" \
    "RailDown:instance: bad, severity: critical" "RailSlow:instance: bad, device: mlx5_4, severity: critical" "GpuHot:" "RailFlaps:"; do
    printf '      - eval_time: 10m\n        alertname: %s\n        exp_alerts:' "${rule%%:*}"
    labels=${rule#*:}
    if [ -n "$labels" ]; then printf '\n          - exp_labels: {%s}\n' "$labels"; else printf ' []\n'; fi
  done
} >fires.yml
sed -i 's/^ *summary: .*//; s/^ *source: .*//; s/^ *annotations:.*//' alerts.yml # labels are compared, not words
promtool test rules fires.yml >"$work/out" 2>&1 || fail "rules: $(cat "$work/out")"
exit "$failed"
