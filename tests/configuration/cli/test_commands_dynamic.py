"""`wharfinger config set`, `unset`, `get` and `history` against a real etcd, and their writes under contention."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import Any

import pytest

from tests.cli.shell import Answer, Shell
from tests.conftest import EtcdServer
from wharfinger.configuration.changes import KEPT, ValueChange, history, write
from wharfinger.configuration.stored_values import absence_note
from wharfinger.errors import AccessDenied, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Read
from wharfinger.framework.config.dynamic import digest
from wharfinger.process.committing import Author
from wharfinger.process.records import ConfigStatusRecord
from wharfinger.settings import EtcdSettings
from wharfinger.testing.memory_store import MemoryStore

_numbers = itertools.count()
ME = Author("me@here", "because")
LOG = ValueChange("log", "default", {"level": "debug"})


class Tenant:
    """One of the test's own."""

    def __init__(self, shell: Shell, url: str) -> None:
        self.shell = shell
        self.url = url
        self.name = f"t{next(_numbers)}-{time.time_ns() % 10**9}"

    @property
    def target(self) -> str:
        return f"tenant/{self.name}"

    def set(self, kind: str, value: Any, *more: str, target: str = "") -> Answer:
        return self.shell("config", "set", kind, "--target", target or self.target, "--value", json.dumps(value), *more)

    def values(self, target: str = "") -> list[Any]:
        answer = self.shell("config", "get", "--target", target or self.target, "-o", "json")
        return [one["value"] for one in answer.json["items"]]

    def fleet(self, configuration: dict[str, Any], replicas: int = 1) -> None:
        obj = {
            "apiVersion": "wharfinger.dev/v1",
            "kind": "SchedulerFleet",
            "metadata": {"name": self.name},
            "spec": {"replicas": replicas, "template": {"schedulerConfiguration": configuration}},
        }
        self.put(keys.fleet(self.name), json.dumps(obj).encode())

    def put(self, key: str, value: bytes) -> None:
        async def run() -> None:
            store = await EtcdStore.connect(EtcdSettings(endpoints=(self.url,)))
            await store.put(key, value)
            await store.close()

        asyncio.run(run())


@pytest.fixture
def tenant(shell: Shell, etcd_server: EtcdServer) -> Tenant:
    return Tenant(shell, etcd_server.url)


def test_a_value_is_set_shown_changed_and_taken_away(tenant: Tenant) -> None:
    assert tenant.set("log", {"level": "debug"}, "--reason", "a look").out == f"config/log/{tenant.target} created\n"
    assert tenant.set("log", {"level": "debug"}).out.endswith(" unchanged\n")
    assert tenant.set("log", {"level": "error"}).out.endswith(" configured\n")
    assert tenant.values() == [{"level": "error"}]
    shown = tenant.shell("config", "get", "log", "--target", tenant.target).out.splitlines()
    none = tenant.shell("config", "get", "queue", "--target", tenant.target)
    assert (none.code, none.err) == (0, "nothing of that is set\n")
    assert shown[0].split() == ["KIND", "TARGET", "HASH", "VALUE"]
    assert shown[1].split() == ["log", tenant.target, digest({"level": "error"})[:12], '{"level":"error"}']

    unset = tenant.shell("config", "unset", "log", "--target", tenant.target)
    assert unset.out == f"config/log/{tenant.target} unset\n"
    assert tenant.values() == []
    assert tenant.shell("config", "unset", "log", "--target", tenant.target).out.endswith(" unchanged\n")


def test_history_shows_author_time_and_cause(tenant: Tenant) -> None:
    tenant.set("log", {"level": "debug"}, "--reason", "a look")
    tenant.shell("config", "unset", "log", "--target", tenant.target, "--reason", "enough")

    listed = tenant.shell("config", "history", "log", "--target", tenant.target, "-o", "json").json["items"]
    assert [(one["number"], one["value"], one["why"]) for one in listed] == [
        (1, {"level": "debug"}, "a look"),
        (2, None, "enough"),
    ]
    assert all("@" in one["who"] and one["time"].endswith("Z") for one in listed)
    table = tenant.shell("config", "history", "log", "--target", tenant.target).out
    assert "a look" in table
    assert "unset" in table


def test_a_value_may_be_yaml_in_a_file(tenant: Tenant) -> None:
    file = tenant.shell.file("podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 20\n")
    tenant.shell("config", "set", "queue", "--target", tenant.target, "-f", file)

    assert tenant.values() == [{"podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 20}]


@pytest.mark.parametrize(
    ("kind", "value", "problems"),
    [
        ("log", {"level": "loud", "tone": 1}, ["level: Input should be", "tone: unknown field"]),
        ("queue", {"podInitialBackoffSeconds": 9, "podMaxBackoffSeconds": 3}, ["podMaxBackoffSeconds: must be at"]),
        ("cohort", {"cohortMost": 205}, ["cohortMost: must be at most 204, because Temporal finds a cohort by"]),
        (
            "profile",
            {
                "profiles": {
                    "any": {
                        "weights": {"Nonsense": 1},
                        "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": -1}}],
                    }
                }
            },
            ["profiles.any.weights.Nonsense: there is no plugin", "profiles.any.pluginConfig[0].args.hardPodAffinity"],
        ),
    ],
)
def test_problems_are_listed_line_by_line_and_nothing_is_written(
    tenant: Tenant, kind: str, value: Any, problems: list[str]
) -> None:
    answer = tenant.set(kind, value)

    assert answer.code == 2
    lines = answer.err.splitlines()
    assert [line.startswith(f"error: {problem}") for line, problem in zip(lines, problems, strict=True)] == [
        True for _ in problems
    ]
    assert tenant.values() == []
    assert tenant.shell("config", "history", kind, "--target", tenant.target, "-o", "json").json["items"] == []


def test_a_value_for_a_fleet_is_checked_against_its_template(tenant: Tenant) -> None:
    tenant.fleet({"podMaxBackoffSeconds": 30, "profiles": [{"schedulerName": "batch"}]})
    of_slot = f"instance/{tenant.name}/0"

    unknown = tenant.set("profile", {"profiles": {"default-scheduler": {"weights": {"ImageLocality": 2}}}})
    assert "profiles.default-scheduler: there is no such profile (there are batch)" in unknown.err
    backoff = tenant.set("queue", {"podInitialBackoffSeconds": 31}, target=of_slot)
    assert "must be at least podInitialBackoffSeconds (31), not 30" in backoff.err
    assert tenant.set("profile", {"profiles": {"batch": {"weights": {"ImageLocality": 2}}}}).code == 0
    assert tenant.set("queue", {"podInitialBackoffSeconds": 30}, target=of_slot).code == 0


def test_dynamic_values_are_accepted_for_a_fleet_without_configuration(tenant: Tenant) -> None:
    tenant.fleet({})
    assert tenant.set("profile", {"profiles": {"batch": {"weights": {"ImageLocality": 2}}}}).code == 0
    assert tenant.set("queue", {"podInitialBackoffSeconds": 30}).code == 0


def test_what_is_malformed_hides_nothing_else_that_is_wrong(tenant: Tenant) -> None:
    tenant.fleet({"profiles": [{"schedulerName": "batch"}]})
    arguments = [{"name": "Neither", "args": {}}, {"name": "NodeName", "args": {"a": 1}}]
    batch = {"weights": {"Nope": 3, "TaintToleration": -1}, "pluginConfig": arguments}

    answer = tenant.set("profile", {"profiles": {"batch": batch, "nosuch": {}}})

    assert answer.code == 2
    assert [line.removeprefix("error: ").split(": ")[0] for line in answer.err.splitlines()] == [
        "profiles.batch.weights.TaintToleration",
        "profiles.batch.weights.Nope",
        "profiles.batch.pluginConfig[0].name",
        "profiles.batch.pluginConfig[1].args",
        "profiles.nosuch",
    ]
    assert tenant.set("profile", {"profiles": {"batch": 3}}).err.startswith("error: profiles.batch: ")
    assert tenant.set("profile", {"profiles": {}}).err.count("error: ") == 1


def test_setting_without_effect_is_accepted_with_a_warning(tenant: Tenant) -> None:
    tenant.fleet({})
    answer = tenant.set("cohort", {"cohortFrom": 24, "cohortMost": 100})

    assert answer.code == 0
    assert answer.err == "warning: cohortFrom has no effect any more: a group takes whatever has arrived\n"
    assert tenant.set("cohort", {"cohortMost": 100}).err == ""


@pytest.mark.parametrize(
    "words",
    [
        ("set", "nothing", "--target", "default", "--value", "{}"),
        ("set", "log", "--target", "everybody", "--value", '{"level": "info"}'),
        ("set", "log", "--target", "default"),
        ("set", "log", "--target", "default", "--value", "[1]"),
        ("set", "log", "--target", "default", "--value", "{"),
        ("get", "--target", "default", "--effective", "a/0"),
        ("get", "--effective", "a/b"),
        ("get", "--effective", "common"),
        ("get", "--effective", "common/07"),
        ("history", "log", "--target", "tenant/A"),
    ],
)
def test_wrong_arguments_are_reported(shell: Shell, words: tuple[str, ...]) -> None:
    answer = shell("config", *words)

    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1


def test_target_without_an_instance_is_noted(tenant: Tenant) -> None:
    log, slot = {"level": "debug"}, f"{tenant.name}/1"

    def notes() -> list[str]:
        answers = [tenant.set("log", log), tenant.set("log", log, target=f"instance/{slot}")]
        answers.append(tenant.shell("config", "get", "--effective", slot))
        assert [answer.code for answer in answers] == [0, 0, 0]
        return [answer.err for answer in answers]

    assert notes() == [f"note: there is no fleet {tenant.name} yet\n"] * 3
    tenant.fleet({}, replicas=1)
    assert notes() == ["", *[f"note: fleet {tenant.name} has no slot 1 yet\n"] * 2]
    tenant.fleet({}, replicas=2)
    assert notes() == ["", "", ""]


def test_effective_value_is_shown_beside_what_the_instance_reports(tenant: Tenant) -> None:
    value = {"cohortFrom": 30}
    tenant.set("cohort", value)
    tenant.set("log", {"level": "debug"})
    tenant.set("log", {"level": "error"}, target=f"instance/{tenant.name}/0")
    record = ConfigStatusRecord(in_force={"cohort": digest(value)}, problems={"log": "it is too quiet"})
    tenant.put(keys.config_status(tenant.name, "0", 2), b"of an earlier life")
    tenant.put(keys.config_status(tenant.name, "0", 3), record.to_bytes())

    answer = tenant.shell("config", "get", "--effective", f"{tenant.name}/0", "-o", "json")
    found = {one["kind"]: one for one in answer.json["items"]}
    assert found["log"]["counts"]["target"] == f"instance/{tenant.name}/0"
    assert (found["log"]["inForce"], found["log"]["problem"]) == ("as started", "it is too quiet")
    assert (found["cohort"]["counts"]["target"], found["cohort"]["inForce"]) == (tenant.target, "yes")
    assert found["profile"]["inForce"] == "yes"
    tenant.set("queue", {"podInitialBackoffSeconds": 2}, target="default")
    for own, counts in (((), "default"), (("queue",), None)):
        tenant.put(keys.config_status(tenant.name, "1", 1), ConfigStatusRecord(own=own).to_bytes())
        (of_queue,) = tenant.shell("config", "get", "queue", "--effective", f"{tenant.name}/1", "-o", "json").json[
            "items"
        ]
        assert (of_queue["counts"] or {}).get("target") == counts
    tenant.shell("config", "unset", "queue", "--target", "default")
    table = tenant.shell("config", "get", "--effective", f"{tenant.name}/0")
    assert "log: it is too quiet" in table.err
    unknown = tenant.shell("config", "get", "--effective", f"{tenant.name}/7", "-o", "json").json["items"]
    assert {one["inForce"] for one in unknown} == {"?"}


async def test_a_change_that_was_overtaken_is_the_one_behind() -> None:
    store = MemoryStore()

    async def overtake(*_: object) -> None:
        store.before_txn = None
        await write(store, ValueChange("log", "default", {"level": "error"}), Author("other"), now="t")

    store.before_txn = overtake
    done = await write(store, LOG, ME, now="t")

    assert (done.result, done.number) == ("configured", 2)
    assert [(number, record.who) for number, record in await history(store, "log", "default")] == [
        (1, "other"),
        (2, "me@here"),
    ]


@pytest.mark.parametrize("applied", [True, False])
async def test_a_change_whose_answer_is_lost_is_made_once(applied: bool) -> None:
    store = MemoryStore()
    store.fail_next(applied=applied, error=Unavailable("lost", maybe_applied=True))
    done = await write(store, LOG, ME, now="t")

    assert done.result == "created"
    assert len(await history(store, "log", "default")) == 1


async def test_the_history_is_bounded_and_its_numbers_go_on() -> None:
    store = MemoryStore()
    for number in range(KEPT + 10):
        await write(store, ValueChange("log", "default", {"level": "debug", "n": number}), ME, now="t")
    numbers = [number for number, _ in await history(store, "log", "default")]

    assert numbers == list(range(11, KEPT + 11))


async def test_no_change_is_noted_where_workers_list() -> None:
    store = MemoryStore()
    await write(store, LOG, ME, now="t")

    assert [kv.key async for page in store.list(keys.ROOT) for kv in page.items] == [LOG.key]


async def test_denied_change_record_names_the_missing_permissions() -> None:
    store = MemoryStore()
    store.fail_next(applied=False, error=AccessDenied("etcd refuses: permission denied"))

    with pytest.raises(AccessDenied, match=r"permission denied \(.* below /registry/ and /wharfinger.dev/\)"):
        await write(store, LOG, ME, now="t")


class Guarded(MemoryStore):
    """For a user who may not read fleets."""

    async def get(self, key: str, *, revision: int = 0) -> Read:
        raise AccessDenied("etcd refuses: permission denied")


async def test_user_without_permission_to_read_fleets_gets_no_note() -> None:
    assert await absence_note(MemoryStore(), "tenant/nobody") == "note: there is no fleet nobody yet"
    assert await absence_note(Guarded(), "tenant/nobody") == ""


async def test_a_value_may_be_written_again_to_be_tried_once_more() -> None:
    store = MemoryStore()
    await write(store, LOG, ME, now="t")
    before = (await store.get(LOG.key)).kv
    assert (await write(store, LOG, ME, now="t")).result == "unchanged"
    assert (await write(store, LOG, ME, now="t", again=True)).result == "configured"

    after = (await store.get(LOG.key)).kv
    assert before is not None
    assert after is not None
    assert (after.value, after.mod_revision > before.mod_revision) == (before.value, True)
