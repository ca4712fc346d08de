#!/bin/sh
# malha data: files that Python writes from the formats' definitions are read, and the other way round.
set -u
: "${MALHA:?path of the command}"
command -v python3 >/dev/null || exit 77
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 3
failed=0
fail() {
  echo "FAIL: $*" >&2
  failed=$((failed + 1))
}

cat >formats.py <<'END'
import array, struct, sys
ids = [(i * 7919) % 50257 for i in range(10000)]
lengths = [2500, 0, 7500]
def write_all():
    array.array('H', ids).tofile(open('nano.bin', 'wb'))
    with open('llmc.bin', 'wb') as f:
        f.write(struct.pack('<256i', 20240520, 1, len(ids), *[0] * 253)); array.array('H', ids).tofile(f)
    with open('mega.bin', 'wb') as f: array.array('i', ids).tofile(f)
    pointers, at = [], 0
    for n in lengths: pointers.append(4 * at); at += n
    with open('mega.idx', 'wb') as f:
        f.write(b'MMIDIDX\x00\x00' + struct.pack('<QBQQ', 1, 4, 3, 4))
        f.write(struct.pack('<3i', *lengths) + struct.pack('<3q', *pointers) + struct.pack('<4q', 0, 1, 2, 3))
def read(path):
    raw = open(path, 'rb').read()
    if struct.unpack('<i', raw[:4])[0] == 20240801: return list(array.array('I', raw[1024:]))
    if struct.unpack('<i', raw[:4])[0] == 20240520: return list(array.array('H', raw[1024:]))
    try: index = open(path[:-4] + '.idx', 'rb').read()
    except OSError: return list(array.array('H', raw))
    assert index[:9] == b'MMIDIDX\x00\x00' and struct.unpack('<Q', index[9:17])[0] == 1
    kind, (n, documents) = index[17], struct.unpack('<QQ', index[18:34])
    assert sum(struct.unpack('<%di' % n, index[34:34 + 4 * n])) * (2 if kind == 8 else 4) == len(raw)
    assert struct.unpack('<%dq' % documents, index[34 + 12 * n:]) == tuple(range(n + 1))
    return list(array.array('H' if kind == 8 else 'i', raw))
if sys.argv[1] == 'write': write_all()
else:
    for path in sys.argv[2:]:
        if read(path) != ids * (3 if path == 'all.bin' else 1): sys.exit(path + ' is not the same')
END
python3 formats.py write

"$MALHA" data nano.bin llmc.bin mega.idx >out || fail "reading three formats"
for want in 'nanogpt   10,000 ' 'llm.c     10,000 ' 'megatron  10,000          3      50,256  mega.bin'; do
  grep -q "$want" out || fail "'$want' is not in: $(cat out)"
done
for from in nano.bin llmc.bin mega.idx; do
  for to in nanogpt llm.c megatron; do
    "$MALHA" data $from --to $to -o ${from%.*}-to-$to.bin >/dev/null || fail "$from to $to"
  done
done
"$MALHA" data nano.bin mega.bin llmc.bin -o all.bin --json | python3 "$here/tests/cli_schema.py" "$here/docs/schema/data.json" ||
  fail "schema with an output"
python3 formats.py check ./*-to-*.bin all.bin || fail "from one format to another"

printf 'to be or not to be' >line.txt
"$MALHA" data line.txt -o line.bin >/dev/null && "$MALHA" data line.bin --to bytes -o back.txt >/dev/null
cmp -s line.txt back.txt || fail "bytes there and back"
"$MALHA" data line.txt line.txt --end-of-text 256 --to megatron -o two.bin >/dev/null
"$MALHA" data two.idx | grep -q 'megatron      38          2         256  two.bin' || fail "end of text: $("$MALHA" data two.idx)"

# refuse STATUS WORD ARGUMENT...: exit status, and what the message names; nothing is left behind
refuse() {
  status=$1 word=$2
  shift 2
  "$MALHA" data "$@" >out 2>wrapped
  [ $? -eq "$status" ] || fail "$*: status"
  tr -s ' \n' ' ' <wrapped >err
  grep -q -e "$word" err || fail "$*: '$word' is not in: $(cat err)"
  ls | grep -q '^no\.' && fail "$*: left a file behind"
  return 0
}
refuse 2 'byte 8: token 4 has the id 31676' nano.bin --vocabulary 30000
refuse 2 '8-bit ids holds 0 to 255' nano.bin --to bytes -o no.bin
refuse 2 'No file' --json
refuse 2 'only bytes' line.txt --tokenizer tokenizer.json
refuse 2 'no such file' gone.bin -o no.bin
refuse 2 'end in .bin' line.txt -o no.txt
refuse 2 'end-of-text' line.txt --end-of-text 1
refuse 2 'There is no option' line.txt --too x
printf x >>nano.bin
refuse 2 '20001 bytes' nano.bin
if [ -w /dev/full ]; then
  mkdir full && cp llmc.bin full/
  (ulimit -f 8 && trap '' XFSZ && "$MALHA" data mega.idx mega.idx mega.idx mega.idx -o full/no.bin) >out 2>wrapped && fail "a limit of the disk"
  tr -s ' \n' ' ' <wrapped >err
  grep -q 'full/no.bin.*after .* tokens' err || fail "a limit of the disk: $(cat err)"
  [ "$(ls full)" = llmc.bin ] || fail "a limit of the disk leaves $(ls full)"
fi
[ $failed -eq 0 ] || exit 1
echo ok
