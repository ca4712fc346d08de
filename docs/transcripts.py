"""transcripts.py MALHA FILE.md...: runs every `$ malha ...` of a code block again and puts its answer in place of the old one.

The answer ends before what nobody could verify and the command once more."""
import re
import shlex
import subprocess
import sys

BLOCK = re.compile(r"^```\n(\$ malha (?:[^\n]*\\\n)*[^\n]*\n)(.*?)^```$", re.M | re.S)


def again(malha, block):
    words = shlex.split(block[1].replace("\\\n", " ")[2:])
    done = subprocess.run([malha, *words[1:]], capture_output=True, text=True)
    if done.returncode > 1:
        sys.exit(f"{block[1]}: {done.stderr}")
    answer = re.split(r"^(?:UNVERIFIED|again:)", done.stdout, maxsplit=1, flags=re.M)[0].rstrip("\n")
    return f"```\n{block[1]}{answer}\n```"


for path in sys.argv[2:]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = BLOCK.sub(lambda block: again(sys.argv[1], block), text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
