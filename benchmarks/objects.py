"""Pods and nodes of the benchmarks on etcd, in either format of a cluster: they ask for, and offer, the same."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.testing import node_manifest, pod_manifest

_METADATA = """\
apiVersion: v1
kind: {kind}
metadata:
  name: {name}
  namespace: default
  uid: {uid}
  labels:
    {label}
  annotations: {{}}
  ownerReferences: null
  creationTimestamp: 2026-04-28T12:00:00.123456789Z
  deletionTimestamp: null
  finalizers: null
  generation: 0
"""
_POD = """\
spec:
  node_name: null
  containers:
  - name: main
    image: bench
    ports:
    - containerPort: 80
      protocol: TCP
      hostPort: 0
      hostIP: ''
    args:
    - sh
    tty: false
    resources:
      limits:
        cpu: 100m
        memory: 128Mi
    livenessProbe: null
    readinessProbe: null
    startupProbe: null
    securityContext: null
    env: null
    volumeMounts: null
    command: null
    workingDir: null
  init_containers: []
  tolerations: []
  affinity: null
  restart_policy: Never
  volumes: []
status:
  podIP: null
  containerStatuses: []
  phase: Pending
  conditions: null
  message: null
  reason: null
  start_time: null
"""
_NODE = """\
spec:
  podCIDR: 10.244.1.0/24
  taints: []
status:
  capacity:
    cpu: '32'
    memory: 128Gi
    pods: '110'
  allocatable:
    cpu: '32'
    memory: 128Gi
    pods: '110'
  addresses:
  - type: InternalIP
    address: 10.0.0.1
  - type: Hostname
    address: {name}
  conditions:
  - type: Ready
    status: 'True'
    lastHeartbeatTime: 2026-04-28T12:00:05+00:00
"""


def node(name: str) -> bytes:
    """A node with room for its share."""
    return json.dumps(node_manifest(name, "32", "128Gi")).encode()


def pod(name: str, *, cpu: str = "100m", priority: int = 0, namespace: str = "bench") -> bytes:
    """A pod as they come: one container with requests."""
    spec = {"priority": priority} if priority else {}
    return json.dumps(pod_manifest(name, cpu, "128Mi", namespace=namespace, **spec)).encode()


@dataclass(frozen=True)
class Objects:
    """What one format has for a flood."""

    namespace: str
    pod: Callable[[str], bytes]
    node: Callable[[str], bytes]
    is_bound: Callable[[bytes], bool]


def _rk8s_pod(name: str) -> bytes:
    """As rk8s' own writer lays it out: every field, null where there is none."""
    return (_METADATA.format(kind="Pod", name=name, uid=uuid.uuid4(), label="app: bench") + _POD).encode()


def _rk8s_node(name: str) -> bytes:
    head = _METADATA.format(kind="Node", name=name, uid=uuid.uuid4(), label=f"host: {name}")
    return (head + _NODE.format(name=name)).encode()


OBJECTS = {
    ClusterFormat.KUBERNETES: Objects("bench", pod, node, lambda value: b'"nodeName"' in value),
    ClusterFormat.RK8S: Objects("default", _rk8s_pod, _rk8s_node, lambda value: b"\n  node_name: null\n" not in value),
}
