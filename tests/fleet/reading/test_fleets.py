"""`Wharfinger.fleets` on a real etcd: the checks and the words of `wharfinger fleet`, as values."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from tests.cli.shell import Shell, outside, shell
from tests.conftest import EtcdServer
from tests.fleet.cli.test_changes import fleet_object, look, manifest, with_rollout
from tests.fleet.fleet_records import Records, remove, status
from tests.patience import patient
from wharfinger.client import FleetChange, Fleets, Goal, Verdict
from wharfinger.errors import InvalidConfiguration, InvalidObject, NotFound, UsageError, WharfingerError
from wharfinger.etcd import keys
from wharfinger.settings import EtcdSettings

__all__ = ["outside", "shell"]

T = TypeVar("T")
Ask = Callable[[Callable[[Fleets], Awaitable[Any]]], Any]

CHANGES: dict[str, Callable[[Fleets, str], Awaitable[FleetChange]]] = {
    "scale T 2": lambda fleets, tenant: fleets.scale(tenant, 2),
    "pause T": lambda fleets, tenant: fleets.pause(tenant),
    "resume T": lambda fleets, tenant: fleets.resume(tenant),
    "promote T": lambda fleets, tenant: fleets.promote(tenant),
    "abort T": lambda fleets, tenant: fleets.abort(tenant),
    "undo T": lambda fleets, tenant: fleets.undo(tenant),
    "undo T --to-revision 9": lambda fleets, tenant: fleets.undo(tenant, revision=9),
    "restart T": lambda fleets, tenant: fleets.restart(tenant),
    "delete T": lambda fleets, tenant: fleets.delete(tenant),
}
"""Command lines, and what a program calls instead."""


@pytest.fixture
def url(shell: Shell, etcd_server: EtcdServer) -> str:
    return etcd_server.url


@pytest.fixture
def fleet(shell: Shell, url: str) -> Iterator[Records]:
    """Records of a tenant of the test's own; all that lies of it is deleted afterwards."""
    records = Records(shell.namespace)
    yield records
    remove(url, *records.values, keys.fleet(records.tenant))


@pytest.fixture
def ask(url: str) -> Ask:
    """Runs a coroutine on fleets of a connection of its own."""

    def run(use: Callable[[Fleets], Awaitable[T]]) -> T:
        async def main() -> T:
            async with Fleets.connect(EtcdSettings(endpoints=(url,)), who="ci@builder") as fleets:
                return await use(fleets)

        return asyncio.run(main())

    return run


def written(fleet: Records, url: str, scene: str) -> None:
    """Put a fleet into etcd as one of the scenes, whatever is there of it."""
    remove(url, *fleet.values, keys.fleet(fleet.tenant))
    fleet.values.clear()
    match scene:
        case "no fleet":
            pass
        case "no open rollout":
            fleet.revision(1, "completed", {"version": "v0"}).revision(2, "completed", {"version": "v1"}).actor(2)
            fleet.put(keys.fleet(fleet.tenant), json.dumps(manifest(fleet.tenant, replicas=3)).encode())
            look(fleet, url, generation=0, rollout="completed")
        case "an open rollout":
            with_rollout(fleet, url, replicas=2)
        case "a canary":
            with_rollout(fleet, url, paused=True, strategy={"rollingUpdate": {"canary": 1}})
        case "being deleted":
            obj = manifest(fleet.tenant)
            obj["metadata"]["deletionTimestamp"] = "2026-01-02T12:00:00Z"
            fleet.put(keys.fleet(fleet.tenant), json.dumps(obj).encode()).actor(1)
            look(fleet, url)


@pytest.mark.parametrize("scene", ["no fleet", "no open rollout", "an open rollout", "a canary", "being deleted"])
@pytest.mark.parametrize("line", CHANGES)
def test_a_change_has_the_sentence_and_the_object_of_the_command(
    shell: Shell, fleet: Records, url: str, ask: Ask, scene: str, line: str
) -> None:
    """The command runs first, then the method, each on the same records."""
    written(fleet, url, scene)
    answer = shell("fleet", *line.replace("T", fleet.tenant, 1).split())
    by_command = spec_of(url, fleet.tenant)
    written(fleet, url, scene)
    try:
        sentence = ask(lambda fleets: CHANGES[line](fleets, fleet.tenant)).sentence
    except WharfingerError as error:
        sentence = f"error: {error}"

    assert sentence == (answer.out or answer.err).strip()
    assert comparable(spec_of(url, fleet.tenant), url) == comparable(by_command, url)


def spec_of(url: str, tenant: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = fleet_object(url, tenant)["spec"]
    except AssertionError:
        return None
    return found


def comparable(spec: dict[str, Any] | None, url: str) -> dict[str, Any] | None:
    """Without the time of a restart, which is another one."""
    template = (spec or {}).get("template", {})
    return spec if "restartedAt" not in template else {**(spec or {}), "template": {**template, "restartedAt": "now"}}


def test_apply_creates_leaves_and_changes_and_signs_with_the_author(fleet: Records, url: str, ask: Ask) -> None:
    about = f"schedulerfleet/{fleet.tenant}"
    two, three = manifest(fleet.tenant, replicas=2), manifest(fleet.tenant, replicas=3)

    created = ask(lambda fleets: fleets.apply(two, reason="first"))
    again = ask(lambda fleets: fleets.apply(two))
    changed = ask(lambda fleets: fleets.apply(manifest("any", replicas=3), tenant=fleet.tenant))
    same = ask(lambda fleets: fleets.apply(three))

    assert (created.sentence, created.written) == (f"{about} created", True)
    assert (again.sentence, again.written, again.mod_revision) == (f"{about} unchanged", False, created.mod_revision)
    assert changed.sentence == f"{about} configured"
    assert not same.written
    annotations = fleet_object(url, fleet.tenant)["metadata"]["annotations"]
    assert annotations["wharfinger.dev/changed-by"] == "ci@builder"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"spec": {"replicas": 1000}}, "spec.replicas: Input should be less than or equal to 100, not 1000"),
        ({"spec": {"oops": 1}}, "spec.oops: unknown field"),
        ({"metadata": {"name": "Gold_!"}}, "metadata.name 'Gold_!' of a SchedulerFleet must be lower case letters"),
    ],
)
def test_apply_refuses_what_the_command_refuses_and_writes_nothing(
    fleet: Records, url: str, ask: Ask, change: dict[str, Any], text: str
) -> None:
    wrong = {**manifest(fleet.tenant), **change}

    with pytest.raises((InvalidConfiguration, InvalidObject), match=re.escape(text)):
        ask(lambda fleets: fleets.apply(wrong))
    assert spec_of(url, fleet.tenant) is None


def test_check_raises_all_that_is_wrong_with_all_manifests(fleet: Records, url: str, ask: Ask) -> None:
    wrong = [manifest(fleet.tenant, oops=1), manifest(f"{fleet.tenant}-b", replicas=1000)]

    with pytest.raises(InvalidConfiguration) as raised:
        ask(lambda fleets: fleets.check(wrong))
    assert raised.value.problems == (
        f"fleet {fleet.tenant}: spec.oops: unknown field",
        f"fleet {fleet.tenant}-b: spec.replicas: Input should be less than or equal to 100, not 1000",
    )
    with pytest.raises(UsageError, match=f"named more than once: {fleet.tenant}"):
        ask(lambda fleets: fleets.check([manifest(fleet.tenant)] * 2))
    assert ask(lambda fleets: fleets.check([manifest(fleet.tenant)])) == [""]


def test_apply_refuses_an_object_of_another_kind(ask: Ask) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}

    with pytest.raises(UsageError, match="node/n1 is no fleet"):
        ask(lambda fleets: fleets.apply(node))


def test_scale_checks_the_number_as_apply_does(fleet: Records, url: str, ask: Ask) -> None:
    written(fleet, url, "no open rollout")

    for wrong in (-1, 101):
        with pytest.raises(InvalidConfiguration, match=r"spec\.replicas: Input should be"):
            ask(lambda fleets, wrong=wrong: fleets.scale(fleet.tenant, wrong))
    assert fleet_object(url, fleet.tenant)["spec"]["replicas"] == 3


@pytest.mark.parametrize("method", ["pause", "status", "plan", "undo", "delete"])
def test_a_name_that_no_fleet_can_have_is_refused(ask: Ask, method: str) -> None:
    with pytest.raises(UsageError, match=r"Not/A name"):
        ask(lambda fleets: getattr(fleets, method)("Not/A name"))


def test_undo_names_the_revision_that_it_goes_back_to(fleet: Records, url: str, ask: Ask) -> None:
    written(fleet, url, "no open rollout")

    changed = ask(lambda fleets: fleets.undo(fleet.tenant))

    assert (changed.written, changed.revision) == (True, 1)
    assert fleet_object(url, fleet.tenant)["spec"]["template"] == {"version": "v0"}


def test_plan_lists_the_steps_of_the_command(shell: Shell, fleet: Records, url: str, ask: Ask) -> None:
    file = shell.file([manifest(fleet.tenant, replicas=2)])

    found = ask(lambda fleets: fleets.plan(fleet.tenant, manifest(fleet.tenant, replicas=2)))

    printed = shell("fleet", "plan", fleet.tenant, "-f", file, "-o", "json")
    assert [{"seconds": line.at, "step": line.text} for line in found.lines] == printed.json != []
    assert spec_of(url, fleet.tenant) is None
    with pytest.raises(NotFound, match=f"there is no fleet {fleet.tenant}"):
        ask(lambda fleets: fleets.plan(fleet.tenant))


def test_status_has_the_values_of_the_command(shell: Shell, fleet: Records, url: str, ask: Ask) -> None:
    written(fleet, url, "an open rollout")

    found = ask(lambda fleets: fleets.status(fleet.tenant))

    printed = shell("fleet", "status", fleet.tenant, "-o", "json").json
    values = ("replicas", "ready", "updated", "outdated", "revision", "rollout", "observed", "generation")
    assert {name: getattr(found, name) for name in values} == {name: printed[name] for name in values}
    assert list(found.waiting) == printed["waiting"]
    assert list(found.hints) == printed["hints"] != []


def test_wait_returns_a_verdict_whether_reached_failed_or_late(fleet: Records, url: str, ask: Ask) -> None:
    written(fleet, url, "a canary")
    look(fleet, url, generation=7, rollout="paused", phase="paused by its deadline")
    said: list[str] = []
    began = time.monotonic()

    late = ask(lambda fleets: fleets.wait(fleet.tenant, Goal.DELETED, timeout=0.3, say=said.append))
    reached = ask(lambda fleets: fleets.wait(fleet.tenant, "paused", timeout=5))
    remove(url, *fleet.values)
    gone = ask(lambda fleets: fleets.wait(fleet.tenant, Goal.DELETED, timeout=5))

    assert late == Verdict("waiting", "its deletion was not requested")
    assert said == [late.why]
    assert reached == Verdict("reached", "paused by its deadline")
    assert gone == Verdict("reached", "there is no such fleet")
    assert time.monotonic() - began < patient(10)
    with pytest.raises(NotFound, match=f"there is no fleet {fleet.tenant}"):
        ask(lambda fleets: fleets.wait(fleet.tenant, timeout=5))
    with pytest.raises(UsageError, match="'done' is no goal; known are complete, ready, paused, deleted"):
        ask(lambda fleets: fleets.wait(fleet.tenant, "done", timeout=5))


def test_wait_ends_as_soon_as_a_change_reaches_the_goal(fleet: Records, url: str, ask: Ask) -> None:
    written(fleet, url, "an open rollout")

    async def use(fleets: Fleets) -> Verdict:
        waiting = asyncio.create_task(fleets.wait(fleet.tenant, Goal.PAUSED, timeout=patient(20)))
        while not (await fleets.status(fleet.tenant)).observed:
            await asyncio.sleep(0.01)
        record = Records(fleet.tenant).status(
            status(observed_generation=(await fleets.status(fleet.tenant)).generation, rollout="paused", phase="held")
        )
        for key, value in record.values.items():
            await fleets._store.put(key, value)
        return await waiting

    assert ask(use) == Verdict("reached", "held")
