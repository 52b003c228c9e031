"""`wharfinger simulate` and `wharfinger capacity` as people run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.whatif.objects import node, pod, workload
from wharfinger.cli.files import FILE_LIMIT
from wharfinger.cli.main import run

NODE = node("n1", cpu="2")


def test_everything_placed_is_exit_code_0(outside: Shell) -> None:
    answer = outside("simulate", "-f", outside.file([NODE, pod("a"), workload("Job", "sum")]))

    assert (answer.code, answer.err) == (0, "")
    assert "2 of 2 pods would be placed" in answer.out
    assert [line.split() for line in answer.out.splitlines() if line.startswith("default/")] == [
        ["default/a", "placed", "n1"],
        ["default/sum-1", "placed", "n1"],
    ]
    assert any(line.split() == ["cpu", "0/2", "0.0", "2/2", "100.0"] for line in answer.out.splitlines())


def test_pod_that_does_not_fit_gives_exit_code_1_and_a_reason_in_json(outside: Shell) -> None:
    answer = outside("simulate", "-f", outside.file([NODE, pod("a", cpu="3")]), "-o", "json")

    assert answer.code == 1
    told = answer.json
    assert told["summary"] == {"pods": 1, "placed": 0, "preempting": 0, "notPlaced": 1, "evictions": 0}
    [one] = told["pods"]
    assert one == {
        "pod": "default/a",
        "cause": "given",
        "workload": None,
        "from": None,
        "result": "refused",
        "node": None,
        "nominatedNode": None,
        "victims": [],
        "message": one["message"],
        "refusals": {"NodeResourcesFit": {"Insufficient cpu": 1}},
    }
    assert one["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert told["reasons"] == [{"reasons": ["Insufficient cpu"], "pods": 1}]
    assert told["before"] == told["after"]
    assert told["after"]["resources"]["cpu"] == {"requested": 0, "allocatable": 2000, "percent": 0.0}
    assert told["revision"] is None


def test_changes_are_combined_in_one_question(outside: Shell) -> None:
    objects = [NODE, node("n2"), pod("a", nodeName="n1"), pod("b", nodeName="n2")]

    answer = outside(
        "simulate", "-f", outside.file(objects), "--drain", "n1", "--drain", "n2", "--add-nodes", "1", "--like", "n1",
        "-o", "json",
    )  # fmt: skip

    assert answer.code == 0
    assert {one["pod"]: (one["cause"], one["from"], one["node"]) for one in answer.json["pods"]} == {
        "default/a": ("drained", "n1", "n1-new-1"),
        "default/b": ("drained", "n2", "n1-new-1"),
    }


def test_many_pods_are_grouped_unless_all_are_asked_for(outside: Shell) -> None:
    file = outside.file([NODE, workload("Deployment", "web", replicas=60)])

    grouped, listed = outside("simulate", "-f", file), outside("simulate", "-f", file, "--all")

    assert any(line.split() == ["default", "Deployment/web", "2", "60"] for line in grouped.out.splitlines()), (
        grouped.out
    )
    assert any(line.split()[:3] == ["58", "Insufficient", "cpu"] for line in grouped.out.splitlines())
    assert len([line for line in listed.out.splitlines() if line.startswith("default/web-")]) == 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to simulate: give objects"),
        (("--drain", "nobody"), "there is no node nobody"),
        (("--add-nodes", "2"), "needs its --like"),
        (("--add-nodes", "0", "--like", "n1"), "--add-nodes"),
        (("--pending",), "--pending goes with --live"),
        (("-o", "xml"), "xml"),
        (("--config", "/nowhere.yaml"), "/nowhere.yaml"),
    ],
)
def test_wrong_use_is_exit_code_2(outside: Shell, arguments: tuple[str, ...], said: str) -> None:
    given = ("-f", outside.file([NODE])) if arguments else ()

    answer = outside("simulate", *given, *arguments)

    assert answer.code == 2, answer
    assert said in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [", "is no YAML"),
        ("just text", "is no object"),
        ("metadata: {name: x}", "has no kind"),
        ([{**pod("a"), "metadata": {}}], "metadata.name is missing"),
        ([NODE, pod("a", cpu="lots")], "Pod default/a"),
    ],
)
def test_files_that_cannot_be_read_are_exit_code_2(outside: Shell, content: Any, said: str) -> None:
    answer = outside("simulate", "-f", outside.file(content))

    assert answer.code == 2
    assert said in answer.err


def test_files_that_are_too_large_are_not_read(outside: Shell) -> None:
    path = outside.folder / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(FILE_LIMIT + 1)

    answer = outside("simulate", "-f", str(path))

    assert answer.code == 2
    assert answer.err == f"error: {path} is larger than 512 MiB\n"


def test_kinds_that_place_no_pods_are_passed_over(outside: Shell) -> None:
    objects = [
        NODE,
        pod("a"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c"}},
        {"apiVersion": "example.com/v1", "kind": "Rocket", "metadata": {"name": "r"}},
        {"apiVersion": "anthos.example.com/v1", "kind": "Namespace", "metadata": {"name": "g"}, "spec": {}},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}},
    ]

    answer = outside("simulate", "-f", outside.file(objects))

    assert answer.code == 0
    assert answer.out.startswith("1 of 1 pod would be placed\n")
    others = "Namespace (anthos.example.com), PodGroup (scheduling.volcano.sh), Rocket (example.com)"
    assert f"Note: objects of kinds that are not known here are passed over: {others}." in answer.out


LEADERS = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": "l"},
    "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}},
}


def test_the_first_line_names_a_kind_whose_pods_are_not_made(outside: Shell) -> None:
    answer = outside("simulate", "-f", outside.file([NODE, pod("a"), LEADERS]))

    assert answer.code == 0
    first = answer.out.splitlines()[0]
    assert first == "1 of 1 pod would be placed, without the pods of LeaderWorkerSet (leaderworkerset.x-k8s.io)"


OTHER = {**LEADERS, "apiVersion": "x.org/v1", "spec": {}}


@pytest.mark.parametrize("objects", [[NODE, LEADERS], [LEADERS], [OTHER], [NODE, OTHER]])
def test_files_without_a_pod_to_simulate_are_exit_code_2(outside: Shell, objects: list[Any]) -> None:
    answer = outside("simulate", "-f", outside.file(objects))

    assert answer.code == 2
    assert answer.err.startswith("error: nothing to simulate: there is no pod")
    assert "LeaderWorkerSet" in answer.err


def test_capacity_names_the_kinds_whose_pods_are_not_made(outside: Shell) -> None:
    answer = outside("capacity", "-f", outside.file([NODE, LEADERS]))

    assert answer.code == 2
    assert "not 0 (none); the pods of LeaderWorkerSet (leaderworkerset.x-k8s.io) are not made" in answer.err


def test_json_lines_are_read(outside: Shell) -> None:
    path = outside.folder / "pods.jsonl"
    path.write_text("".join(json.dumps(pod(name)) + "\n" for name in ("a", "b")))

    answer = outside("simulate", "-f", outside.file([NODE]), "-f", str(path))

    assert "2 of 2 pods would be placed" in answer.out


def test_folders_below_a_folder_are_named_and_read_on_request(outside: Shell) -> None:
    folder = outside.folder / "out"
    (folder / "charts" / "web" / "templates").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "node.json").write_text(json.dumps(NODE))
    (folder / "charts" / "web" / "templates" / "pod.yaml").write_text(json.dumps(pod("a")))
    (folder / ".git" / "no.yaml").write_text("a: [")

    short, whole = outside("simulate", "-f", str(folder)), outside("simulate", "-R", "-f", str(folder))

    assert f"Note: folders below {folder} are not read: {folder / 'charts'} (-R reads them)." in short.out
    assert whole.out.startswith("1 of 1 pod would be placed\n")
    assert "Note" not in whole.out


def test_of_an_object_that_is_defined_twice_the_last_one_counts(outside: Shell) -> None:
    first, last = outside.file([NODE, pod("a", cpu="1")]), outside.file([pod("a", cpu="2")], "last.json")

    answer = outside("simulate", "-f", first, "-f", last)

    assert f"Note: Pod default/a is defined 2 times, and the last one counts ({first}, {last})." in answer.out
    assert any(line.split()[:4] == ["cpu", "0/2", "0.0", "2/2"] for line in answer.out.splitlines())


def test_a_name_is_made_where_the_object_leaves_it_to_the_api_server(outside: Shell) -> None:
    twins = [{**pod("x"), "metadata": {"generateName": "web-"}}] * 2
    file = outside.file([NODE, *twins])

    names = [[one["pod"] for one in outside("simulate", "-f", file, "-o", "json").json["pods"]] for _ in range(2)]

    assert names[0] == names[1]
    assert len(set(names[0])) == 2
    assert all(re.fullmatch("default/web-[a-z0-9]{5}", name) for name in names[0])


def test_the_live_state_is_read_at_one_revision_and_stays_as_it_is(shell: Shell) -> None:
    own = shell.node()
    name = own["metadata"]["name"]
    here = {"kubernetes.io/hostname": name}
    own["metadata"]["labels"] = here
    silent = {"nodeSelector": here, "containers": [{"name": "c", "image": "e/x:1"}]}
    limits = {"limits": [{"type": "Container", "default": {"cpu": "5"}}]}
    about = {"name": "large", "namespace": shell.namespace}
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": about, "spec": limits}
    shell(
        "apply", "-f", shell.file([own, limit_range, shell.pod("waits", nodeSelector=here), shell.pod("old", **silent)])
    )
    before = shell("get", "pods", "-n", shell.namespace, "-o", "json").json["items"]

    answer = shell(
        "simulate", "--live", "--pending", "-n", shell.namespace, "-o", "json",
        "-f", shell.file([shell.pod("new", nodeSelector=here), shell.pod("silent", **silent)], "new.yaml"),
    )  # fmt: skip

    causes = {one["pod"]: (one["cause"], one["node"]) for one in answer.json["pods"]}
    assert causes[f"{shell.namespace}/new"] == ("given", name)
    assert causes[f"{shell.namespace}/waits"] == causes[f"{shell.namespace}/old"] == ("waiting", name)
    assert causes[f"{shell.namespace}/silent"] == ("given", None), "a new pod gets the LimitRange's default"
    assert answer.json["revision"] > 0
    assert shell("get", "pods", "-n", shell.namespace, "-o", "json").json["items"] == before


def test_capacity_counts_on_the_given_nodes(outside: Shell) -> None:
    answer = outside("capacity", "-f", outside.file([NODE, pod("web")]))
    as_json = outside("capacity", "-f", outside.file([NODE, pod("web")]), "-o", "json").json

    assert answer.code == 0
    assert "2 more of default/web fit on 1 node" in answer.out
    assert "The next one: 0/1 nodes are available: 1 Insufficient cpu." in answer.out
    assert (as_json["fits"], as_json["nodes"]) == (2, {"n1": 2})
    assert as_json["refusals"] == {"NodeResourcesFit": {"Insufficient cpu": 1}}


def test_capacity_is_of_the_pod_in_the_first_file(outside: Shell) -> None:
    mine = outside.file([pod("mine")], "mine.yaml")
    cluster = outside.file([NODE, pod("waits"), pod("waits-too")])

    assert outside("capacity", "-f", mine, "-f", cluster, "-o", "json").json["pod"] == "default/mine"
    unclear = outside("capacity", "-f", cluster, "-f", mine)
    assert unclear.code == 2
    assert "not 3 (Pod default/waits, Pod default/waits-too, Pod default/mine)" in unclear.err


def test_capacity_takes_the_live_state_when_no_node_is_given(shell: Shell) -> None:
    own = shell.node()
    own["metadata"]["labels"] = {"only": shell.namespace}
    shell("apply", "-f", shell.file([own]))

    answer = shell(
        "capacity", "-f", shell.file([shell.pod("web", nodeSelector={"only": shell.namespace})]), "-o", "json"
    )

    assert answer.code == 0
    assert answer.json["nodes"] == {own["metadata"]["name"]: 10}


def test_capacity_of_a_pod_that_fits_nowhere_is_exit_code_1(outside: Shell) -> None:
    assert outside("capacity", "-f", outside.file([NODE, pod("web", cpu="9")])).code == 1
    assert outside("capacity", "-f", outside.file([NODE])).code == 2


def test_help_of_both_explains_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("simulate", "capacity"):
        assert run([command, "--help"]) == 0
        assert "Exit codes: 0" in capsys.readouterr().out


PLUGIN = """
from wharfinger.framework.status import SUCCESS, unschedulable


class OnlyRacks:
    name = "OnlyRacks"

    def filter_node(self, state, pod, node):
        if pod.labels.get("rack") in (None, node.node.labels.get("rack")):
            return SUCCESS
        return unschedulable("node(s) stood in another rack")
"""


@pytest.mark.long
def test_an_installed_plugin_of_a_users_own_takes_part_when_it_is_named(outside: Shell) -> None:
    information = outside.folder / "only_racks-1.0.dist-info"
    information.mkdir()
    (outside.folder / "only_racks.py").write_text(PLUGIN)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: only-racks\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[wharfinger.plugins]\nOnlyRacks = only_racks:OnlyRacks\n")
    objects = [node("a", labels={"rack": "a"}), node("b", labels={"rack": "b"})]
    file = outside.file([*objects, pod("b", labels={"rack": "b"}), pod("c", labels={"rack": "c"})])
    path = os.pathsep.join(filter(None, (str(outside.folder), os.environ.get("PYTHONPATH"))))

    def simulated(*options: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "wharfinger", "simulate", "-f", file, "-o", "json", *options],
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return json.loads(done.stdout)

    config = outside.file("profiles: [{plugins: {multiPoint: {enabled: [{name: OnlyRacks}]}}}]", "config.yaml")
    for options in (("--config", config), ("--plugins=all",)):
        placed, refused = simulated(*options)["pods"]
        assert placed["node"] == "b"
        assert refused["refusals"] == {"OnlyRacks": {"node(s) stood in another rack": 2}}

    without = simulated()
    assert all(pod["result"] == "placed" for pod in without["pods"])
    assert without["notes"] == ["plugin OnlyRacks (of only-racks) is installed, but the configuration does not name it"]


WRONG = {"containers": [{"name": "c", "image": "e/x:1", "resources": {"requests": {"cpu": "2cores"}}}]}
CPU = (
    'spec.containers[0].resources.requests[cpu]: Invalid value: "2cores": '
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
BAD = workload("Deployment", "web", WRONG)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (BAD, f"Deployment default/web: spec.template.{CPU}"),
        (workload("CronJob", "night", WRONG), f"CronJob default/night: spec.jobTemplate.spec.template.{CPU}"),
        (workload("DaemonSet", "agent", WRONG), f"DaemonSet default/agent: spec.template.{CPU}"),
        (
            workload("Deployment", "web", replicas="six"),
            'Deployment default/web: spec.replicas: Invalid value: "six": must be an integer of 32 bits',
        ),
        ({**pod("a", cpu="2cores"), "metadata": {"name": "a"}}, f"Pod default/a: {CPU}"),
    ],
)
def test_a_wrong_object_is_named_with_its_file_and_field(outside: Shell, wrong: Any, said: str) -> None:
    file = outside.file([NODE, wrong])
    answer = outside("simulate", "-f", file)

    assert (answer.code, answer.err) == (2, f"error: {file}: {said}\n")


def test_capacity_names_the_file_and_the_field_of_a_template(outside: Shell) -> None:
    file = outside.file([NODE, BAD])
    answer = outside("capacity", "-f", file)

    assert (answer.code, answer.err) == (2, f"error: {file}: Deployment default/web: spec.template.{CPU}\n")


def test_documents_of_rk8s_are_recognised_by_their_fields(outside: Shell) -> None:
    folder = str(Path(__file__).parents[3] / "examples" / "rk8s" / "libscheduler")
    answer = outside("simulate", "--compare", "-f", folder)

    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert answer.err.endswith(
        "2-bound.yaml: Pod default/web-1: spec.node_name: unknown field; did you mean nodeName? "
        "These look like documents of rk8s: add --format rk8s\n"
    )
    assert outside("simulate", "--compare", "--format", "rk8s", "-f", folder).code == 0
    misspelt = pod("a") | {"spec": pod("a")["spec"] | {"nodeSelectr": {}}}
    assert "--format" not in outside("simulate", "-f", outside.file([NODE, misspelt])).err


def test_files_without_an_object_are_exit_code_2(outside: Shell) -> None:
    for command in ("simulate", "capacity"):
        file = outside.file("# nothing\n")
        answer = outside(command, "-f", file)
        assert (answer.code, answer.err) == (2, f"error: no objects found in {file}\n")


def test_without_pods_to_place_it_says_how_there_would_be_some(outside: Shell, shell: Shell) -> None:
    given = outside("simulate", "-f", outside.file([NODE, pod("a", nodeName="n1")])).out.splitlines()
    assert given[0] == "no pod is to be placed: no pod that is given is without a node, and no workload lacks one"
    shell("apply", "-f", shell.file([shell.node()]))
    answer = shell("simulate", "--live")
    assert answer.err == ""
    live = answer.out.splitlines()
    assert live[0].startswith(
        "no pod is to be placed: --pending places those that wait, -f those of a file, on the state"
    )
    drained = outside("simulate", "--drain", "n1", "-f", outside.file([NODE])).out.splitlines()
    assert drained[0] == "no pod is to be placed"
