"""What `--ready-file` says: where everything is and which processes run, for scripts and tests.

`{"etcd": url, "temporal": "host:port", "namespace": ..., "ui": url, "health": [url, ...],
"pids": {"etcd": n, "temporal": n, "agent": n, "workers": [n, ...]}}`; with a hub
also `"members": {name: url}`, and the pids `hub`, `member` (all agents of members), `member-1` and `worker-member-1`
(the etcd and the worker of a member); with an API server also
`"kubernetes": {"server": url, "kubeconfig": path}`, and the pid `kube-apiserver`; with the web page also its base URL
`page`, and the pid `page`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wharfinger.dev.folder import write_atomically


@dataclass(frozen=True, slots=True)
class ReadyTree:
    """One state of a dev tree in which everything is up."""

    etcd: str
    temporal: str
    namespace: str
    ui: str
    health: tuple[str, ...]
    """Base URLs of the workers' health endpoints, in the order of their slots."""
    etcd_pid: int
    temporal_pid: int
    agent_pid: int
    worker_pids: tuple[int, ...]
    placing_pids: Mapping[str, int] = field(default_factory=dict)
    """Of the processes that place: by name; empty = there is no hub."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Member cluster -> URL of its own etcd."""
    kubernetes: Mapping[str, str] = field(default_factory=dict)
    """URL `server` and path `kubeconfig` of the API server; empty = there is none."""
    kubernetes_pid: int = 0
    page: str = ""
    """Base URL of the web page; empty = there is none."""
    page_pid: int = 0

    def to_mapping(self) -> dict[str, Any]:
        """As in the file."""
        told: dict[str, Any] = {
            "etcd": self.etcd,
            "temporal": self.temporal,
            "namespace": self.namespace,
            "ui": self.ui,
            "health": list(self.health),
            "pids": {
                "etcd": self.etcd_pid,
                "temporal": self.temporal_pid,
                "agent": self.agent_pid,
                "workers": list(self.worker_pids),
            },
        }
        if self.placing_pids:
            told["pids"] |= self.placing_pids
            told["members"] = dict(self.members)
        if self.kubernetes:
            told["pids"]["kube-apiserver"] = self.kubernetes_pid
            told["kubernetes"] = dict(self.kubernetes)
        if self.page:
            told["pids"]["page"] = self.page_pid
            told["page"] = self.page
        return told

    def write(self, path: Path) -> None:
        """Write the file beside its place and rename it over."""
        write_atomically(path, self.to_mapping())
