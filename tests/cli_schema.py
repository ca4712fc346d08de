"""cli_schema.py SCHEMA.json < INSTANCE.json: the part of JSON Schema that docs/schema uses. Exit 1 with what differs."""
import json
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def check(value, schema, root, where):
    if "$ref" in schema:
        return check(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, where)
    if "oneOf" in schema:
        faults = [list(check(value, one, root, where)) for one in schema["oneOf"]]
        return [] if sum(not f for f in faults) == 1 else min(faults, key=len) or [f"{where}: fits more than one"]
    return list(faults_of(value, schema, root, where))


def faults_of(value, schema, root, where):
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, t) for t in types):
        yield f"{where}: {value!r} is not {' or '.join(types)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not one of {schema['enum']}"
    if is_type(value, "number"):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            yield f"{where}: {value!r} is out of bounds"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for key in schema.get("required", []):
            if key not in value:
                yield f"{where}: {key} is missing"
        for key, item in value.items():
            if key in properties:
                yield from check(item, properties[key], root, f"{where}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{where}: {key} is not in the schema"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{where}: has {len(value)} items"
        for i, item in enumerate(value):
            yield from check(item, schema.get("items", {}), root, f"{where}[{i}]")


with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file)
found = check(json.load(sys.stdin), document, document, "$")
print("\n".join(found[:20]))
sys.exit(bool(found))
