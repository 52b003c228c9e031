"""The objects of one recorded scenario on a real API server: written, changed and removed as users and kubelets do it.

Pods keep the order of the recording. A pod that a scheduler bound elsewhere than was recorded, where several nodes were
best, is *moved*: a pod like it appears on the recorded node first, and then it is deleted. So its room there is never
free for another one meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tests.conformance.live import FIRST_START
from tests.conformance.scenarios import key_of
from tests.kubernetes import recorded_objects
from tests.kubernetes.recorded_objects import Fields, Scenario
from tests.kubernetes.recorded_watch import RecordedWatch
from wharfinger.apiserver import client
from wharfinger.apiserver.client import ApiAnswer, ApiClient, ApiResource, PatchType, uid_of

Key = tuple[str, str]
"""Namespace and recorded name of a pod."""
OWN_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
STATUS_OF_NODE = ("allocatable", "capacity", "conditions", "declaredFeatures", "images")
IMPOSSIBLE = {"recorded/no-node-has": "this"}
"""A nodeSelector."""
GENERAL = (client.SERVICES, client.DISRUPTION_BUDGETS, client.NODES)
"""What a scenario creates beside its pods, and leaves nothing of."""
INVALID_FIELDS = ("topologySpreadConstraints", "hostUsers")
"""By which the API server refuses recorded pods. What others count of a pod is not in them."""
CONFLICT = 409
TAKEN_BY_API = "kubernetes.io/metadata.name"
"""A label that the API server gives to each namespace."""


class PodInvalid(Exception):
    """The API server refuses a recorded pod; the message is the server's."""


class ActualPod(NamedTuple):
    """The pod that stands for a recorded one."""

    name: str
    uid: str


class Scene:
    """The objects of one scenario."""

    def __init__(self, api: ApiClient, watch: RecordedWatch, scenario: Scenario) -> None:
        self.api = api
        self.watch = watch
        self.scenario = scenario
        self.scheduler = recorded_objects.DEFAULT_SCHEDULER
        """Whose the pods are."""
        self.pods: dict[Key, ActualPod] = {}
        """The pods that there are now."""
        self.names: dict[str, str] = {}
        """Recorded names by uid, also of pods that are gone."""
        self._starts = 0

    # --- all but pods -------------------------------------------------------------------------

    async def create_general(self) -> None:
        """Namespaces, Services, PodDisruptionBudgets, and what pods refer to; not the nodes."""
        for resource, body in recorded_objects.classes_of(self.scenario):
            await made(self.api.create(resource, body), also=CONFLICT)
        for fields in self.scenario.get("namespaces", ()):
            await self._put_namespace(fields)
        for fields in self.scenario.get("services", ()):
            await self._create(client.SERVICES, recorded_objects.service(fields))
        for fields in self.scenario.get("poddisruptionbudgets", ()):
            body = {"metadata": recorded_objects.metadata(fields), "spec": fields["spec"]}
            await self._create(client.DISRUPTION_BUDGETS, body)
            await self._patch_status(client.DISRUPTION_BUDGETS, key_of(dict(fields)), fields["status"])

    async def create_nodes(self, nodes: Iterable[Fields]) -> None:
        """One after the other: a sampling search looks at them in the order of their creation."""
        for fields in nodes:
            await self._create(client.NODES, recorded_objects.node(fields))

    async def _put_namespace(self, fields: Fields) -> None:
        name, labels = fields["metadata"]["name"], fields["metadata"].get("labels", {})
        answer = await self.api.create(client.NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        if answer.code == CONFLICT:
            found = await made(self.api.get(client.NAMESPACES, name))
            old = {label for label in found["metadata"].get("labels", {}) if label != TAKEN_BY_API}
            patch = {"metadata": {"labels": {**dict.fromkeys(old), **labels}}}
            await made(self.api.patch(client.NAMESPACES, name, patch, type_=PatchType.MERGE))

    async def _create(self, resource: ApiResource, body: Mapping[str, Any]) -> None:
        await made(self.api.create(resource, body, namespace=body["metadata"].get("namespace", "")))

    # --- pods ---------------------------------------------------------------------------------

    async def create_pod(self, fields: Fields) -> ActualPod:
        """A pod that waits for the scheduler. Raises `PodInvalid`."""
        return await self._create_pod(fields)

    async def create_stand_in(self, fields: Fields, node: str) -> None:
        """In the place of a pod that the API server refuses: one that is bound, with what others count of it."""
        spec = {name: value for name, value in fields["spec"].items() if name not in INVALID_FIELDS}
        await self._create_pod({**fields, "spec": spec}, on=node)
        await self.started(key_of(dict(fields)))

    async def create_probe(self) -> str:
        """A pod that fits no node; its uid. Where it was refused, the scheduler has seen all pods before it."""
        container = {"name": "main", "image": "none"}
        spec = {"containers": [container], "nodeSelector": IMPOSSIBLE, "schedulerName": self.scheduler}
        body = {"metadata": {"generateName": "probe-", "namespace": "default"}, "spec": spec}
        return uid_of(await made(self.api.create(client.PODS, body, namespace="default")))

    async def placed(self, fields: Fields, node: str) -> None:
        """The pod runs on the recorded node: the one that was bound there, or else one like it."""
        key = key_of(dict(fields))
        actual = self.pods[key]
        if self.now(actual)["spec"].get("nodeName") != node:
            await self._create_pod(fields, name=f"{key[1]}-moved", on=node)
            await self._delete(key[0], actual)
        await self.started(key)

    async def started(self, key: Key) -> None:
        """A kubelet has started the pod, a minute after the one before."""
        at: datetime = FIRST_START + timedelta(minutes=self._starts)
        self._starts += 1
        status = {"startTime": at.isoformat().replace("+00:00", "Z")}
        await self._patch_status(client.PODS, (key[0], self.pods[key].name), status)

    async def put_bound(self, fields: Fields) -> None:
        """A pod runs on its node in the state that was recorded: an older one of that name is replaced."""
        key = key_of(dict(fields))
        if key in self.pods:
            await self.delete_pod(key)
        actual = await self._create_pod(fields)
        await self._patch_status(client.PODS, (key[0], actual.name), fields["status"])

    async def change(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """What happened to the cluster, one change after the other. A pod that was refused is gone already."""
        for change in changes:
            fields, key = change["object"], key_of(change["object"])
            if change["kind"] == "nodes":
                assert change["op"] == "put", change
                await self.put_node(fields)
            elif change["op"] == "put":
                await self.put_bound(fields)
            elif key in self.pods:
                await self.delete_pod(key)

    async def delete_pod(self, key: Key) -> None:
        """Delete it at once, as a kubelet ends it."""
        await self._delete(key[0], self.pods.pop(key))

    def now(self, actual: ActualPod) -> Mapping[str, Any]:
        """A pod as it was seen last."""
        return self.watch.states(actual.uid)[-1]

    def nodes(self) -> dict[Key, str]:
        """Where each pod is; empty = nowhere."""
        return {key: str(self.now(actual)["spec"].get("nodeName", "")) for key, actual in self.pods.items()}

    async def _create_pod(self, fields: Fields, name: str = "", on: str = "") -> ActualPod:
        namespace, recorded = key_of(dict(fields))
        body = recorded_objects.pod(fields, self.scheduler, name, on)
        answer = await self.api.create(client.PODS, body, namespace=namespace)
        if not answer.done or answer.object is None:
            raise PodInvalid(answer.message)
        actual = ActualPod(name or recorded, uid_of(answer.object))
        self.pods[namespace, recorded] = actual
        self.names[actual.uid] = recorded
        assert await self.watch.until(lambda: self.watch.states(actual.uid), 20), f"{actual} was not seen"
        return actual

    async def _delete(self, namespace: str, actual: ActualPod) -> None:
        await made(self.api.delete(client.PODS, actual.name, namespace=namespace, grace_seconds=0), also=404)

    async def _patch_status(self, resource: ApiResource, key: Key, status: Fields) -> None:
        patch = {"status": dict(status)}
        await made(
            self.api.patch(
                resource,
                key[1],
                patch,
                namespace=key[0] if resource.namespaced else "",
                subresource="status",
                type_=PatchType.MERGE,
            )
        )

    # --- changes ------------------------------------------------------------------------------

    async def put_node(self, fields: Fields) -> None:
        """A node is another one now, or there is a new one. Only what differs is written."""
        name = fields["metadata"]["name"]
        answer = await self.api.get(client.NODES, name)
        if answer.object is None:
            await self.create_nodes([fields])
            return
        old, new = answer.object, recorded_objects.node(fields)
        main = {"metadata": _differing(old["metadata"], new["metadata"], "labels", "annotations")}
        main["spec"] = _differing(old["spec"], new["spec"], "taints", "unschedulable")
        if any(main.values()):
            await made(self.api.patch(client.NODES, name, main, type_=PatchType.MERGE))
        status = _differing(old["status"], new["status"], *STATUS_OF_NODE)
        if status:
            await self._patch_status(client.NODES, ("", name), status)

    async def put_pod(self, fields: Fields) -> None:
        """A pod has other labels, tolerations or gates now, or there is one more, which is bound."""
        key = key_of(dict(fields))
        if key not in self.pods:
            await self._create_pod(fields, on=fields["spec"]["nodeName"])
            await self.started(key)
            return
        old = self.now(self.pods[key])
        wanted = fields["spec"].get("tolerations", ())
        spec = {**fields["spec"], "tolerations": [*wanted, *_given_by_api(old, wanted)]}
        patch = {
            "metadata": _differing(old["metadata"], fields["metadata"], "labels"),
            "spec": _differing(old["spec"], spec, "tolerations", "schedulingGates"),
        }
        name = self.pods[key].name
        await made(self.api.patch(client.PODS, name, patch, namespace=key[0], type_=PatchType.MERGE))

    # --- the end ------------------------------------------------------------------------------

    async def clear(self) -> None:
        """Delete all pods, wherever they are from, then all that scenarios create but namespaces and classes."""
        await clear(self.api)
        await self.watch.until(lambda: not self.watch.existing(), 20)
        self.watch.forget()
        self.pods.clear()


async def made(request: Any, also: int = 0) -> Mapping[str, Any]:
    """The object that a request has made or changed; `also`: a code that is as good."""
    answer: ApiAnswer = await request
    assert answer.done or answer.code == also, answer
    return answer.object or {}


async def clear(api: ApiClient) -> None:
    """Delete all pods without grace, then Services, PodDisruptionBudgets and nodes."""
    for resource in (client.PODS, *GENERAL):
        found = [one["metadata"] async for page, _ in api.list(resource) for one in page]
        for one in found:
            if (resource, one["name"]) == (client.SERVICES, "kubernetes"):
                continue
            namespace = one.get("namespace", "")
            await made(api.delete(resource, one["name"], namespace=namespace, grace_seconds=0), also=404)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    """A merge patch of some fields; what is not there any more becomes null."""
    patch: dict[str, Any] = {}
    for name in fields:
        before, after = old.get(name) or None, new.get(name) or None
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            after = {**dict.fromkeys(before.keys() - after.keys()), **after}
        patch[name] = after
    return patch


def _given_by_api(old: Mapping[str, Any], wanted: Iterable[Any]) -> list[Any]:
    """The tolerations that the API server added: it does not let them go."""
    asked = list(wanted)
    return [one for one in old["spec"].get("tolerations", ()) if one not in asked and one.get("tolerationSeconds")]
