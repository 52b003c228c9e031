"""The demo's objects as a file of manifests, for `wharfinger apply -f` or anything else that reads Kubernetes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import orjson

from wharfinger.dev.demo import openb
from wharfinger.dev.progress import progress_for
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.documents.yaml_text import to_yaml

NODES = 1523


def write(path: Path, pods: int) -> None:
    """Write all nodes and the first `pods` pods: a `.json` file as one List, else YAML documents; `-` is stdout."""
    created = rfc3339(datetime.now(UTC))
    objects = chain(openb.nodes(created=created), openb.pods(pods, created=created))
    if str(path) == "-":
        _documents(objects, sys.stdout)
    elif path.suffix == ".json":
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        path.write_bytes(orjson.dumps(listed, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    else:
        with (
            path.open("w", encoding="utf-8") as file,
            progress_for(sys.stderr).counting("writing", NODES + pods) as done,
        ):
            for count, _ in enumerate(_documents_one_by_one(objects, file), start=1):
                done(count)


def _documents(objects: Iterator[dict[str, Any]], file: TextIO) -> None:
    for _ in _documents_one_by_one(objects, file):
        pass


def _documents_one_by_one(objects: Iterator[dict[str, Any]], file: TextIO) -> Iterator[None]:
    for obj in objects:
        file.write("---\n" + to_yaml(obj))
        yield
