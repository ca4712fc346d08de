#!/bin/sh
# The answers shown in the README and the walkthroughs are those of the command; digits may differ.
set -u
: "${MALHA:?path of the command}"
command -v python3 >/dev/null || exit 77
cd "$(dirname "$0")/.." || exit 3
folder=$(mktemp -d) || exit 3
trap 'rm -rf "$folder"' EXIT
failed=0
set -- README.md
case $(cat "$(dirname "$MALHA")/CMakeCache.txt" 2>/dev/null) in
*MALHA_SANITIZE:BOOL=ON*) walkthroughs= ;; # a search ten times slower tells nothing more
*) walkthroughs=docs/walkthrough-*.md ;;
esac
for page in $walkthroughs; do [ ! -f "$page" ] || set -- "$@" "$page"; done
python3 docs/transcripts.py --check "$MALHA" "$@" || failed=1

# The comparison itself: digits do not matter, a verdict and a missing line do.
judge() { python3 docs/transcripts.py --check "$MALHA" "$folder/$1.md" >/dev/null 2>&1; }
sed 's/[0-9][0-9]* TFLOP/13 GFLOP/; s/ [0-9][0-9]* % of the step/ 5 % of the step/' README.md >"$folder/digits.md"
sed 's/^Fits: /Does not fit: /' README.md >"$folder/verdict.md"
sed '/^MFU  /d' README.md >"$folder/line.md"
grep -v '^\$ malha' README.md >"$folder/none.md"
cmp -s README.md "$folder/digits.md" && failed=1
judge digits || { echo "FAIL: other digits are not let through" >&2; failed=1; }
for wrong in verdict line none; do
  judge $wrong && { echo "FAIL: $wrong is let through" >&2; failed=1; }
done
exit $failed
