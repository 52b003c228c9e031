"""The files of an installation in a Kubernetes cluster, and the paths in them at which values are set.

The files are in `deploy/kubernetes` of the checkout, and in the wheel; `paths.yaml` there lists the paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any

from wharfinger.errors import ServerError
from wharfinger.process.build import shipped

Manifest = dict[str, Any]
NAMESPACE = "wharfinger"
"""In the files."""
_POD = ["spec", "template", "spec"]
_POD_OF = {"Pod": ["spec"], "CronJob": ["spec", "jobTemplate", *_POD]}
"""Where a kind that is no usual controller has the specification of its pods."""


@cache
def folder() -> Path:
    """Where the files are. Raises `ServerError` where the installation of wharfinger has none."""
    found = shipped("deploy/kubernetes")
    if not found.is_dir():
        raise ServerError(f"there is no folder {found}")
    return found


def text_with(file: str, values: Mapping[str, Any]) -> str:
    """A text of the folder with values in place of their `{name}`."""
    return (folder() / file).read_text(encoding="utf-8").format_map(values)


def objects_with(files: Iterable[str], values: Mapping[str, Any], choices: Iterable[str] = ()) -> Iterator[Manifest]:
    """The objects of files, in their order, with the values of this installation.

    `choices`: the parts of `paths.yaml` that count beside `always`.
    """
    import yaml

    tables = yaml.safe_load((folder() / "paths.yaml").read_text(encoding="utf-8"))
    for file in files:
        for obj in yaml.safe_load_all((folder() / file).read_text(encoding="utf-8")):
            about = f"{obj['kind']}/{obj['metadata']['name']}"
            if obj["metadata"].get("namespace") == NAMESPACE:
                obj["metadata"]["namespace"] = values["namespace"]
            listed = [tables[one].get(file, {}).get(about, {}) for one in ("always", *choices)]
            if None not in listed:
                for path, value in (one for paths in listed for one in paths.items()):
                    set_at(obj, _steps(obj["kind"], path), _with(value, values))
                yield obj


def _steps(kind: str, path: str) -> list[str]:
    step, *rest = path.split("/")
    return [*(_POD_OF.get(kind, _POD) if step == "pod" else [step]), *rest]


def _with(value: Any, values: Mapping[str, Any]) -> Any:
    """The value with others in place of their `{name}`; what is nothing else keeps its type."""
    if isinstance(value, Mapping):
        return {name: _with(one, values) for name, one in value.items()}
    if not isinstance(value, str):
        return value
    return values[value[1:-1]] if value == f"{{{value[1:-1]}}}" else value.format_map(values)


def set_at(node: Any, steps: list[str], value: Any) -> None:
    """Replace what is at a path that exists; None removes it. Raises `KeyError`."""
    from wharfinger.objects.documents.yaml_text import to_yaml

    step, *rest = steps
    at: Any = step if isinstance(node, MutableMapping) else _position(node, step)
    found = node[at]
    if rest and isinstance(found, str):
        import yaml

        inside = yaml.safe_load(found)
        set_at(inside, rest, value)
        node[at] = to_yaml(inside)
    elif rest:
        set_at(found, rest, value)
    elif value is None:
        del node[at]
    else:
        node[at] = f"{step}={value}" if step.startswith("--") else value


def _position(items: list[Any], step: str) -> int:
    """Of an item by its number, its name, or as an option of a command line."""
    if step.isdigit():
        return int(step)
    for position, item in enumerate(items):
        if item["name"] == step if isinstance(item, Mapping) else item.startswith(f"{step}="):
            return position
    raise KeyError(step)
