"""The contract for other languages says what the workflows really take and answer."""

from __future__ import annotations

import base64
import importlib.util
import json
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

import wharfinger.workflows

ROOT = Path(__file__).parents[2]
HISTORIES = sorted((ROOT / "tests/replay/histories").glob("*.json"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """`tools/documents/contract.py`."""
    spec = importlib.util.spec_from_file_location("documents_contract", ROOT / "tools/documents/contract.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_what_the_models_say(tool: ModuleType) -> None:
    assert tool.FILE.read_text() == tool.written(), "make contract"


def test_every_workflow_has_a_section(tool: ModuleType) -> None:
    modules = [
        import_module(f"wharfinger.workflows.{one.name}") for one in pkgutil.iter_modules(wharfinger.workflows.__path__)
    ]
    found = {
        value.__temporal_workflow_definition.name
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and "__temporal_workflow_definition" in vars(value)
    }
    assert found == tool.contract()["workflows"].keys()
    assert all(f"## {name}\n" in tool.page() for name in found)


def _told(history: Any) -> Iterator[tuple[str, str, Any]]:
    """(part, message, value) of what a history was given and answered."""
    refused = "InvalidInput" in json.dumps(history["events"][-1])
    for event in history["events"]:
        kinds = (
            ("workflowExecutionStartedEventAttributes", "input", "input", ""),
            ("workflowExecutionCompletedEventAttributes", "result", "result", ""),
            ("workflowExecutionSignaledEventAttributes", "input", "signals", "signalName"),
        )
        for attributes, field, part, message in kinds:
            for payload in event.get(attributes, {}).get(field, {}).get("payloads", ()):
                encoding = base64.b64decode(payload["metadata"]["encoding"])
                if encoding == b"json/plain" and not (refused and part == "input"):
                    yield part, event[attributes].get(message, ""), json.loads(base64.b64decode(payload["data"]))


def test_recorded_payloads_are_as_their_schemas_say(tool: ModuleType) -> None:
    made = json.loads(tool.FILE.read_text())
    seen, validators = set(), {}
    for file in HISTORIES:
        history = json.loads(file.read_text())
        name = history["events"][0]["workflowExecutionStartedEventAttributes"]["workflowType"]["name"]
        one = made["workflows"][name]
        for part, message, value in _told(history):
            schema = one["signals"][message]["arguments"][0] if message else one.get(part)
            if schema is None:  # an input that wharfinger alone writes
                continue
            key = json.dumps(schema)
            if key not in validators:
                validators[key] = jsonschema.Draft202012Validator({**schema, "$defs": made["$defs"]})
            validators[key].validate(value)
            seen.add((name, message or part))
    assert {("ScheduleAttempt", part) for part in ("input", "result", "wake")} <= seen
    assert {("StagedUpdateRun", "result"), ("RollOutPlacement", "result"), ("Fleet", "rolled_out")} <= seen
