"""`/configz`, `/statusz` and `/flagz`, in the forms of Kubernetes 1.36 (component-base, apiserver/pkg/server).

`/statusz` and `/flagz` are text, or objects of `config.k8s.io/v1beta1` (v1alpha1: deprecated) where the `Accept` header
asks for one: `application/json;v=v1beta1;g=config.k8s.io;as=Statusz`. Kubernetes draws a separator at random, so that
no program reads the text; ours is always `: `.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

GROUP = "config.k8s.io"
VERSIONS = ("v1beta1", "v1alpha1")
DEPRECATED = '299 - "This version of the {page} endpoint is deprecated. Please use a newer version."'
NOT_ACCEPTABLE = (
    "only text/plain, application/json;v=v1beta1;g=config.k8s.io;as={kind} and application/yaml;... are served"
)
HEADER = (
    "\n{component} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only.\n"
)


class Answered(NamedTuple):
    """A page in the form that was asked for; `warning` is the value of a header, empty for none."""

    body: str
    media_type: str
    warning: str = ""


class _Wanted(NamedTuple):
    media_type: str
    version: str
    """Empty for text."""


def configz(configuration: Mapping[str, Any]) -> str:
    """The completed configuration, under the name that kube-scheduler registers it with."""
    return json.dumps({"componentconfig": configuration})


class Uptime(NamedTuple):
    """When the process began, and how long ago that is."""

    at: datetime.datetime
    seconds: int


def statusz(
    component: str, started: Uptime, versions: Mapping[str, str], paths: Iterable[str], accept: str
) -> Answered | None:
    """What runs here; `versions` by name (`Go version`), `paths` of all pages. None = no form that is accepted."""
    folders = sorted({"/" + path.split("/")[1] for path in paths})
    up = f"{started.seconds // 3600} hr {started.seconds // 60 % 60:02d} min {started.seconds % 60:02d} sec"
    lines = {
        "Started": started.at.strftime("%a %b %e %H:%M:%S %Z %Y"),
        "Up": up,
        **versions,
        "Paths": " ".join(folders),
    }

    def fields() -> dict[str, Any]:
        named = {_field(name): version for name, version in versions.items()}
        at = started.at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"startTime": at, "uptimeSeconds": started.seconds, **named, "paths": folders}

    text = "\n" + "".join(f"{name}: {value}\n" for name, value in lines.items())
    return _answer(component, "Statusz", accept, text, fields)


def flagz(component: str, flags: Mapping[str, str], accept: str) -> Answered | None:
    """The options of the process. None = no form that is accepted."""
    text = "".join(f"{name}: {flags[name]}\n" for name in sorted(flags))
    return _answer(component, "Flagz", accept, text, lambda: {"flags": dict(sorted(flags.items()))})


def _answer(component: str, kind: str, accept: str, text: str, fields: Callable[[], dict[str, Any]]) -> Answered | None:
    wanted = _wanted(accept, kind)
    if wanted is None:
        return None
    if not wanted.version:
        return Answered(HEADER.format(component=component, page=kind.lower()) + text, "text/plain")
    head = {"kind": kind, "apiVersion": f"{GROUP}/{wanted.version}", "metadata": {"name": component}}
    warning = "" if wanted.version == VERSIONS[0] else DEPRECATED.format(page=kind.lower())
    return Answered(_written({**head, **fields()}, wanted.media_type), wanted.media_type, warning)


def _written(obj: Mapping[str, Any], media_type: str) -> str:
    if media_type == "application/json":
        return json.dumps(obj) + "\n"
    import yaml

    return str(yaml.safe_dump(dict(obj), sort_keys=False))


def _wanted(accept: str, kind: str) -> _Wanted | None:
    """The first form of an `Accept` header that is served. Without the header: text."""
    for clause in accept.split(",") if accept.strip() else ["text/plain"]:
        media_type, *rest = (part.strip() for part in clause.split(";"))
        said = {name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest)}
        structured = {name: value for name, value in said.items() if name in ("v", "g", "as")}
        if media_type in ("text/plain", "text/*", "*/*") and not structured:
            return _Wanted("text/plain", "")
        named = (said.get("g"), said.get("as")) == (GROUP, kind) and said.get("v") in VERSIONS
        if named and media_type in ("application/json", "application/yaml"):
            return _Wanted(media_type, said["v"])
    return None


def _field(name: str) -> str:
    """`Go version` -> `goVersion`."""
    first, *rest = name.split()
    return first.lower() + "".join(word.capitalize() for word in rest)
