"""The bodies of writes to a pod: its binding, the fence, the conditions, the nomination.

Pure. An `ApiClient` (`client.py`) sends them; the body of a delete is made there.
Conditions follow `podutil.UpdatePodCondition` of Kubernetes 1.36, and texts are kube-scheduler's, so that users and
tools read the same from both. Patches are strategic merges of `pods/status`: the server merges `status.conditions` by
`type` and leaves the conditions of others alone. Each patch has the uid, so that it cannot reach a pod that was
created again under the same name.

A *pod as read* is the pod's JSON. Of it the functions need `metadata` (uid, resourceVersion, generation) and
`status` (conditions, nominatedNodeName); a projection without these fields is not enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from wharfinger.apiserver.client import ApiAnswer, Object, uid_of
from wharfinger.objects.model.conditions import DISRUPTION_TARGET, POD_SCHEDULED, PREEMPTION
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION

Body = dict[str, Any]
"""JSON of a request."""

FENCE_ANNOTATION = "wharfinger.dev/fence"
"""On a pod: the revision of our etcd at which a promise was withdrawn. Its change moves the pod's resourceVersion."""


def binding(*, namespace: str, name: str, uid: str, revision: int, node: str, attempt: str) -> Body:
    """Body of `pods/<name>/binding`.

    The server compares uid and resourceVersion, and stores the annotation in the same write as the node.
    `attempt`: `<workflow id>@<run id>`. Raises `ValueError` without uid or revision: such a bind is not fenced.
    """
    if not uid or revision <= 0:
        raise ValueError(f"a binding of {namespace}/{name} needs uid and revision")
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "resourceVersion": str(revision),
            "annotations": {ATTEMPT_ANNOTATION: attempt},
        },
        "target": {"kind": "Node", "name": node},
    }


def fence_patch(uid: str, our_revision: int, *, expected: bool = False) -> Body:
    """Patch of `pods/status` after which no binding with an older resourceVersion can succeed.

    `our_revision`: the revision of our etcd at which the promise was withdrawn. Two fences of one pod need
    different ones, because the server does not move the resourceVersion for a value that is there already.
    `expected`: whether the status names the node that was expected, which is cleared.
    """
    cleared: Body = {"status": {"nominatedNodeName": None}} if expected else {}
    return {"metadata": {"uid": uid, "annotations": {FENCE_ANNOTATION: str(our_revision)}}, **cleared}


def expectation_patch(uid: str, node: str) -> Body:
    """Patch of `pods/status` that names the node to which the pod is expected to be bound, before PreBind works.

    As kube-scheduler does (KEP-5278), so that a cluster autoscaler keeps the node.
    """
    return {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}


def refusal_patch(pod: Object, *, reason: str, message: str, nominated_node: str | None, now: datetime) -> Body | None:
    """Patch of `pods/status` that sets PodScheduled=False; None when the pod as read has it already.

    `reason`: `conditions.UNSCHEDULABLE` or `SCHEDULER_ERROR`. The third reason of Kubernetes, SchedulingGated, is set
    by the API server alone. `message` is not cut. `nominated_node`: a node to nominate, "" to clear a nomination, None
    to leave it. `now`: UTC.
    """
    condition = _condition(pod, POD_SCHEDULED, status="False", reason=reason, message=message, now=now)
    return _status_patch(pod, condition, nominated_node)


def no_nomination_patch(pod: Object) -> Body | None:
    """Patch of `pods/status` that clears the pod's nomination; None when the pod as read has none.

    Compares uid and resourceVersion, because the nomination may be to another node by now. Used for pods of lower
    priority that lose their nomination to a preemptor.
    """
    return _compared(_status_patch(pod, None, ""), pod)


def disruption_patch(pod: Object, *, scheduler: str, now: datetime, preemptor: str = "pod") -> Body | None:
    """Patch of `pods/status` that marks a victim of preemption; None when the pod as read is marked already.

    Compares uid and resourceVersion. The delete that follows compares the resourceVersion of the response, or of
    the pod as read where no patch was needed. `scheduler`: scheduler name of the preemptor. `preemptor`: `pod`, or
    `podgroup` for a gang. `now`: UTC.
    """
    message = f"{scheduler}: preempting to accommodate a higher priority {preemptor}"
    condition = _condition(pod, DISRUPTION_TARGET, status="True", reason=PREEMPTION, message=message, now=now)
    return _compared(_status_patch(pod, condition, None), pod)


def is_other_object(answer: ApiAnswer) -> bool:
    """Whether a write was refused because the object now has another uid: it was deleted and created again.

    The server answers a PATCH so with 422 and the words `metadata.uid: ... field is immutable`. A binding and a
    DELETE get 409, which a moved resourceVersion gets, too: there only a read shows which it was.
    """
    return answer.code == 422 and "metadata.uid: Invalid value" in answer.message


def _status_patch(pod: Object, condition: Body | None, nominated_node: str | None) -> Body | None:
    status: Body = {}
    if condition is not None:
        status["conditions"] = [condition]
    if nominated_node is not None and nominated_node != (_status(pod).get("nominatedNodeName") or ""):
        status["nominatedNodeName"] = nominated_node or None  # null deletes the field
    return {"metadata": {"uid": uid_of(pod)}, "status": status} if status else None


def _compared(patch: Body | None, pod: Object) -> Body | None:
    """The patch, for this very state of the pod alone."""
    if patch is not None:
        patch["metadata"]["resourceVersion"] = pod["metadata"]["resourceVersion"]
    return patch


def _condition(pod: Object, kind: str, *, status: str, reason: str, message: str, now: datetime) -> Body | None:
    """The condition as it has to be written; None when the pod has it.

    As `UpdatePodCondition`: the time of transition moves only with the status, the time of probe is cleared, and
    observedGeneration alone is no reason to write.
    """
    old: Mapping[str, Any] = next(
        (given for given in _status(pod).get("conditions") or () if given.get("type") == kind), {}
    )
    moved: str | None = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    if old.get("status") == status:
        moved = old.get("lastTransitionTime")
        same = (old.get("reason") or "", old.get("message") or "") == (reason, message)
        if same and not old.get("lastProbeTime"):
            return None
    condition: Body = {
        "type": kind,
        "status": status,
        "reason": reason or None,
        "message": message or None,
        "lastProbeTime": None,
        "lastTransitionTime": moved,
    }
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    return condition


def _status(pod: Object) -> Mapping[str, Any]:
    return pod.get("status") or {}
