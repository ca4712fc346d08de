#!/bin/sh
# The Debian package DEB: its fields, its files, and that it runs when installed under a folder. ./dev package runs it.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
deb=${DEB:-}
[ -n "$deb" ] || exit 77 # ./dev package makes one; a minute's work
for tool in dpkg dpkg-deb fakeroot; do command -v $tool >/dev/null || { echo "no $tool" >&2; exit 3; }; done
root=$(mktemp -d) || exit 3
trap 'rm -rf "$root"' EXIT
failed=0
fail() {
  echo "FAIL: $*" >&2
  failed=$((failed + 1))
}
[ -f "$deb" ] || { echo "no package: $deb" >&2; exit 1; }
unset MALHA_CATALOG

field() { dpkg-deb -f "$deb" "$1"; }
[ "$(field Package)" = malha ] || fail "Package: $(field Package)"
[ "$(field Architecture)" = "$(dpkg --print-architecture)" ] || fail "Architecture: $(field Architecture)"
for library in libc6 libjansson4 libcyaml1 libyaml-0-2; do
  case ", $(field Depends)" in *", $library"*) ;; *) fail "Depends has no $library: $(field Depends)" ;; esac
done
field Maintainer | grep -q '<.*@.*>' || fail "Maintainer: $(field Maintainer)"
[ "$(field Description | head -n 1 | wc -c)" -le 81 ] || fail "the synopsis is longer than 80 characters"
field Description | sed 1d | grep -qv '^ ' && fail "the description is not indented"

dpkg-deb -c "$deb" >"$root/list"
awk '$2 != "root/root"' "$root/list" | grep -q . && fail "files that are not root's"
awk '$6 !~ /^\.\/(usr\/.*)?$/' "$root/list" | grep . && fail "files outside /usr"
awk '$1 ~ /^-/ && $1 !~ /^-rw[-x]r-[-x]r-[-x]$/ || $1 ~ /^d/ && $1 != "drwxr-xr-x"' "$root/list" | grep . && fail "odd permissions"
for file in bin/malha include/malha.h share/malha/catalog/gpus/h100-80-sxm.yaml share/man/man1/malha.1.gz \
  share/man/man1/malha-plan.1.gz share/doc/malha/copyright share/doc/malha/changelog.gz \
  share/bash-completion/completions/malha share/zsh/site-functions/_malha; do
  grep -q " ./usr/$file\$" "$root/list" || fail "no /usr/$file"
done
grep -q '/usr/lib/.*/\{0,1\}libmalha.so.0 -> libmalha.so.0' "$root/list" || fail "no libmalha.so.0"

mkdir -p "$root/fs/var/lib/dpkg/info" "$root/fs/var/lib/dpkg/updates"
touch "$root/fs/var/lib/dpkg/status"
PATH="$PATH:/usr/sbin:/sbin" fakeroot dpkg --root="$root/fs" --log="$root/dpkg.log" --force-depends --force-unsafe-io --force-not-root --force-script-chrootless \
  --install "$deb" >"$root/log" 2>&1 || { cat "$root/log" >&2; fail "dpkg --install"; }
dpkg-query --admindir="$root/fs/var/lib/dpkg" -W -f '${db:Status-Abbrev}' malha 2>/dev/null | grep -q '^i' || fail "not installed"
command="$root/fs/usr/bin/malha"
(cd / && "$command" plan llama-3-8b --on 8xh100-sxm --layout zero=3,micro-batch=1,recompute=full | grep -q tokens/s) || fail "the installed command"
[ "$(cd / && "$command" --version | cut -d' ' -f2)" = "$(field Version)" ] || fail "versions differ"
[ ! -e "$root/fs/usr/include/malha" ] || fail "private headers"
for file in "$command" "$root"/fs/usr/lib/*/libmalha.so.0; do
  grep -qF "$here" "$file" && fail "$file knows the folder it was built in"
done
[ -f "$root/fs/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/libmalha.so.0" ] || fail "the library is not where Debian wants it"
[ $failed -eq 0 ] || exit 1
echo ok
