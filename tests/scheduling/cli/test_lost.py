"""What commands report about pods whose node does not exist, on a real etcd."""

from __future__ import annotations

from tests.cli.shell import Shell


def test_pods_of_an_absent_node_are_listed_and_described(shell: Shell) -> None:
    gone = f"gone-{shell.namespace}"
    here = f"node-{shell.namespace}"
    pods = [shell.pod("lost", nodeName=gone), shell.pod("fine", nodeName=here), shell.pod("waits")]
    shell("apply", "-f", shell.file([shell.node(), *pods]))

    [group] = shell("pending", "--lost", "-n", shell.namespace, "-o", "json").json
    assert (group["reason"], group["message"]) == ("NodeLost", f"node {gone} does not exist")
    assert group["pods"] == [f"{shell.namespace}/lost"]
    assert "Lost:             node" in shell("describe", "pod", "lost", "-n", shell.namespace).out
    assert "Lost:" not in shell("describe", "pod", "fine", "-n", shell.namespace).out
    answer = shell("describe", "node", gone)
    told = f"error: there is no node {gone}, but 1 pods are bound to it: see `wharfinger pending --lost`\n"
    assert (answer.code, answer.err) == (1, told)


def test_without_lost_pods_nothing_is_listed(shell: Shell) -> None:
    answer = shell("pending", "--lost", "-n", shell.namespace)

    reason = f"no pod in namespace {shell.namespace} is bound to a node that does not exist\n"
    assert (answer.code, answer.out, answer.err) == (0, "", reason)
