"""What `--ready-file` says: where everything is and which processes run, for scripts and tests.

`{"etcd": url, "temporal": "host:port", "namespace": ..., "ui": url, "health": [url, ...],
"pids": {"etcd": n, "temporal": n, "agent": n, "workers": [n, ...]}}`; with a hub
also `"members": {name: url}`, and the pids `hub`, `member` (all agents of members), `member-1` and `worker-member-1`
(the etcd and the worker of a member); with an API server also
`"kubernetes": {"server": url, "kubeconfig": path}`, and the pid `kube-apiserver`; with the web page also its base URL
`page`, and the pid `page`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.dev import agent_part, kubernetes_part, page_part

if TYPE_CHECKING:
    from wharfinger.dev.tree import DevTree

OWN = ("etcd", "temporal", agent_part.NAME, page_part.NAME, kubernetes_part.NAME)
"""Processes that place nothing on members."""


def ready_file(tree: DevTree) -> dict[str, Any]:
    """Where everything is, and which processes run now."""
    pids = {child.spec.name: child.pid for child in tree.supervisor.children}
    instances = tree.instances.ready
    told: dict[str, Any] = {
        "etcd": tree.etcd.url,
        "temporal": tree.temporal.address,
        "namespace": tree.temporal.namespace,
        "ui": tree.temporal.ui,
        "health": [instance.health for instance in instances],
        "pids": {
            "etcd": pids["etcd"],
            "temporal": pids.get("temporal", 0),
            "agent": pids.get(agent_part.NAME, 0),
            "workers": [instance.pid for instance in instances],
        },
    }
    if tree.placing is not None:
        told["pids"] |= {name: pid for name, pid in pids.items() if name not in OWN}
        told["members"] = {name: etcd.url for name, etcd in tree.placing.etcds.items()}
    if tree.kubernetes is not None:
        told["pids"][kubernetes_part.NAME] = pids.get(kubernetes_part.NAME, 0)
        told["kubernetes"] = tree.kubernetes.ready()
    if tree.page_url:
        told["pids"][page_part.NAME] = pids.get(page_part.NAME, 0)
        told["page"] = tree.page_url
    return told
