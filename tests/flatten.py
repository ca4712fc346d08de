"""flatten.py FILE: its settings as lines "key<TAB>JSON", read by Python's own parsers."""
import json
import sys

name = sys.argv[1]
if name.endswith(".toml"):
    import tomllib
    with open(name, "rb") as file:
        data = tomllib.load(file)
elif name.endswith(".json"):
    with open(name, encoding="utf-8") as file:
        data = json.load(file)
else:
    import yaml
    with open(name, encoding="utf-8") as file:
        data = yaml.safe_load(file)


def walk(value, path):
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            own = str(key).replace("\\", "\\\\").replace(".", "\\.")
            walk(inner, f"{path}.{own}" if path else own)
    else:
        print(f"{path}\t{json.dumps(value, separators=(',', ':'), ensure_ascii=False)}")


walk(data, "")
