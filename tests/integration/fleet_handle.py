"""One fleet of a dev tree, as its user and etcd see it, and what belongs to it among this machine's processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.fleet_judge import GRANTS, INSTANCES, OURS, FleetVerdict, Life, judge

FLEETS = OURS + "schedulerfleets/"
STATUS = OURS + "fleetstatus/"
OUTCOMES = OURS + "outcomes/"
REVISIONS = OURS + "revisions/"


class FleetHandle:
    """Changes go through the console command; looks go past it, straight to etcd."""

    def __init__(self, tree: DevTree, tenant: str = "common") -> None:
        self.tree = tree
        self.tenant = tenant

    def cli(self, command: str, *arguments: str, check: bool = True, stdin: str = "", seconds: float = 60) -> str:
        """`wharfinger fleet COMMAND ... `; what it said, on both ways."""
        done = self.tree.cli("fleet", command, *arguments, check=check, stdin=stdin, seconds=seconds)
        return done.stdout + done.stderr

    def apply(self, replicas: int | None = None, template: dict[str, Any] | None = None, **spec: Any) -> None:
        """`fleet apply` of a whole spec; a second of readiness is enough unless it says otherwise."""
        spec = {"minReadySeconds": 1, "template": template or {}, **spec}
        if replicas is not None:
            spec["replicas"] = replicas
        metadata = {"name": self.tenant}
        manifest = {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": metadata, "spec": spec}
        self.cli("apply", "-f", "-", stdin=json.dumps(manifest))

    def restart(self) -> None:
        """`fleet restart`: a rollout of what runs already."""
        self.cli("restart", self.tenant)

    def wait(self, seconds: float, goal: str = "complete") -> int:
        """`fleet wait`: its exit code."""
        done = self.tree.cli(
            "fleet", "wait", self.tenant, "--for", goal, "--timeout", f"{seconds:g}s",
            check=False, seconds=seconds + 30,
        )  # fmt: skip
        return done.returncode

    def complete(self, seconds: float) -> None:
        """Wait until all is as wanted; what stands in the way is told when it is not."""
        assert self.wait(seconds) == 0, self.cli("status", self.tenant, check=False)

    @property
    def status(self) -> dict[str, Any]:
        """As the actor wrote it last; empty before."""
        record = self.tree.etcd.get(STATUS + self.tenant)
        found: dict[str, Any] = record["status"] if record else {}
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        """One of its conditions if it holds; else empty."""
        conditions = self.status.get("conditions", ())
        return next((one for one in conditions if one["type"] == kind and one["status"]), {})

    @property
    def instances(self) -> dict[Life, dict[str, Any]]:
        """Registrations by slot and incarnation."""
        return self._lives(INSTANCES)

    @property
    def grants(self) -> dict[Life, dict[str, Any]]:
        """By slot and incarnation."""
        return self._lives(GRANTS)

    @property
    def ready(self) -> dict[Life, dict[str, Any]]:
        """Registrations of those that say that they are ready."""
        return {life: record for life, record in self.instances.items() if record["state"] == "ready"}

    @property
    def revisions(self) -> int:
        """How many templates were ever wanted."""
        return len(self.tree.etcd.values(f"{REVISIONS}{self.tenant}/"))

    @property
    def outcomes(self) -> dict[int, str]:
        """Revision -> how its rollout ended."""
        found = self.tree.etcd.objects(f"{OUTCOMES}{self.tenant}/")
        return {int(key.rsplit("/", 1)[1]): record["outcome"] for key, record in found.items()}

    def verdict(self) -> FleetVerdict:
        """Of its whole history."""
        return judge(self.tree.etcd, self.tenant)

    def until_state(self, kind: str, seconds: float) -> None:
        """Wait for a condition."""
        wait_until(lambda: self.condition(kind), seconds, f"{self.tenant} is {kind}")

    def _lives(self, kind: str) -> dict[Life, dict[str, Any]]:
        prefix = f"{kind}{self.tenant}/"
        found = {}
        for key, record in self.tree.etcd.objects(prefix).items():
            slot, _, incarnation = key[len(prefix) :].partition("/")
            if incarnation.isdigit():
                found[int(slot), int(incarnation)] = record
        return found


def processes_of(folder: Path) -> dict[int, str]:
    """Every process that was started with a path below the folder: pid -> its arguments. The dead do not count."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it has just ended, or is somebody else's
            continue
        if str(folder) in arguments:
            found[int(entry.name)] = arguments
    return found


def instances_of(folder: Path) -> dict[int, str]:
    """Those of them that are instances of a fleet: pid -> `tenant/slot/incarnation`."""
    found = {}
    for pid, arguments in processes_of(folder).items():
        named = [word for word in arguments.split() if word.startswith("--instance=")]
        if named:
            found[pid] = named[0].removeprefix("--instance=")
    return found
