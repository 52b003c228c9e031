"""What the page may change with `--allow-actions`: what the CLI offers for rollouts and staged runs, and nothing else.

Each action has a reason and a confirmation, which repeats the name of what is changed, and is noted under the viewer's
name. The changes are those of the client: compare-and-sets in etcd, which hold while Temporal is away.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wharfinger.client.fleets import FleetChange, Fleets
from wharfinger.client.update_runs import UpdateRuns
from wharfinger.errors import DoesNotApply, InvalidConfiguration, UsageError
from wharfinger.observe.update_runs import check_name
from wharfinger.page.follow.plain import text
from wharfinger.page.views.run_actions import APPROVE, RESUME, RETRY, STOP, check_retry
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

    async def update_run(self, name: str, namespace: str, verb: str, body: bytes, who: str) -> dict[str, Any]:
        """Approve a stage of an update run, stop, resume or retry it: one of `RUN_VERBS`.

        Raises `DoesNotApply` for what the commands refuse: a run that has ended is not stopped, one without failed or
        skipped members is not retried, and a stage that does not wait for its approval is not approved.
        """
        form = _confirmed(body, name)
        if verb == APPROVE and not form.stage:
            raise BadInput("stage: which one is to be approved")
        check_name(name, namespace)
        run = f"{namespace}/{name}" if namespace else name
        async with _refusals():
            written, sentence = await RUN_VERBS[verb](UpdateRuns(self._store), name, namespace, form, who)
        about = f" stage={form.stage}.{form.when}" if verb == APPROVE else ""
        log.info("action_done action=%s run=%s%s who=%r why=%r written=%s", verb, run, about, who, form.reason, written)
        return {"written": written, "sentence": text(sentence)}


async def _approve(runs: UpdateRuns, name: str, namespace: str, form: ActionForm, who: str) -> tuple[bool, str]:
    await runs.approve(name, form.stage, form.when, namespace=namespace, who=who, why=form.reason)
    return True, f"stage {form.stage} of {name} is approved ({form.when})"


async def _stop(runs: UpdateRuns, name: str, namespace: str, form: ActionForm, who: str) -> tuple[bool, str]:
    written = await runs.stop(name, namespace, who=who, why=form.reason)
    return written, f"update run {name} {'is stopped' if written else 'was stopped already'}"


async def _resume(runs: UpdateRuns, name: str, namespace: str, form: ActionForm, who: str) -> tuple[bool, str]:
    written = await runs.resume(name, namespace, who=who, why=form.reason)
    return written, f"update run {name} {'goes on' if written else 'was under way already'}"


async def _retry(runs: UpdateRuns, name: str, namespace: str, form: ActionForm, who: str) -> tuple[bool, str]:
    check_retry(await runs.status(name, namespace))
    number = await runs.retry(name, namespace, who=who, why=form.reason)
    return True, f"update run {name} tries again (retry {number})"


RUN_VERBS: Mapping[str, Callable[[UpdateRuns, str, str, ActionForm, str], Awaitable[tuple[bool, str]]]] = {
    APPROVE: _approve,
    STOP: _stop,
    RESUME: _resume,
    RETRY: _retry,
}
"""Of update runs: what each does; answers whether anything was written, and the outcome in one line."""


@asynccontextmanager
async def _refusals() -> AsyncIterator[None]:
    """What the client refuses because of how the run stands is a conflict, not a mistake in the request."""
    try:
        yield
    except (UsageError, InvalidConfiguration) as error:
        raise DoesNotApply(str(error)) from error


def _confirmed(body: bytes, name: str) -> ActionForm:
    try:
        form = ActionForm.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BadInput(f"{text('.'.join(map(str, first['loc'])) or 'the form')}: {first['msg']}") from None
    if form.confirm != name:
        raise BadInput(f"confirm: repeat the name {text(name)}")
    return form
