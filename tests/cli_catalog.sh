#!/bin/sh
# models and machines: lists, one of each, sources, JSON, 80 columns.
set -u
: "${MALHA:?path of the command}"
command -v python3 >/dev/null || exit 77
exec python3 - <<'END'
import json, math, os, re, subprocess, sys

faults = 0


def fail(text):
    global faults
    faults += 1
    print("FAIL:", text, file=sys.stderr)


def malha(*words):
    done = subprocess.run([os.environ["MALHA"], *words], capture_output=True, text=True, timeout=60)
    if done.returncode:
        fail(f"malha {' '.join(words)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def has(pattern, *words):
    text = malha(*words)
    if not re.search(pattern, text, re.M):
        fail(f"no '{pattern}' in malha {' '.join(words)}")
    for line in text.splitlines():
        if len(line) > 80:
            fail(f"wider than 80: malha {' '.join(words)}: {line}")


has("^llama-3-70b", "models")
has("70,553,706,496", "models", "llama-3-70b")
has("q_proj", "models", "llama-3-70b")
has("experts", "models", "mixtral-8x7b")
has("^h100-80-sxm", "machines")
has("^dgx-h100", "machines")
has("also p5en$", "machines")
has("^node +aws-p5: ", "machines", "16xp5")
has("^GPU +h100-96-hbm2e: ", "machines", "8xh100-96")
has("UNVERIFIED", "machines", "h100-80-sxm")
has("whitepaper", "machines", "h100-sxm")
has("nvme", "machines", "dgx-a100")
has("jitter", "machines", "16x8xh100-sxm")

for model in json.loads(malha("models", "--json"))["models"]:
    name = model["name"]
    has("parameters", "models", name)
    weights = json.loads(malha("models", name, "--json"))["weights"]
    total = sum(math.prod(w["shape"]) * w["copies"] * w["layers"] for w in weights if w["role"] != "buffer")
    if not 0 < total <= model["parameters"]:
        fail(f"{name}: its weights sum to {total}, its parameters are {model['parameters']}")

machines = json.loads(malha("machines", "--json"))
for machine in machines["gpus"] + machines["nodes"]:
    has("memory|nics|ram", "machines", machine["name"])
    json.loads(malha("machines", machine["name"], "--json"))

sys.exit(bool(faults))
END
