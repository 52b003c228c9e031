"""The page about Temporal against what the servers are started with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from wharfinger.dev.temporal import DYNAMIC_CONFIGURATION
from wharfinger.process.names import SEARCH_ATTRIBUTES, decisions_query

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "temporal.md").read_text()
ROW = re.compile(r"^\| `(\w+\.[\w.]+)` \|[^|\n]+\|([^|\n]*)\|([^|\n]*)\|", re.MULTILINE)


def cluster() -> dict[str, Any]:
    """Settings of the file for clusters, by name."""
    file = yaml.safe_load((ROOT / "deploy" / "temporal" / "dynamicconfig.yaml").read_text())
    assert all(len(values) == 1 and set(values[0]) == {"value"} for values in file.values())
    return {name: values[0]["value"] for name, values in file.items()}


def spelt(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def test_the_table_has_every_setting_with_its_values() -> None:
    told = {name: (dev.strip(), ours.strip()) for name, dev, ours in ROW.findall(PAGE)}
    in_cluster = cluster()
    names = {*DYNAMIC_CONFIGURATION, *in_cluster}

    assert told == {
        name: (
            spelt(DYNAMIC_CONFIGURATION[name]) if name in DYNAMIC_CONFIGURATION else "",
            spelt(in_cluster[name]) if name in in_cluster else "",
        )
        for name in names
    }


def test_every_search_attribute_is_documented_and_registered() -> None:
    script = (ROOT / "deploy" / "temporal" / "namespace.sh").read_text()

    for name, type_ in SEARCH_ATTRIBUTES.items():
        assert f"| `{name}` | {type_} |" in PAGE
        for text in (script, PAGE):
            assert re.search(rf"--name {name} --type {type_}\b", text)


def test_the_query_for_a_pods_decisions_is_as_it_is_printed() -> None:
    assert decisions_query("wharfinger", "default", "web-1") in PAGE
