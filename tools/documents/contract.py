"""What clients in other languages need: every workflow with its id, queue, input, result and messages.

`python -m tools.documents.contract` writes `src/wharfinger/client/contract.json`, which is part of the wheel.
`page()` is the same for readers. Both are made from the workflows and their models, so they cannot differ from the
code. Inputs of workflows that wharfinger alone starts are its own affair.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter
from temporalio import workflow

from wharfinger.fleet.contracts.actors import FleetInput, RollingUpdateInput
from wharfinger.fleet.contracts.fleets import FleetFailure
from wharfinger.placement.contracts.placement_rollouts import RolloutInput
from wharfinger.placement.contracts.placements import PlacementAttemptInput
from wharfinger.placement.contracts.update_runs import UpdateRunInput
from wharfinger.process import names
from wharfinger.process.names import FailureType
from wharfinger.scheduling.contracts.attempts import AttemptInput
from wharfinger.scheduling.contracts.cohort_scheduling import CohortInput
from wharfinger.scheduling.contracts.node_eviction import NodeInput
from wharfinger.scheduling.effects.open_runs import TASK_TIMEOUT
from wharfinger.workflows.fleet import Fleet
from wharfinger.workflows.node_eviction import NodeEviction
from wharfinger.workflows.roll_out_placement import RollOutPlacement
from wharfinger.workflows.rolling_update import RollingUpdate
from wharfinger.workflows.schedule_attempt import ScheduleAttempt
from wharfinger.workflows.schedule_cohort import ScheduleCohort
from wharfinger.workflows.schedule_placement import SchedulePlacement
from wharfinger.workflows.staged_update_run import StagedUpdateRun

FILE = Path(__file__).parents[2] / "src/wharfinger/client/contract.json"


@dataclass(frozen=True)
class Contracted:
    """A workflow, as others see it."""

    workflow: type
    input: type[BaseModel]
    id: Callable[..., str]
    queue: Callable[..., str]
    failures: tuple[StrEnum, ...]
    started_by: str = "wharfinger"


ANY = "any client"
_COMMON = (FailureType.UNAVAILABLE, FailureType.SCHEDULER_ERROR, FailureType.WRONG_ID, FailureType.INVALID_INPUT)
_PODS, _PLACED = tuple(FailureType), (FailureType.CONTENDED, *_COMMON)
_FLEETS = (*FleetFailure, FailureType.WRONG_ID, FailureType.INVALID_INPUT)
START = {
    "idConflictPolicy": "UseExisting",
    "idReusePolicy": "AllowDuplicate",
    "workflowTaskTimeoutSeconds": TASK_TIMEOUT.total_seconds(),
}
"""How any client starts one: it joins the run that is open. A run without a retry policy gives itself the usual one."""
WORKFLOWS = (
    Contracted(ScheduleAttempt, AttemptInput, names.pod_workflow_id, names.task_queue, _PODS, ANY),
    Contracted(ScheduleCohort, CohortInput, names.cohort_workflow_id, names.task_queue, _PODS),
    Contracted(NodeEviction, NodeInput, names.node_workflow_id, names.task_queue, _COMMON),
    Contracted(Fleet, FleetInput, names.fleet_workflow_id, names.control_queue, _FLEETS, ANY),
    Contracted(RollingUpdate, RollingUpdateInput, names.rollout_workflow_id, names.control_queue, _FLEETS),
    Contracted(
        SchedulePlacement,
        PlacementAttemptInput,
        names.placement_workflow_id,
        names.placement_queue,
        _PLACED,
        ANY,
    ),
    Contracted(RollOutPlacement, RolloutInput, names.placement_rollout_id, names.placement_queue, _PLACED),
    Contracted(StagedUpdateRun, UpdateRunInput, names.update_run_id, names.placement_queue, _PLACED),
)


def contract() -> dict[str, Any]:
    """All of it, with JSON Schemas (2020-12) below `$defs`."""
    schemas: dict[str, Any] = {}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "workflows": {_definition(one).name: _described(one, schemas) for one in WORKFLOWS},
        "searchAttributes": dict(names.SEARCH_ATTRIBUTES),
        "$defs": dict(sorted(schemas.items())),
    }


def _definition(one: Contracted) -> Any:
    return workflow._Definition.must_from_class(one.workflow)


def _described(one: Contracted, schemas: dict[str, Any]) -> dict[str, Any]:
    defined = _definition(one)

    def messages(kind: str) -> dict[str, Any]:
        found = getattr(defined, kind)
        return {
            name: {
                "arguments": [_schema(of, "validation", schemas) for of in message.arg_types or ()],
                **({"answer": _schema(message.ret_type, "serialization", schemas)} if kind != "signals" else {}),
            }
            for name, message in sorted(found.items())
        }

    return {
        "startedBy": one.started_by,
        **({"start": START} if one.started_by == ANY else {}),
        "id": _formula(one.id),
        "taskQueue": one.queue("<cluster>"),
        **({"input": _schema(one.input, "validation", schemas)} if one.started_by == ANY else {}),
        "result": _schema(defined.ret_type, "serialization", schemas),
        "signals": messages("signals"),
        "updates": messages("updates"),
        "queries": messages("queries"),
        "failureTypes": [kind.value for kind in one.failures],
    }


def _formula(make: Callable[..., str]) -> str:
    """The id in the words of the function that makes it."""
    found = re.search(r"`(<cluster>[^`]*)`", make.__doc__ or "")
    assert found is not None, make
    return found.group(1)


def _schema(of: Any, mode: Any, schemas: dict[str, Any]) -> Any:
    """A reference to the type's schema, which is added below `$defs`."""
    if of in (None, type(None)):
        return {"type": "null"}
    if isinstance(of, type) and issubclass(of, BaseModel):
        whole = of.model_json_schema(mode=mode, ref_template="#/$defs/{model}")
        schemas.update(whole.pop("$defs", {}))
        schemas[of.__name__] = whole
        return {"$ref": f"#/$defs/{of.__name__}"}
    if get_args(of):
        return {"anyOf": [_schema(part, mode, schemas) for part in get_args(of)]}
    return TypeAdapter(of).json_schema(mode=mode)


def page() -> str:
    """The contract for readers, in Markdown."""
    made = contract()
    return "\n".join(_lines(made))


def _lines(made: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        "# Contract for other languages",
        "",
        "Made from the workflows and their models. The wheel has it as JSON with schemas, in",
        "`wharfinger/client/contract.json`. Payloads are JSON with the encoding `json/plain`. Ignore fields of an",
        "answer that do not stand here: later releases add some.",
        "",
        "An id has at most 255 characters. A longer name is cut, and ends with `~` and the first 12 hex digits of its",
        "SHA-256. `wharfinger workflow-id` prints ids. `<cluster>` is `wharfinger` unless it was named otherwise.",
        "The last part of a task queue is the tenant, or `common`.",
        "",
    )
    for contracted in WORKFLOWS:
        name = _definition(contracted).name
        one = made["workflows"][name]
        yield from (f"## {name}", "", " ".join((contracted.workflow.__doc__ or "").split()), "")
        rows = [
            ("started by", one["startedBy"]),
            *(("with", f"`{name}` {value}") for name, value in one.get("start", {}).items()),
            ("workflow id", f"`{one['id']}`"),
            ("task queue", f"`{one['taskQueue']}`"),
            *([("input", _shown(one["input"]))] if "input" in one else []),
            ("result", _shown(one["result"])),
        ]
        for kind, one_of in (("signals", "signal"), ("updates", "update"), ("queries", "query")):
            for message, parts in one[kind].items():
                takes = ", ".join(map(_shown, parts["arguments"])) or "nothing"
                answers = f", answers {_shown(parts['answer'])}" if "answer" in parts else ""
                rows.append((f"{one_of} `{message}`", f"takes {takes}{answers}"))
        rows.append(("fails with", ", ".join(f"`{kind}`" for kind in one["failureTypes"])))
        yield from ("| part | what |", "| --- | --- |", *(f"| {part} | {what} |" for part, what in rows), "")
    yield from ("## Types", "")
    for name, schema in made["$defs"].items():
        yield from (f"### {name}", "", *_fields(schema), "")
    for kind in (FailureType, FleetFailure):
        yield from (f"### {kind.__name__}", "", "| type of a failure | means |", "| --- | --- |")
        yield from (f"| `{value}` | {_cell(what)} |" for value, what in _members(kind))
        yield ""
    yield from ("## Search attributes", "", "| name | type |", "| --- | --- |")
    yield from (f"| `{name}` | {kind} |" for name, kind in made["searchAttributes"].items())


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    yield _cell(schema.get("description", ""))
    if "enum" in schema:
        yield from ("", ", ".join(f"`{value}`" for value in schema["enum"]))
        return
    required = schema.get("required", ())
    rows = schema.get("properties", {})
    if rows:
        yield from ("", "| field | type | default |", "| --- | --- | --- |")
    for name, field in rows.items():
        default = json.dumps(field["default"]) if "default" in field else "" if name not in required else "required"
        shown = f"`{default}`" if default not in ("", "required") else default
        yield f"| `{name}` | {_shown(field)} | {shown} |"


def _shown(schema: Any) -> str:
    """A type for readers."""
    if schema is True or not schema:
        return "anything"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_shown, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        parts = schema.get("prefixItems") or [schema.get("items", {})]
        return f"list of {', '.join(map(_shown, parts))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_shown(schema['additionalProperties'])}"
    return str(schema.get("type", "anything"))


def _members(kind: type[StrEnum]) -> Iterator[tuple[str, str]]:
    """Each value with the text that stands below it."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    texts = {
        line.targets[0].id: str(ast.literal_eval(below.value))
        for line, below in pairwise(definition.body)
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and isinstance(below, ast.Expr)
    }
    return ((member.value, texts.get(member.name, "")) for member in kind)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def written() -> str:
    """The file's content: a line a workflow and a type."""
    parts = [
        f"{json.dumps(name)}: {_lines_of(part) if isinstance(part, dict) else json.dumps(part)}"
        for name, part in contract().items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines_of(part: Mapping[str, Any]) -> str:
    lines = [f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in part.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


if __name__ == "__main__":
    FILE.write_text(written())
