"""Every contract of the release on the path, filled in every way, or read: a program for either release.

python contracts.py write        one line for each instance: {"model": NAME, "value": ...}
python contracts.py read         such lines in, lines out: the value as this release reads it, or {"refused": why}
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

import wharfinger


def models() -> dict[str, type[BaseModel]]:
    """The release's contracts and records, by name."""
    modules = [
        one.name
        for one in pkgutil.walk_packages(wharfinger.__path__, "wharfinger.")
        if ".contracts." in one.name or one.name.startswith("wharfinger.process.")
    ]
    named = [pair for module in modules for pair in vars(importlib.import_module(module)).items()]
    return {
        name: value
        for name, value in sorted(named, key=lambda pair: pair[0])
        if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__.startswith("wharfinger.")
    }


def filled(schema: dict[str, Any], root: dict[str, Any]) -> Iterator[Any]:
    """Values of a JSON schema: each of its branches, with every field set."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    for options in ("anyOf", "oneOf"):
        if options in schema:
            for option in schema[options]:
                yield from filled(option, root)
            return
    if "const" in schema or "enum" in schema:
        yield from schema.get("enum", [schema.get("const")])
        return
    match schema.get("type"):
        case "object" if "properties" in schema:
            variants = {name: list(filled(field, root)) for name, field in schema["properties"].items()}
            for place in range(max(map(len, variants.values()), default=1)):
                yield {name: values[min(place, len(values) - 1)] for name, values in variants.items()}
        case "object":
            value = schema.get("additionalProperties")
            yield {"key": next(filled(value, root))} if isinstance(value, dict) else {}
        case "array" if "prefixItems" in schema:
            yield [next(filled(item, root)) for item in schema["prefixItems"]]
        case "array":
            yield list(filled(schema["items"], root)) if schema.get("items") else []
        case "integer":
            yield min(max(7, schema.get("minimum", 7)), schema.get("maximum", 7))
        case "number":
            yield min(max(1.5, schema.get("minimum", 1.5)), schema.get("maximum", 1.5))
        case "boolean":
            yield True
        case "null":
            yield None
        case _:
            yield "text"


def write() -> None:
    """Fill every model."""
    for name, model in models().items():
        schema = model.model_json_schema()
        for value in filled(schema, schema):
            sent = model.model_validate_json(json.dumps(value)).model_dump(mode="json")
            print(json.dumps({"model": name, "value": sent}))


def read() -> None:
    """Read what the other release wrote."""
    known = models()
    for line in sys.stdin:
        said = json.loads(line)
        model = known.get(said["model"])
        if model is None:
            continue
        try:
            value: Any = {"value": model.model_validate_json(json.dumps(said["value"])).model_dump(mode="json")}
        except ValidationError as error:
            value = {"refused": str(error)}
        print(json.dumps({"model": said["model"], "wrote": said["value"]} | value))


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]]()
