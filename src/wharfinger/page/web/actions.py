"""What the page may change with `--allow-actions`: what the CLI offers for rollouts and staged runs, and nothing else.

Each action has a reason and a confirmation, which repeats the name of what is changed, and is noted under the viewer's
name. The changes are those of the client: compare-and-sets in etcd, which hold while Temporal is away.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wharfinger.client.fleets import FleetChange, Fleets
from wharfinger.client.update_runs import UpdateRuns
from wharfinger.page.follow.plain import text
from wharfinger.page.web.inputs import BadInput
from wharfinger.registry.store import Store

log = logging.getLogger(__name__)

VERBS: Mapping[str, Callable[[Fleets, str, str], Awaitable[FleetChange]]] = {
    "pause": lambda fleets, tenant, why: fleets.pause(tenant, reason=why),
    "resume": lambda fleets, tenant, why: fleets.resume(tenant, reason=why),
    "promote": lambda fleets, tenant, why: fleets.promote(tenant, reason=why),
    "abort": lambda fleets, tenant, why: fleets.abort(tenant, reason=why),
    "undo": lambda fleets, tenant, why: fleets.undo(tenant, reason=why),
}
"""Of fleets."""


class ActionForm(BaseModel):
    """What every action has to carry."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, str_strip_whitespace=True)

    reason: Annotated[str, Field(min_length=1, max_length=200)]
    confirm: Annotated[str, Field(min_length=1, max_length=253)]
    """The name of what is changed, again."""
    stage: Annotated[str, Field(max_length=63)] = ""
    """Of an update run: which stage is approved."""
    when: Literal["before", "after"] = "before"
    """Whether the stage may start, or end."""


class Actions:
    """Carries actions out. Every method raises `BadInput`, and what the client raises."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def fleet(self, tenant: str, verb: str, body: bytes, who: str) -> dict[str, Any]:
        """Change a rollout."""
        form = _confirmed(body, tenant)
        done = await VERBS[verb](Fleets(self._store, who=who), tenant, form.reason)
        log.info(
            "action_done action=%s fleet=%s who=%r why=%r written=%s", verb, tenant, who, form.reason, done.written
        )
        return {"written": done.written, "sentence": text(done.sentence)}

    async def approve(self, name: str, namespace: str, body: bytes, who: str) -> dict[str, Any]:
        """Let a stage of an update run start, or end."""
        form = _confirmed(body, name)
        if not form.stage:
            raise BadInput("stage: which one is to be approved")
        runs = UpdateRuns(self._store)
        await runs.approve(name, form.stage, form.when, namespace=namespace, who=who, why=form.reason)
        log.info(
            "action_done action=approve run=%s stage=%s.%s who=%r why=%r", name, form.stage, form.when, who, form.reason
        )
        return {"written": True, "sentence": f"stage {text(form.stage)} of {text(name)} is approved ({form.when})"}


def _confirmed(body: bytes, name: str) -> ActionForm:
    try:
        form = ActionForm.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BadInput(f"{text('.'.join(map(str, first['loc'])) or 'the form')}: {first['msg']}") from None
    if form.confirm != name:
        raise BadInput(f"confirm: repeat the name {text(name)}")
    return form
