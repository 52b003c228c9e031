"""What a SchedulerFleet may say, what it means, and everything that is wrong with one, at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.framework.config.configurations import paths
from wharfinger.errors import InvalidConfiguration
from wharfinger.fleet.model.fleet import FleetSpec, RolloutRequest, Secret
from wharfinger.fleet.spec.fleet import FleetObject, is_deleting, read_fleet, read_template
from wharfinger.fleet.spec.fleet_fields import SpecFields, TemplateFields
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.objects.documents import documents
from wharfinger.objects.model.quantities import IntOrPercent


def fleet(spec: Any = None, name: str = "gold", **metadata: Any) -> dict[str, Any]:
    """A fleet's object."""
    return {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {"name": name, **metadata},
        "spec": {} if spec is None else spec,
    }


def read(written: dict[str, Any], name: str = "gold") -> FleetObject:
    return read_fleet(written, catalog(), name=name)


def problems(written: dict[str, Any], name: str = "gold") -> list[str]:
    """Everything that is wrong with it."""
    with pytest.raises(InvalidConfiguration) as raised:
        read(written, name)
    return list(raised.value.problems)


def of_spec(**spec: Any) -> list[str]:
    """Everything that is wrong with a spec."""
    return problems(fleet(spec))


def rolling(**fields: Any) -> dict[str, Any]:
    return {"strategy": {"rollingUpdate": fields}}


class TestMeaning:
    def test_nothing_written_means_the_defaults(self) -> None:
        found = read(fleet())
        assert found.spec == FleetSpec()
        assert (found.spec.replicas, found.spec.max_surge, found.spec.max_unavailable) == (
            1,
            IntOrPercent(1),
            IntOrPercent(0),
        )
        assert (found.spec.min_ready, found.spec.instance_deadline, found.spec.progress_deadline) == (10, 300, 600)
        assert (found.spec.drain_timeout, found.spec.kill_timeout, found.spec.history_limit) == (60, 10, 10)
        assert (found.spec.on_deadline, found.spec.paused, found.spec.request) == ("pause", False, None)
        assert (found.spec.soak, found.spec.failure_threshold) == (30, 1)
        assert (found.deleting, found.changed_by, found.change_cause) == (False, "", "")

    def test_everything_written_arrives(self) -> None:
        template = {
            "version": "v1.2",
            "schedulerConfiguration": {"kind": "KubeSchedulerConfiguration"},
            "environment": {"TZ": "UTC"},
            "secrets": [{"name": "etcd-client", "version": "3"}],
            "resources": {"memory": "1Gi", "cpu": "1500m"},
            "restartedAt": "2026-01-31T12:00:00Z",
        }
        found = read(
            fleet(
                {
                    "replicas": 7,
                    "template": template,
                    "strategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {
                            "maxSurge": "25%",
                            "maxUnavailable": 2,
                            "partition": 3,
                            "canary": 1,
                            "soakSeconds": 45.5,
                            "failureThreshold": 3,
                        },
                    },
                    "minReadySeconds": 1.5,
                    "instanceDeadlineSeconds": 40,
                    "progressDeadlineSeconds": 90,
                    "progressDeadlineAction": "Revert",
                    "revisionHistoryLimit": 2,
                    "drainTimeoutSeconds": 30,
                    "killTimeoutSeconds": 5,
                    "paused": True,
                    "rollout": {"generation": 17, "action": "promote"},
                },
                annotations={"wharfinger.dev/changed-by": "ann@desk", "wharfinger.dev/change-cause": "more room"},
                deletionTimestamp="2026-02-01T00:00:00Z",
            )
        )
        assert found.spec == FleetSpec(
            replicas=7,
            max_surge=IntOrPercent(25, percent=True),
            max_unavailable=IntOrPercent(2),
            partition=3,
            canary=1,
            min_ready=1.5,
            instance_deadline=40,
            progress_deadline=90,
            on_deadline="revert",
            history_limit=2,
            drain_timeout=30,
            kill_timeout=5,
            soak=45.5,
            failure_threshold=3,
            paused=True,
            request=RolloutRequest(17, "promote"),
        )
        made = found.template
        assert (made.version, made.environment, made.secrets) == ("v1.2", {"TZ": "UTC"}, (Secret("etcd-client", "3"),))
        assert (made.memory, made.cpu, made.restarted_at) == (2**30, 1500, "2026-01-31T12:00:00Z")
        assert made.configuration == {"kind": "KubeSchedulerConfiguration"}
        assert found.written_template == template
        assert (found.deleting, found.changed_by, found.change_cause) == (True, "ann@desk", "more room")

    def test_recreate_is_no_surge_and_everything_unavailable(self) -> None:
        spec = read(fleet({"replicas": 8, "strategy": {"type": "Recreate"}})).spec
        assert (spec.max_surge.of(8, up=True), spec.max_unavailable.of(8, up=False)) == (0, 8)

    def test_the_common_pool_has_a_fleet_too(self) -> None:
        assert read(fleet(name="common"), "common").spec == FleetSpec()

    def test_null_is_absent(self) -> None:
        written = fleet({"replicas": None, "template": None, "strategy": None, "rollout": None}, annotations=None)
        assert read(written).spec == FleetSpec()
        assert read({**fleet(), "spec": None}).spec == FleetSpec()

    @pytest.mark.parametrize("written", [fleet(), {}, None, 7, {"metadata": 7}, {"metadata": None}])
    def test_what_is_not_marked_is_not_deleting(self, written: object) -> None:
        assert not is_deleting(written)

    def test_an_invalid_object_can_be_deleting(self) -> None:
        written = fleet({"replicas": "many"}, deletionTimestamp="2026-02-01T00:00:00Z")
        assert is_deleting(written)
        assert paths(problems(written)) == ["spec.replicas"]


class TestAllAtOnce:
    def test_every_problem_has_its_path(self) -> None:
        found = of_spec(
            replicas=101,
            oops=1,
            minReadySeconds=True,
            paused="yes",
            strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": "101%", "partition": -1}},
            rollout={"action": "explode"},
            template={
                "environment": {"A": 1, "9b": "x", "C": "y" * 5000},
                "secrets": [7, {"name": "a"}, {"name": "A!", "version": "1"}, {"name": "a", "version": "2"}],
                "resources": {"memory": "1", "cpu": "x"},
                "restartedAt": "now",
                "schedulerConfiguration": {
                    "parallelism": 0,
                    "profiles": [{"plugins": {"score": {"enabled": [{"name": "Nobody"}]}}}],
                },
            },
        )
        assert sorted(paths(found)) == sorted(
            [
                "spec.replicas",
                "spec.oops",
                "spec.minReadySeconds",
                "spec.paused",
                "spec.strategy.rollingUpdate.maxSurge",
                "spec.strategy.rollingUpdate.partition",
                "spec.strategy.rollingUpdate",
                "spec.rollout.action",
                "spec.rollout.generation",
                "spec.template.environment.A",
                "spec.template.environment.9b",
                "spec.template.environment.C",
                "spec.template.secrets[0]",
                "spec.template.secrets[1].version",
                "spec.template.secrets[2].name",
                "spec.template.secrets[3].name",
                "spec.template.resources.memory",
                "spec.template.resources.cpu",
                "spec.template.restartedAt",
                "spec.template.schedulerConfiguration.parallelism",
                "spec.template.schedulerConfiguration.profiles[0].plugins.score.enabled[0].name",
            ]
        )

    def test_an_empty_object_lacks_its_identity_only(self) -> None:
        assert problems({}) == ["apiVersion: is missing", "kind: is missing", "metadata.name: is missing"]

    @pytest.mark.parametrize("spec", [7, [], "x"])
    def test_a_spec_that_is_no_mapping_is_named(self, spec: object) -> None:
        assert paths(problems(fleet(spec))) == ["spec"]

    def test_profile_without_a_queue_sort_plugin_is_reported(self) -> None:
        profile = {"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}}
        found = of_spec(template={"schedulerConfiguration": {"profiles": [profile]}})
        assert paths(found) == ["spec.template.schedulerConfiguration.profiles[0].plugins.queueSort"]

    def test_a_secrets_value_is_never_repeated(self) -> None:
        found = of_spec(template={"secrets": [{"name": "a", "version": "1", "value": "hunter2"}]})
        assert found == ["spec.template.secrets[0].value: unknown field"]


class TestWhatAnybodyMayStore:
    """Any client may write the object in etcd, so the actor must get a reason for whatever is wrong with it."""

    @pytest.mark.parametrize("written", [None, 7, "x", [], [[1]], [{}]])
    def test_what_is_no_mapping(self, written: Any) -> None:
        assert problems(written) == ["is not a mapping"]
        with pytest.raises(InvalidConfiguration):
            read_template(written, catalog())

    @pytest.mark.parametrize("levels", [101, 5000])
    def test_what_is_nested_too_deeply(self, levels: int) -> None:
        deep: Any = {}
        for _ in range(levels):
            deep = {"a": deep}
        assert problems(fleet(deep)) == ["is nested deeper than 100 levels"]

    @pytest.mark.parametrize(
        "spec", [{"half \ud800": 1}, {"template": {"environment": {"A\ud800": "x"}}}, {"rollout": {"action": "\ud800"}}]
    )
    def test_unencodable_text_is_reported_escaped(self, spec: dict[str, Any]) -> None:
        found = problems(fleet(spec))
        assert found
        assert all(problem.encode() for problem in found)

    def test_number_of_reported_problems_is_bounded(self) -> None:
        found = of_spec(**{f"oops{number}": 1 for number in range(150)}, **{"x" * 10_000: 1})
        assert len(found) == 101
        assert found[-1] == "and 51 more"
        assert max(map(len, of_spec(**{"x" * 10_000: 1}))) == 1000

    def test_a_configuration_that_is_too_large(self) -> None:
        arguments = [{"name": f"Nobody{number}", "args": {"x": "y" * 1000}} for number in range(300)]
        found = of_spec(template={"schedulerConfiguration": {"profiles": [{"pluginConfig": arguments}]}})
        assert found == ["spec.template.schedulerConfiguration: is larger than 262144 bytes"]


class TestBounds:
    @pytest.mark.parametrize("replicas", [0, 1, 100])
    def test_replicas_within(self, replicas: int) -> None:
        assert read(fleet({"replicas": replicas})).spec.replicas == replicas

    @pytest.mark.parametrize("replicas", [-1, 101, 1.0, "3", True])
    def test_replicas_beyond(self, replicas: object) -> None:
        assert paths(of_spec(replicas=replicas)) == ["spec.replicas"]

    @pytest.mark.parametrize("share", [-1, 101, "101%", "-1%", "5", "5.5%", "%", "٣%", 1.5, True, {}, []])
    @pytest.mark.parametrize("field", ["maxSurge", "maxUnavailable"])
    def test_a_share_is_a_number_or_a_percentage(self, field: str, share: object) -> None:
        assert paths(of_spec(**rolling(**{field: share}))) == [f"spec.strategy.rollingUpdate.{field}"]

    @pytest.mark.parametrize(
        ("share", "meant"), [(0, IntOrPercent(0)), (100, IntOrPercent(100)), ("0%", IntOrPercent(0, True))]
    )
    def test_shares_within(self, share: object, meant: IntOrPercent) -> None:
        assert read(fleet(rolling(maxSurge=share))).spec.max_surge == meant

    @pytest.mark.parametrize("none", [{"maxSurge": 0}, {"maxSurge": "0%", "maxUnavailable": 0}])
    def test_a_budget_of_nothing_is_refused_where_it_is_written_only(self, none: dict[str, Any]) -> None:
        written = fleet(rolling(**none))
        assert read(written).spec.max_unavailable.amount == 0
        with pytest.raises(InvalidConfiguration, match="maxUnavailable: may not be 0 where maxSurge is 0"):
            read_fleet(written, catalog(), name="gold", offered=True)
        read_fleet(fleet({"strategy": {"type": "Recreate"}}), catalog(), name="gold", offered=True)

    @pytest.mark.parametrize("field", ["partition", "canary"])
    def test_ordinals_are_whole_numbers(self, field: str) -> None:
        for wrong in (-1, 101, "1", "10%", 0.5):
            assert paths(of_spec(**rolling(**{field: wrong}))) == [f"spec.strategy.rollingUpdate.{field}"]

    @pytest.mark.parametrize(
        "field",
        ["instanceDeadlineSeconds", "progressDeadlineSeconds", "drainTimeoutSeconds", "killTimeoutSeconds"],
    )
    def test_times_are_positive_and_at_most_a_day(self, field: str) -> None:
        for wrong in (0, -1, 86_401, "60", float("inf"), float("nan"), True):
            assert paths(of_spec(**{field: wrong})) == [f"spec.{field}"], wrong

    @pytest.mark.parametrize("field", ["drainTimeoutSeconds", "killTimeoutSeconds"])
    def test_an_instance_may_take_an_hour_to_end(self, field: str) -> None:
        assert f"spec.{field}" in paths(of_spec(**{field: 3601}))
        assert f"spec.{field}" not in paths(of_spec(**{field: 3600}))

    def test_no_time_to_be_ready_is_fine(self) -> None:
        assert read(fleet({"minReadySeconds": 0})).spec.min_ready == 0
        assert paths(of_spec(minReadySeconds=-0.1)) == ["spec.minReadySeconds"]

    def test_a_request_names_generation_and_action(self) -> None:
        assert paths(of_spec(rollout={})) == ["spec.rollout.generation", "spec.rollout.action"]
        assert paths(of_spec(rollout={"generation": 0, "action": "abort"})) == ["spec.rollout.generation"]

    @pytest.mark.parametrize("version", ["a/b", "..", "", "x" * 64, "a b", 1])
    def test_a_version_is_a_name(self, version: object) -> None:
        found = read(fleet({"template": {"version": version}})) if version == "" else None
        if found is None:
            assert paths(of_spec(template={"version": version})) == ["spec.template.version"]

    @pytest.mark.parametrize("name", ["../etc", "a/b", "A", ".", "", "x" * 254])
    def test_a_secret_cannot_lead_out_of_its_folder(self, name: str) -> None:
        found = of_spec(template={"secrets": [{"name": name, "version": "1"}]})
        assert paths(found) == ["spec.template.secrets[0].name"]
        found = of_spec(template={"secrets": [{"name": "a", "version": "../1"}]})
        assert paths(found) == ["spec.template.secrets[0].version"]

    def test_secrets_have_a_limit(self) -> None:
        secrets = [{"name": f"s{number}", "version": "1"} for number in range(33)]
        assert paths(of_spec(template={"secrets": secrets})) == ["spec.template.secrets"]

    def test_the_environment_has_limits(self) -> None:
        many = {f"V{number}": "x" for number in range(65)}
        assert paths(of_spec(template={"environment": many})) == ["spec.template.environment"]
        large = {f"V{number}": "x" * 4096 for number in range(9)}
        assert paths(of_spec(template={"environment": large})) == ["spec.template.environment"]
        assert paths(of_spec(template={"environment": {"A": "\0"}})) == ["spec.template.environment.A"]
        assert paths(of_spec(template={"environment": {"A": "\ud800"}})) == ["spec.template.environment.A"]

    @pytest.mark.parametrize("memory", ["63Mi", "17Ti", "-1Gi", "much", True])
    def test_memory_within_what_a_worker_can_use(self, memory: object) -> None:
        assert paths(of_spec(template={"resources": {"memory": memory}})) == ["spec.template.resources.memory"]

    @pytest.mark.parametrize("cpu", ["9m", "1025", "-1", "fast", [1]])
    def test_cpu_within_what_a_host_can_have(self, cpu: object) -> None:
        assert paths(of_spec(template={"resources": {"cpu": cpu}})) == ["spec.template.resources.cpu"]

    @pytest.mark.parametrize("moment", ["now", "2026-01-31", "2026-01-31T12:00:00", 7])
    def test_a_moment_has_a_zone(self, moment: object) -> None:
        assert paths(of_spec(template={"restartedAt": moment})) == ["spec.template.restartedAt"]


class TestIdentity:
    @pytest.mark.parametrize("name", ["control", "host", "default", "A", "a.b", "x" * 64])
    def test_the_name_is_a_tenants_or_common(self, name: str) -> None:
        assert paths(problems(fleet(name=name), name)) == ["metadata.name"]

    def test_the_name_is_that_of_its_key(self) -> None:
        assert problems(fleet(name="silver")) == ["metadata.name: is silver, but the object is stored as gold"]

    def test_other_kinds_and_versions_are_refused(self) -> None:
        assert paths(problems({**fleet(), "kind": "Pod"})) == ["kind"]
        assert paths(problems({**fleet(), "apiVersion": "wharfinger.dev/v2"})) == ["apiVersion"]

    def test_unknown_fields_are_refused_everywhere(self) -> None:
        written: dict[str, Any] = {**fleet({"template": {"a": 1, "resources": {"b": 1}}, "strategy": {"c": 1}}), "d": 1}
        written["metadata"]["namespace"] = "x"
        assert sorted(paths(problems(written))) == [
            "d",
            "metadata.namespace",
            "spec.strategy.c",
            "spec.template.a",
            "spec.template.resources.b",
        ]


class TestBudgets:
    @pytest.mark.parametrize(
        ("spec", "path", "because"),
        [
            ({"drainTimeoutSeconds": 10}, "drainTimeoutSeconds", "10 must be greater than killTimeoutSeconds (10)"),
            ({"minReadySeconds": 150}, "instanceDeadlineSeconds", "greater than twice minReadySeconds (150)"),
            ({"instanceDeadlineSeconds": 600}, "progressDeadlineSeconds", "greater than instanceDeadlineSeconds (600)"),
            (
                {"drainTimeoutSeconds": 595, "killTimeoutSeconds": 5},
                "progressDeadlineSeconds",
                "greater than drainTimeoutSeconds and killTimeoutSeconds together (600)",
            ),
            (
                rolling(soakSeconds=600),
                "strategy.rollingUpdate.soakSeconds",
                "600 must be less than progressDeadlineSeconds (600)",
            ),
        ],
    )
    def test_each_time_leaves_room_for_those_within_it(self, spec: dict[str, Any], path: str, because: str) -> None:
        (found,) = of_spec(**spec)
        assert found.startswith(f"spec.{path}: ")
        assert because in found

    def test_one_below_each_limit_is_valid(self) -> None:
        read(fleet({"drainTimeoutSeconds": 10.5}))
        read(fleet({"minReadySeconds": 149.9}))
        read(fleet({"instanceDeadlineSeconds": 599}))
        read(fleet({"drainTimeoutSeconds": 590, "killTimeoutSeconds": 9}))
        read(fleet(rolling(soakSeconds=599.9)))

    @pytest.mark.parametrize(("deadline", "soak"), [(600, 30), (60, 30), (12, 6)])
    def test_the_default_soak_leaves_a_short_progress_deadline_valid(self, deadline: float, soak: float) -> None:
        short = {"instanceDeadlineSeconds": 5, "drainTimeoutSeconds": 5, "killTimeoutSeconds": 2, "minReadySeconds": 1}
        assert read(fleet({**short, "progressDeadlineSeconds": deadline})).spec.soak == soak

    @pytest.mark.parametrize("field", [{"soakSeconds": -1}, {"failureThreshold": 0}, {"failureThreshold": 101}])
    def test_what_is_out_of_bounds_is_refused_with_its_path(self, field: dict[str, Any]) -> None:
        assert paths(of_spec(**rolling(**field))) == [f"spec.strategy.rollingUpdate.{next(iter(field))}"]

    def test_no_soak_may_be_asked_for(self) -> None:
        assert read(fleet(rolling(soakSeconds=0))).spec.soak == 0

    def test_a_time_that_cannot_be_read_is_not_compared(self) -> None:
        assert paths(of_spec(killTimeoutSeconds="1m", minReadySeconds=200)) == ["spec.killTimeoutSeconds"]


EXAMPLES = Path(__file__).parents[3] / "examples" / "fleet"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_valid(example: Path) -> None:
    written = documents.parse(example.read_bytes())
    assert read(written, written["metadata"]["name"]).spec.replicas >= 1


def test_example_of_every_field_is_complete_and_shows_the_defaults() -> None:
    written = documents.parse((EXAMPLES / "every-field.yaml").read_bytes())
    aliases = {info.alias or name for name, info in SpecFields.model_fields.items()}
    assert set(written["spec"]) == aliases - {"rollout"}  # asked by commands
    template = {info.alias or name for name, info in TemplateFields.model_fields.items()}
    assert set(written["spec"]["template"]) == template - {"restartedAt"}
    assert read(written, "silver").spec == FleetSpec()
