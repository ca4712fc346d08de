"""transcripts.py [--check] MALHA FILE.md...: the answers of a document, from the command itself.

Runs every `$ malha ...` of a code block and puts its answer in place of the old one. The blocks of one document run in order in one
empty folder, so that one may read what another wrote. The answer ends before what nobody could verify and the command once
more. With --check nothing is written: exit 1 when a command fails, answers yes instead of no, or says other things than the
document shows. Digits may differ, and with them units, bars, and which rows of a table are worth a line."""
import difflib
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```\n(\$ malha (?:[^\n]*\\\n)*[^\n]*\n)(.*?)^```$", re.M | re.S)
LIMIT_S = 300


def run(malha, command, folder):
    words = shlex.split(command.replace("\\\n", " ")[2:])
    done = subprocess.run([malha, *words[1:]], capture_output=True, text=True, cwd=folder, timeout=LIMIT_S)
    if done.returncode > 1:
        sys.exit(f"{command}: {done.stderr}")
    return re.split(r"^(?:UNVERIFIED|again:)", done.stdout, maxsplit=1, flags=re.M)[0].rstrip("\n")


def structure(answer):
    """What begins a line at the margin: labels, headings, the verdict. Wrapped text that goes on there is left out."""
    labels, before = [], ""
    for line in answer.split("\n"):
        if line and not line[0].isspace() and (not before or "  " in line):
            label = re.split(r"  |: |:$", line)[0].split(" of ")[0]
            labels.append(re.sub(r"[\d.,]+", "#", label).strip())
        before = line
    return labels


def compare(path, command, old, new):
    shown, now = structure(old), structure(new)
    if shown == now:
        return True
    print(f"{path}: {command.strip()}")
    print("\n".join(difflib.unified_diff(shown, now, "the document", "the command", lineterm="", n=1)))
    return False


def main(arguments):
    check = arguments[:1] == ["--check"]
    malha, *paths = arguments[check:]
    malha, same, blocks = str(Path(malha).resolve()), True, 0
    for path in map(Path, paths):
        text, parts, at = path.read_text(encoding="utf-8"), [], 0
        with tempfile.TemporaryDirectory() as folder:
            for block in BLOCK.finditer(text):
                answer = run(malha, block[1], folder)
                same &= not check or compare(path, block[1], block[2].rstrip("\n"), answer)
                parts += [text[at : block.start()], f"```\n{block[1]}{answer}\n```"]
                at = block.end()
                blocks += 1
        if not check:
            path.write_text("".join(parts) + text[at:], encoding="utf-8")
    if check and not blocks:
        sys.exit("no answers to compare")
    return 0 if same else 1


sys.exit(main(sys.argv[1:]))
