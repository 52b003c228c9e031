"""`wharfinger simulate --compare` as people run it."""

from __future__ import annotations

from tests.cli.shell import Shell
from tests.whatif.objects import node, pod
from wharfinger.whatif.cli.simulated import LISTED


def test_the_summary_comes_first_and_then_what_differs(outside: Shell) -> None:
    file = outside.file(
        [
            node("small", cpu="2"),
            node("large", cpu="8"),
            pod("a", cpu="1", nodeName="large"),
            pod("b", cpu="1", nodeName="small"),
            pod("c", cpu="2", nodeName="small"),
            pod("d", cpu="9", nodeName="large"),
        ]
    )
    answer = outside("simulate", "--compare", "-f", file)

    assert (answer.code, answer.err) == (0, "")
    head, summary, refused, table = answer.out.rstrip("\n").split("\n\n")
    assert head == "1 of 4 bound pods are where they would be placed"
    assert [line.split(maxsplit=1) for line in summary.splitlines()[1:]] == [
        ["1", "on the node that would be chosen"],
        ["0", "on another node of the same score"],
        ["1", "on a node of a lower score"],
        ["1", "on a node that would be refused"],
        ["1", "that would not be placed at all"],
        ["0", "that cannot be compared"],
    ]
    assert refused.splitlines()[1].split() == ["2", "NodeResourcesFit", "Insufficient", "cpu"]
    rows = [line.split() for line in table.splitlines()[1:]]
    assert [row[:4] for row in rows] == [
        ["default/d", "nowhere", "large", "<none>"],
        ["default/c", "refused", "small", "large"],
        ["default/b", "lower", "small", "large"],
    ]
    assert "0/2 nodes are available: 2 Insufficient cpu." in answer.out
    assert rows[2][4] == "score"


def test_the_same_objects_give_the_same_answer(outside: Shell) -> None:
    objects = [node(f"n{number}", cpu="4") for number in range(20)]
    objects += [pod(f"p{number}", nodeName=f"n{number % 7}") for number in range(40)]
    file = outside.file(objects)

    first, second = (outside("simulate", "--compare", "-f", file, "-o", "json").out for _ in range(2))
    assert first == second


def test_many_differences_are_cut_unless_all_pods_are_asked_for(outside: Shell) -> None:
    pods = [pod(f"p{number}", cpu="0", nodeName="n") for number in range(LISTED + 5)]
    file = outside.file([node("n", cpu="1", unschedulable=True), *pods])

    cut, whole = outside("simulate", "--compare", "-f", file), outside("simulate", "--compare", "-f", file, "--all")
    assert cut.out.count("default/p") == LISTED
    assert "... and 5 more: --all lists every pod" in cut.out
    assert whole.out.count("default/p") == len(pods)


def test_json_has_every_pod_with_its_scores_and_refusals(outside: Shell) -> None:
    file = outside.file(
        [
            node("small", cpu="2"),
            node("large", cpu="8"),
            pod("a", nodeName="small"),
            pod("b", cpu="2", nodeName="small"),
        ]
    )
    told = outside("simulate", "--compare", "-f", file, "-o", "json").json

    lower, refused = told["pods"]
    assert (told["revision"], told["notes"]) == (None, [])
    assert told["summary"] == {
        "pods": 2,
        "same": 0,
        "tied": 0,
        "lower": 1,
        "refused": 1,
        "nowhere": 0,
        "undecided": 0,
    }
    assert told["reasons"] == [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "pods": 1}]
    assert lower["score"] < lower["chosenScore"]
    assert refused == {
        "pod": "default/b",
        "result": "refused",
        "node": "small",
        "chosen": "large",
        "score": None,
        "chosenScore": None,
        "refusals": {"NodeResourcesFit": ["Insufficient cpu"]},
        "message": "",
    }


def test_live_pods_are_compared_in_the_order_of_their_create_revisions(shell: Shell) -> None:
    """`z` was there before `a`, so `a` came to a full node. Nothing in etcd changes."""
    own = shell.node()
    name = own["metadata"]["name"]
    own["metadata"]["labels"] = here = {"kubernetes.io/hostname": name}
    own["status"]["allocatable"]["cpu"] = "1"
    one = {
        "nodeName": name,
        "nodeSelector": here,
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
    }
    for pod_name in ("z", "a"):
        shell("apply", "-f", shell.file([own, shell.pod(pod_name, **one)]))
    before = shell("get", "pods", "-n", shell.namespace, "-o", "json").json["items"]

    answer = shell("simulate", "--live", "--compare", "-o", "json")
    ours = [pod for pod in answer.json["pods"] if pod["pod"].startswith(f"{shell.namespace}/")]
    assert [(pod["pod"].rpartition("/")[2], pod["result"]) for pod in ours] == [("z", "same"), ("a", "nowhere")]
    assert ours[1]["refusals"] == {"NodeResourcesFit": ["Insufficient cpu"]}
    assert (answer.code, answer.json["revision"] > 0) == (0, True)
    assert shell("get", "pods", "-n", shell.namespace, "-o", "json").json["items"] == before


def test_comparing_no_bound_pod_is_said(outside: Shell) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"pods": "1"}}}
    answer = outside("simulate", "--compare", "-f", outside.file([node]))
    assert answer.out.splitlines()[0] == "no pod is compared: none that is given is bound to a node"
