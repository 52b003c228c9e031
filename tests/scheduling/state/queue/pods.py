"""Pods and records for the queue's tests, each stating only what its test is about."""

from __future__ import annotations

from typing import Any

from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.pod_records import Refusal


def pod(name: str, *, create: int = 1, mod: int = 0, gates: tuple[str, ...] = (), **fields: Any) -> Pod:
    return Pod(
        namespace=fields.pop("namespace", "default"),
        name=name,
        uid=f"rev-{create}",
        create_revision=create,
        mod_revision=mod or create,
        scheduling_gates=gates,
        **fields,
    )


def refusal(
    *, record: int, create: int = 1, rejectors: tuple[str, ...] = ("NodeResourcesFit",), **fields: Any
) -> Refusal:
    return Refusal(
        attempt=fields.pop("attempt", 1),
        reason=fields.pop("reason", "Unschedulable"),
        rejectors=rejectors,
        revision=fields.pop("revision", record - 1),
        message="0/1 nodes are available",
        workflow_id=fields.pop("workflow_id", ""),
        run_id="",
        create_revision=create,
        record_revision=record,
        **fields,
    )
