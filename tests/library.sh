#!/bin/sh
# The installed library and command: only the public names, a C example over pkg-config, a Python example over --json, completion.
set -u
: "${MALHA:?path of the command}"
here=$(cd "$(dirname "$0")/.." && pwd)
build=$(dirname "$MALHA")
case $(cat "$build/CMakeCache.txt" 2>/dev/null) in *MALHA_SANITIZE:BOOL=ON*) exit 77 ;; esac # the example would need the sanitizer too
command -v cmake >/dev/null && command -v pkg-config >/dev/null || exit 77
root=$(mktemp -d) || exit 3
trap 'rm -rf "$root"' EXIT
failed=0
fail() {
  echo "FAIL: $*" >&2
  failed=$((failed + 1))
}
unset MALHA_CATALOG # what is installed has to find its own

DESTDIR=$root cmake --install "$build" >"$root/log" 2>&1 || { tail -n 5 "$root/log" >&2; exit 1; }
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")
top=$root$prefix
library=$(find "$top" -name libmalha.so)
[ -n "$library" ] || { fail "no libmalha.so is installed"; exit 1; }
for file in bin/malha include/malha.h share/malha/catalog/gpus/h100-80-sxm.yaml share/man/man1/malha.1 \
  share/bash-completion/completions/malha share/zsh/site-functions/_malha; do
  [ -s "$top/$file" ] || fail "$file is not installed"
done
[ "$(find "$top" -name '*.h' | wc -l)" = 1 ] || fail "private headers are installed"

# The command runs from where it lies and finds the catalogue beside it.
(cd / && "$top/bin/malha" machines h100-80-sxm >/dev/null) || fail "the installed command"
(cd / && "$top/bin/malha" help --names models | grep -qx llama-3-8b) || fail "names of models"

nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /^malha_/ { print; bad = 1 } END { exit bad }' || fail "private names are seen"
nm -D --defined-only "$library" | sed -n 's/.* \(malha_[a-z_]*\).*/\1/p' | sort >"$root/seen"
grep -o 'malha_[a-z_]*(' "$top/include/malha.h" | tr -d '(' | sort -u >"$root/declared"
cmp -s "$root/seen" "$root/declared" || fail "declared and exported names differ: $(diff "$root/declared" "$root/seen")"

export PKG_CONFIG_SYSROOT_DIR="$root"
PKG_CONFIG_PATH=$(dirname "$(find "$top" -name malha.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs malha) || fail "pkg-config"
ask() { LD_LIBRARY_PATH=$(dirname "$library") "$@"; }
# shellcheck disable=SC2086
if ${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror "$here/examples/library.c" $flags -o "$root/library"; then
  ask "$root/library" llama-3-8b 8xh100-sxm >"$root/out" || fail "examples/library.c: exit $?"
  grep -q 'tokens/s' "$root/out" || fail "examples/library.c: $(cat "$root/out")"
  ask "$root/library" no-such-model 8xh100-sxm >"$root/out" 2>&1
  [ $? -eq 2 ] && grep -q 'no-such-model' "$root/out" || fail "examples/library.c: an unknown model: $(cat "$root/out")"
else
  fail "examples/library.c does not build against the installed library"
fi
if command -v g++ >/dev/null; then
  echo '#include <malha.h>
  int main() { malha_estimate e = {}; e.size = sizeof e; return malha_version()[0] == 0 || e.fits; }' >"$root/x.cpp"
  # shellcheck disable=SC2086
  g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror "$root/x.cpp" $flags -o "$root/x" && ask "$root/x" || fail "C++"
fi

if command -v python3 >/dev/null; then
  [ "$(wc -l <"$here/examples/compare.py")" -le 30 ] || fail "examples/compare.py is longer than 30 lines"
  PATH="$top/bin:$PATH" python3 "$here/examples/compare.py" llama-3-8b 8xa100-80-sxm 8xh100-sxm >"$root/out" || fail "examples/compare.py"
  [ "$(grep -c 'tokens/s' "$root/out")" = 2 ] || fail "examples/compare.py: $(cat "$root/out")"
fi

# Completion, as bash and zsh run it.
if command -v bash >/dev/null; then
  cat >"$root/complete.bash" <<'END'
. "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_CWORD=0 word=${2##* }
COMP_WORDS=("${word##*[=:]}")
_malha 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
END
  complete() {
    PATH="$top/bin:$PATH" bash "$root/complete.bash" "$top/share/bash-completion/completions/malha" "$1" >"$root/words"
    grep -qx -- "$2" "$root/words" || fail "completion of '$1' has no '$2'"
  }
  complete 'malha ' plan
  complete 'malha pl' plan
  complete 'malha plan llama-3-8' llama-3-8b
  complete 'malha plan --prec' --precision
  complete 'malha plan x --precision ' fp8
  complete 'malha plan x --precision=f' fp8
  complete 'malha plan x --on 16x8xh100-s' 16x8xh100-sxm
  complete 'malha plan x --on 8xh100-sxm,8xa100-80-s' 8xh100-sxm,8xa100-80-sxm
  complete 'malha plan x --layout tp=8,recompute-l' 8,recompute-layers=
  complete 'malha plan x --layout recompute=f' full
fi
if command -v zsh >/dev/null; then zsh -n "$top/share/zsh/site-functions/_malha" || fail "zsh completion"; fi
[ $failed -eq 0 ] || exit 1
echo ok
