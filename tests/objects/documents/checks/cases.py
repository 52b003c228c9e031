"""Small objects that an API server takes or refuses. What it answered to each is in `answers.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Obj = Mapping[str, Any]
CONTAINER: dict[str, Any] = {"name": "c", "image": "e/x:1"}
HOSTNAME = "kubernetes.io/hostname"
SELECTS = {"matchLabels": {"a": "b"}}
LONG = "x" * 64


def pod(*, labels: Obj | None = None, **spec: Any) -> Obj:
    return _object("v1", "Pod", {"containers": [CONTAINER], **spec}, labels=labels)


def container(**fields: Any) -> Obj:
    return pod(containers=[{**CONTAINER, **fields}])


def resources(**fields: Any) -> Obj:
    return container(resources=fields)


def toleration(**fields: Any) -> Obj:
    return pod(tolerations=[fields])


def affinity(sort: str, term: Any) -> Obj:
    return pod(affinity={sort: {"requiredDuringSchedulingIgnoredDuringExecution": term}})


def preference(sort: str, term: Any) -> Obj:
    return pod(affinity={sort: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}})


def node_terms(**requirement: Any) -> Obj:
    return affinity("nodeAffinity", {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]})


def node_fields(**requirement: Any) -> Obj:
    return affinity("nodeAffinity", {"nodeSelectorTerms": [{"matchFields": [requirement]}]})


def spread(**fields: Any) -> Obj:
    usual = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTS}
    whole = {**usual, **fields}
    return pod(topologySpreadConstraints=[{key: value for key, value in whole.items() if value is not None}])


def workload(kind: str, *, template: Obj | None = None, name: str = "w", **spec: Any) -> Obj:
    usual = {"selector": SELECTS, "template": template or of_pods()}
    whole = {key: value for key, value in {**usual, **spec}.items() if value is not None}
    return _object("apps/v1", kind, whole, name=name)


def of_pods(*, labels: Obj | None = None, **spec: Any) -> Obj:
    return {"metadata": {"labels": labels or {"a": "b"}}, "spec": {"containers": [CONTAINER], **spec}}


def controller(**spec: Any) -> Obj:
    return _object("v1", "ReplicationController", spec)


def job(*, name: str = "w", **spec: Any) -> Obj:
    return _object("batch/v1", "Job", {"template": of_pods(restartPolicy="Never"), **spec}, name=name)


def cron_job(*, name: str = "w", job_spec: Obj | None = None, **spec: Any) -> Obj:
    template = {"spec": {"template": of_pods(restartPolicy="Never"), **(job_spec or {})}}
    return _object("batch/v1", "CronJob", {"schedule": "*/5 * * * *", "jobTemplate": template, **spec}, name=name)


def claim(**spec: Any) -> Obj:
    return _object("v1", "PersistentVolumeClaim", claim_spec(**spec))


def claim_spec(**spec: Any) -> Obj:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}


def volume(**spec: Any) -> Obj:
    usual = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    whole = {key: value for key, value in {**usual, **spec}.items() if value is not None}
    return _object("v1", "PersistentVolume", whole)


def storage_class(**fields: Any) -> Obj:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "w"}, **fields}


def budget(**spec: Any) -> Obj:
    return _object("policy/v1", "PodDisruptionBudget", {"selector": SELECTS, **spec})


def priority_class(name: str = "w", **fields: Any) -> Obj:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, **fields}


def runtime_class(**fields: Any) -> Obj:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "w"}, **fields}


def node(*, taints: Any = None, **status: Any) -> Obj:
    return {**_object("v1", "Node", {"taints": taints}), "status": status}


def _object(version: str, kind: str, spec: Obj, *, labels: Obj | None = None, name: str = "w") -> Obj:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def named(**metadata: Any) -> Obj:
    return {**pod(), "metadata": {"name": "w", **metadata}}


LOCAL = {"local": {"path": "/x"}, "hostPath": None}
ON_NODE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}

CASES: Mapping[str, Obj] = {
    "a pod": pod(),
    # --- metadata
    "no name": named(name=""),
    "a name with capitals": named(name="Web"),
    "a label with a space": named(labels={"a": "b c"}),
    "a label that is too long": named(labels={"a": LONG}),
    "a key of a label with two slashes": named(labels={"a/b/c": "d"}),
    "an empty key of a label": named(labels={"": "d"}),
    "a key of a label with an empty prefix": named(labels={"/b": "d"}),
    "a key of a label that begins with a dash": named(labels={"-b": "d"}),
    "a key of an annotation with a space": named(annotations={"a b": "d"}),
    "an annotation of any text": named(annotations={"Example.com/B": "any text, {} at all"}),
    "an owner without a uid": named(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x"}]),
    "two controllers": named(
        ownerReferences=[
            {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": True} for name in "xy"
        ]
    ),
    # --- tolerations
    "Exists with a value": toleration(key="k", operator="Exists", value="v"),
    "Exists without a key": toleration(operator="Exists"),
    "Equal without a key": toleration(value="v"),
    "Equal with a value that no label has": toleration(key="k", operator="Equal", value="a b"),
    "Gt": toleration(key="k", operator="Gt", value="5"),
    "Lt": toleration(key="k", operator="Lt", value="5"),
    "an operator that is none": toleration(key="k", operator="exists"),
    "an effect that is none": toleration(key="k", operator="Exists", effect="NoRun"),
    "seconds without NoExecute": toleration(key="k", operator="Exists", effect="NoSchedule", tolerationSeconds=5),
    "seconds without an effect": toleration(key="k", operator="Exists", tolerationSeconds=5),
    "seconds with NoExecute": toleration(key="k", operator="Exists", effect="NoExecute", tolerationSeconds=5),
    "a key of a toleration that is none": toleration(key="a b", operator="Exists"),
    # --- resources
    "a request over its limit": resources(requests={"cpu": "3"}, limits={"cpu": "1"}),
    "a request over its limit in other units": resources(requests={"memory": "1.5Gi"}, limits={"memory": "1024Mi"}),
    "a request of its limit": resources(requests={"cpu": "1000m"}, limits={"cpu": 1}),
    "a negative request": resources(requests={"cpu": "-1"}),
    "a negative limit": resources(limits={"memory": "-1Gi"}),
    "half an extended resource": resources(requests={"example.com/gpu": "500m"}, limits={"example.com/gpu": "500m"}),
    "an extended resource without a limit": resources(requests={"example.com/gpu": 1}),
    "an extended resource with another limit": resources(
        requests={"example.com/gpu": 1}, limits={"example.com/gpu": 2}
    ),
    "an extended resource of its limit": resources(requests={"example.com/gpu": 1}, limits={"example.com/gpu": "1"}),
    "an extended resource by its limit only": resources(limits={"example.com/gpu": 1}),
    "huge pages of another limit": resources(
        requests={"hugepages-2Mi": "2Mi", "cpu": 1}, limits={"hugepages-2Mi": "4Mi"}
    ),
    "huge pages without a limit": resources(requests={"hugepages-2Mi": "2Mi", "cpu": 1}),
    "huge pages without cpu or memory": resources(limits={"hugepages-2Mi": "2Mi"}),
    "huge pages": resources(limits={"hugepages-2Mi": "4Mi", "memory": "1Gi"}),
    "parts of huge pages": resources(limits={"hugepages-2Mi": "3Mi", "memory": "1Gi"}),
    "a resource that is none": resources(requests={"gpu": 1}),
    "a resource with a space": resources(requests={"g u": 1}),
    "pods as a resource of a container": resources(requests={"pods": 1}),
    "a resource with the prefix of quotas": resources(limits={"requests.example.com/gpu": 1}),
    "a claim that is not there": resources(claims=[{"name": "gpu"}]),
    "a claim twice": pod(
        resourceClaims=[{"name": "gpu", "resourceClaimName": "g"}],
        containers=[{**CONTAINER, "resources": {"claims": [{"name": "gpu"}, {"name": "gpu"}]}}],
    ),
    "a claim of two sources": pod(
        resourceClaims=[{"name": "gpu", "resourceClaimName": "g", "resourceClaimTemplateName": "g"}]
    ),
    "a claim without a source": pod(resourceClaims=[{"name": "gpu"}]),
    "less for the pod than for its container": pod(
        resources={"requests": {"cpu": "500m"}},
        containers=[{**CONTAINER, "resources": {"requests": {"cpu": "1"}}}],
    ),
    "more for a container than for the pod": pod(
        resources={"limits": {"cpu": "1"}}, containers=[{**CONTAINER, "resources": {"limits": {"cpu": "2"}}}]
    ),
    "a request over its limit for the pod": pod(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    "an extended resource for the pod": pod(resources={"limits": {"example.com/gpu": "1"}}),
    "resources for the pod": pod(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}),
    # --- containers
    "no containers": pod(containers=[]),
    "two containers of a name": pod(containers=[CONTAINER, CONTAINER]),
    "an init container of the same name": pod(initContainers=[CONTAINER]),
    "a container without a name": container(name=""),
    "a container without an image": container(image=""),
    "a container with an underscore": container(name="a_b"),
    "an image with a space": container(image=" e/x:1"),
    "a host port twice": pod(
        containers=[
            {**CONTAINER, "name": name, "ports": [{"containerPort": port, "hostPort": 80}]}
            for name, port in (("a", 1), ("b", 2))
        ]
    ),
    "a host port of two protocols": container(
        ports=[{"containerPort": 80, "hostPort": 80, "protocol": protocol} for protocol in ("TCP", "UDP")]
    ),
    "a port twice on the host's network": pod(
        hostNetwork=True,
        containers=[{**CONTAINER, "name": name, "ports": [{"containerPort": 80}]} for name in ("a", "b")],
    ),
    "another host port on the host's network": pod(
        hostNetwork=True, containers=[{**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 81}]}]
    ),
    "a port that is too large": container(ports=[{"containerPort": 70000}]),
    "a port without a number": container(ports=[{"name": "web"}]),
    "a host port that is too large": container(ports=[{"containerPort": 80, "hostPort": 70000}]),
    "a port's name that is too long": container(ports=[{"containerPort": 80, "name": "a-very-long-port-name"}]),
    "a port's name of digits": container(ports=[{"containerPort": 80, "name": "80"}]),
    "two ports of a name": container(ports=[{"containerPort": 80, "name": "w"}, {"containerPort": 81, "name": "w"}]),
    "a protocol that is none": container(ports=[{"containerPort": 80, "protocol": "tcp"}]),
    "a variable without a name": container(env=[{"value": "x"}]),
    "a mount without a volume": container(volumeMounts=[{"name": "data", "mountPath": "/x"}]),
    "two mounts at a path": pod(
        volumes=[{"name": "data", "emptyDir": {}}],
        containers=[{**CONTAINER, "volumeMounts": [{"name": "data", "mountPath": "/x"}] * 2}],
    ),
    "a pull policy that is none": container(imagePullPolicy="always"),
    "a probe of an init container": pod(
        initContainers=[{**CONTAINER, "name": "i", "readinessProbe": {"exec": {"command": ["x"]}}}]
    ),
    "a sidecar": pod(
        initContainers=[
            {**CONTAINER, "name": "i", "restartPolicy": "Always", "readinessProbe": {"exec": {"command": ["x"]}}}
        ]
    ),
    "a restart policy of an init container that is none": pod(
        initContainers=[{**CONTAINER, "name": "i", "restartPolicy": "always"}]
    ),
    # --- pods
    "a restart policy that is none": pod(restartPolicy="always"),
    "a DNS policy that is none": pod(dnsPolicy="none"),
    "a preemption policy that is none": pod(preemptionPolicy="Always"),
    "a node selector that no label has": pod(nodeSelector={"disk": "s s d"}),
    "a node and a gate": pod(nodeName="n", schedulingGates=[{"name": "example.com/gate"}]),
    "a gate": pod(schedulingGates=[{"name": "example.com/gate"}]),
    "a gate twice": pod(schedulingGates=[{"name": "example.com/gate"}] * 2),
    "a gate without a name": pod(schedulingGates=[{}]),
    "a deadline of nothing": pod(activeDeadlineSeconds=0),
    "a node of a name that is none": pod(nodeName="N_1"),
    "a class of priority of a name that is none": pod(priorityClassName="High Priority"),
    "a host name with dots": pod(hostname="a.b"),
    # --- affinity
    "no terms": affinity("nodeAffinity", {"nodeSelectorTerms": []}),
    "In without values": node_terms(key="k", operator="In"),
    "Exists with values": node_terms(key="k", operator="Exists", values=["v"]),
    "Gt of two values": node_terms(key="k", operator="Gt", values=["1", "2"]),
    "an operator of nodes that is none": node_terms(key="k", operator="Is", values=["1"]),
    "a key of nodes that is none": node_terms(key="", operator="Exists"),
    "a value of nodes that is none": node_terms(key="k", operator="In", values=["a b"]),
    "a field of nodes": node_fields(key="metadata.name", operator="In", values=["n"]),
    "a field of nodes that is none": node_fields(key="metadata.uid", operator="In", values=["n"]),
    "a field of nodes of two values": node_fields(key="metadata.name", operator="In", values=["n", "m"]),
    "an operator of fields that is none": node_fields(key="metadata.name", operator="Exists"),
    "a weight of nothing": preference("nodeAffinity", {"weight": 0, "preference": {}}),
    "a weight of too much": preference(
        "podAffinity", {"weight": 101, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": SELECTS}}
    ),
    "a preference of a value that no label has": preference(
        "nodeAffinity",
        {"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["a b"]}]}},
    ),
    "no topology key": affinity("podAffinity", [{"labelSelector": SELECTS}]),
    "a topology key that is none": affinity("podAntiAffinity", [{"topologyKey": "a b", "labelSelector": SELECTS}]),
    "a namespace that is none": affinity("podAffinity", [{"topologyKey": HOSTNAME, "namespaces": ["A"]}]),
    "a selector of pods that is none": affinity(
        "podAffinity",
        [{"topologyKey": HOSTNAME, "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Gt"}]}}],
    ),
    "In of pods without values": affinity(
        "podAffinity",
        [{"topologyKey": HOSTNAME, "labelSelector": {"matchExpressions": [{"key": "k", "operator": "In"}]}}],
    ),
    "label keys without a selector": affinity("podAffinity", [{"topologyKey": HOSTNAME, "matchLabelKeys": ["v"]}]),
    "a label key on both sides": affinity(
        "podAffinity",
        [{"topologyKey": HOSTNAME, "labelSelector": SELECTS, "matchLabelKeys": ["v"], "mismatchLabelKeys": ["v"]}],
    ),
    "an anti-affinity": affinity("podAntiAffinity", [{"topologyKey": HOSTNAME, "labelSelector": SELECTS}]),
    # --- spread
    "a spread constraint": spread(),
    "no skew": spread(maxSkew=0),
    "a negative skew": spread(maxSkew=-1),
    "no key of a spread constraint": spread(topologyKey=""),
    "no action": spread(whenUnsatisfiable=None),
    "an action that is none": spread(whenUnsatisfiable="Never"),
    "no domains": spread(minDomains=0),
    "domains of a soft constraint": spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
    "a node policy that is none": spread(nodeTaintsPolicy="honour"),
    "label keys of a spread without a selector": spread(labelSelector=None, matchLabelKeys=["v"]),
    "a constraint twice": pod(topologySpreadConstraints=[*spread()["spec"]["topologySpreadConstraints"]] * 2),
    # --- volumes
    "a volume without a type": pod(volumes=[{"name": "v"}]),
    "a volume of two types": pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
    "two volumes of a name": pod(volumes=[{"name": "v", "emptyDir": {}}] * 2),
    "a volume without a name": pod(volumes=[{"emptyDir": {}}]),
    "a claim without a name": pod(volumes=[{"name": "v", "persistentVolumeClaim": {}}]),
    "an ephemeral volume without a template": pod(volumes=[{"name": "v", "ephemeral": {}}]),
    "an ephemeral volume": pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec()}}}]),
    "an ephemeral volume of no size": pod(
        volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(resources={})}}}]
    ),
    "a config map without a name": pod(volumes=[{"name": "v", "configMap": {}}]),
    # --- workloads
    "a deployment": workload("Deployment"),
    "another selector than labels": workload("Deployment", selector={"matchLabels": {"a": "other"}}),
    "no selector": workload("Deployment", selector=None),
    "an empty selector": workload("ReplicaSet", selector={}),
    "no labels": workload("Deployment", template={"spec": {"containers": [CONTAINER]}}),
    "negative replicas": workload("Deployment", replicas=-1),
    "pods that end": workload("Deployment", template=of_pods(restartPolicy="OnFailure")),
    "a deadline of pods": workload("ReplicaSet", template=of_pods(activeDeadlineSeconds=5)),
    "a strategy that is none": workload("Deployment", strategy={"type": "Rolling"}),
    "nothing may be unavailable or more": workload(
        "Deployment", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}
    ),
    "a rolling update of Recreate": workload("Deployment", strategy={"type": "Recreate", "rollingUpdate": {}}),
    "a share that is none": workload("Deployment", strategy={"rollingUpdate": {"maxSurge": "many"}}),
    "a deadline before pods are ready": workload("Deployment", progressDeadlineSeconds=5, minReadySeconds=10),
    "a toleration of a template": workload(
        "Deployment", template=of_pods(tolerations=[{"key": "k", "operator": "Exists", "value": "v"}])
    ),
    "a node and a gate of a template": workload(
        "Deployment", template=of_pods(nodeName="n", schedulingGates=[{"name": "example.com/gate"}])
    ),
    "an image with a space in a template": workload(
        "Deployment", template=of_pods(containers=[{**CONTAINER, "image": " e/x:1"}])
    ),
    "an extended resource without a limit in a template": workload(
        "Deployment",
        template=of_pods(containers=[{**CONTAINER, "resources": {"requests": {"example.com/gpu": 1}}}]),
    ),
    "a port on the host's network of a template": workload(
        "Deployment",
        template=of_pods(
            hostNetwork=True,
            containers=[{**CONTAINER, "name": name, "ports": [{"containerPort": 80}]} for name in ("a", "b")],
        ),
    ),
    "a stateful set": workload(
        "StatefulSet",
        serviceName="s",
        volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": claim_spec()}],
        template=of_pods(containers=[{**CONTAINER, "volumeMounts": [{"name": "data", "mountPath": "/x"}]}]),
    ),
    "a stateful set with dots": workload("StatefulSet", name="a.b"),
    "a claim of a stateful set of no mode": workload(
        "StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": claim_spec(accessModes=[])}]
    ),
    "a management that is none": workload("StatefulSet", podManagementPolicy="Any"),
    "an update strategy that is none": workload("StatefulSet", updateStrategy={"type": "Recreate"}),
    "another selector than labels of a stateful set": workload("StatefulSet", selector={"matchLabels": {"a": "c"}}),
    "a daemon set": workload("DaemonSet"),
    "another selector than labels of a daemon set": workload("DaemonSet", selector={"matchLabels": {"a": "c"}}),
    "a daemon set without a selector": workload("DaemonSet", selector=None),
    "a daemon set of pods that end": workload("DaemonSet", template=of_pods(restartPolicy="Never")),
    "nothing may be unavailable of a daemon set": workload(
        "DaemonSet", updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}
    ),
    "more and unavailable of a daemon set": workload(
        "DaemonSet", updateStrategy={"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
    ),
    "a controller": controller(template=of_pods()),
    "a controller of other labels": controller(selector={"a": "c"}, template=of_pods()),
    "a controller without a template": controller(selector={"a": "c"}),
    # --- jobs
    "a job": job(),
    "a job of pods that never end": job(template=of_pods()),
    "a job of a restart policy that is none": job(template=of_pods(restartPolicy="Sometimes")),
    "a job with a selector": job(selector=SELECTS),
    "a job with a selector of its own": job(manualSelector=True, selector=SELECTS),
    "a job with a selector of its own that is another": job(manualSelector=True, selector={"matchLabels": {"a": "c"}}),
    "negative parallelism": job(parallelism=-1),
    "an indexed job": job(completionMode="Indexed", completions=3),
    "an indexed job of no completions": job(completionMode="Indexed"),
    "a mode of completion that is none": job(completionMode="Some"),
    "a limit of an index": job(backoffLimitPerIndex=1),
    "a name that is too long with an index": job(name="x" * 60, completionMode="Indexed", completions=10000),
    "a cron job": cron_job(),
    "a cron job of no schedule": cron_job(schedule=""),
    "a cron job of four fields": cron_job(schedule="* * * *"),
    "a cron job with a time zone in its schedule": cron_job(schedule="TZ=UTC * * * * *"),
    "a cron job of a long name": cron_job(name="x" * 53),
    "a cron job with a selector": cron_job(job_spec={"selector": SELECTS}),
    "a cron job of pods that never end": cron_job(job_spec={"template": of_pods()}),
    "a concurrency that is none": cron_job(concurrencyPolicy="None"),
    # --- budgets, classes, nodes
    "a budget": budget(minAvailable=1),
    "a budget of both": budget(minAvailable=1, maxUnavailable=1),
    "a budget of more than all": budget(minAvailable="101%"),
    "a budget of less than nothing": budget(maxUnavailable=-1),
    "a budget of no share": budget(maxUnavailable="some"),
    "a budget that selects by nothing": budget(selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    "a class of priority": priority_class(value=5),
    "a class of too high a priority": priority_class(value=1_000_000_001),
    "a class with a system's name": priority_class("system-web", value=5),
    "a class of a preemption that is none": priority_class(value=5, preemptionPolicy="Some"),
    "a runtime class": runtime_class(handler="kata", overhead={"podFixed": {"cpu": "100m"}}),
    "a runtime class without a handler": runtime_class(handler=""),
    "a runtime class of a handler that is none": runtime_class(handler="K A"),
    "a node": node(taints=[{"key": "k", "effect": "NoSchedule"}], allocatable={"cpu": "4"}),
    "a node of less than nothing": node(allocatable={"cpu": "-4"}),
    "a node of half a device": node(allocatable={"example.com/gpu": "500m"}),
    "a taint twice": node(taints=[{"key": "k", "effect": "NoSchedule", "value": value} for value in "ab"]),
    "a taint without an effect": node(taints=[{"key": "k"}]),
    "a taint of an effect that is none": node(taints=[{"key": "k", "effect": "NoRun"}]),
    "a taint without a key": node(taints=[{"effect": "NoSchedule"}]),
    "a taint of a value that is none": node(taints=[{"key": "k", "value": "a b", "effect": "NoSchedule"}]),
    # --- storage
    "a claim": claim(),
    "a claim of no size": claim(resources={}),
    "a claim of size 0": claim(resources={"requests": {"storage": "0"}}),
    "a claim of no mode": claim(accessModes=[]),
    "a claim of a mode that is none": claim(accessModes=["RWO"]),
    "a claim of a mode beside the one that is alone": claim(accessModes=["ReadWriteOncePod", "ReadOnlyMany"]),
    "a claim of a volume mode that is none": claim(volumeMode="File"),
    "a claim of a class of a name that is none": claim(storageClassName="Fast SSD"),
    "a volume": volume(),
    "a volume of no size": volume(capacity=None),
    "a volume of size 0": volume(capacity={"storage": "0"}),
    "a volume of no type": volume(hostPath=None),
    "a volume of a local disk": volume(**LOCAL, nodeAffinity=ON_NODE),
    "a volume of a local disk without a node": volume(**LOCAL),
    "a volume without access": volume(accessModes=None),
    "a volume of a policy that is none": volume(persistentVolumeReclaimPolicy="Keep"),
    "a volume of a driver without a handle": volume(hostPath=None, csi={"driver": "d.example.com"}),
    "a class of storage": storage_class(provisioner="example.com/disk"),
    "a class without a provisioner": storage_class(),
    "a class of a binding that is none": storage_class(provisioner="p", volumeBindingMode="Later"),
    "a class of a policy that is none": storage_class(provisioner="p", reclaimPolicy="Keep"),
    "a class of no zones": storage_class(
        provisioner="p", allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": []}]}]
    ),
}
