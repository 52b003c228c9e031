"""One fleet of a dev tree, as its user and etcd see it, and what belongs to it among this machine's processes."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.fleet_judge import GRANTS, INSTANCES, OURS, FleetVerdict, Life, judge
from tests.patience import patient

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
        """`fleet apply` of a whole spec; unless it says otherwise, a second of readiness is enough, without a soak."""
        spec = {"minReadySeconds": 1, "template": template or {}, **spec}
        rolling = {"soakSeconds": 0} | spec.get("strategy", {}).get("rollingUpdate", {})
        spec["strategy"] = {"rollingUpdate": rolling}
        if replicas is not None:
            spec["replicas"] = replicas
        metadata = {"name": self.tenant}
        manifest = {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": metadata, "spec": spec}
        self.cli("apply", "-f", "-", stdin=json.dumps(manifest))

    def restart(self) -> None:
        """`fleet restart`: a rollout of what runs already."""
        self.cli("restart", self.tenant)

    def wait(self, seconds: float, goal: str = "complete") -> int:
        """`fleet wait` for at most so many seconds of this machine's share: its exit code."""
        done = self.tree.cli(
            "fleet", "wait", self.tenant, "--for", goal, "--timeout", f"{patient(seconds):g}s",
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
        """Registrations of those that say that they are ready, and have a grant.

        Of one that was fenced off and killed the registration stays until its lease is over.
        """
        instances, grants = self.instances, self.grants
        return {life: record for life, record in instances.items() if record["state"] == "ready" and life in grants}

    @property
    def pids(self) -> dict[Life, int]:
        """Processes of those."""
        return {life: record["pid"] for life, record in self.ready.items()}

    def serving(self, number: int, seconds: float) -> dict[Life, int]:
        """`pids`, as soon as so many are ready: one that has just lost its lease is back in a moment."""
        found: dict[Life, int] = {}

        def complete() -> bool:
            found.clear()
            found.update(self.pids)
            return len(found) == number

        wait_until(complete, seconds, f"{number} instances serve {self.tenant}")
        return found

    def until_serving(self, wanted: dict[Life, int], seconds: float) -> None:
        """Wait until just these are ready: each may be out of sight for a moment, which ends none of them."""
        wait_until(lambda: self.pids == wanted, seconds, f"{wanted} serve {self.tenant}")

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
