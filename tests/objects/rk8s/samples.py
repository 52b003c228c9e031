"""Documents as rk8s' writer lays them out, and ways to change them."""

from __future__ import annotations

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web-1
  namespace: default
  uid: 5f0c2f6e-7d7b-4f7a-9a56-0d5f3f0a9a11
  labels:
    app: web
  annotations: {}
  ownerReferences: null
  creationTimestamp: 2026-04-28T12:00:00.123456789Z
  deletionTimestamp: null
  finalizers: null
  generation: 0
spec:
  node_name: null
  containers:
  - name: main
    image: busybox:latest
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
        cpu: 500m
        memory: 512Mi
    livenessProbe: null
    securityContext: null
    env: null
    command: null
    workingDir: null
  init_containers: []
  tolerations:
  - key: NodeMemoryPressure
    operator: Exists
    effect: NoSchedule
    value: ''
  affinity:
    node_affinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - key: zone
            operator: In
            values:
            - a
      preferredDuringSchedulingIgnoredDuringExecution:
        terms:
        - weight: 10
          preference:
            matchExpressions:
            - key: disk
              operator: Exists
              values: []
    pod_affinity: null
    pod_anti_affinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector:
          matchLabels:
            app: web
          matchExpressions: []
        topologyKey: host
        namespaces: null
      preferredDuringSchedulingIgnoredDuringExecution: null
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

RUNNING = """\
status:
  podIP: 10.244.1.7
  containerStatuses:
  - name: main
    state: !Running
      started_at: 2026-04-28T12:00:09.000000001Z
    last_termination_state: null
    ready: true
    restart_count: 0
  phase: Running
  conditions:
  - type: PodReady
    status: 'True'
  message: null
  reason: null
  start_time: 2026-04-28T12:00:08Z
"""

NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: worker1
  namespace: default
  uid: 0b6b8f1e-3c43-4b52-8e55-0f9f2d0d7c22
  labels:
    zone: a
  annotations: {}
  ownerReferences: null
  creationTimestamp: 2026-04-28T12:00:00.123456789Z
  deletionTimestamp: null
  finalizers: null
  generation: 0
spec:
  podCIDR: 10.244.1.0/24
  taints:
  - key: NodeNotReady
    value: ''
    effect: NoExecute
status:
  capacity:
    cpu: '8'
    memory: 32Gi
    pods: '110'
  allocatable:
    cpu: '7'
    memory: 30Gi
    pods: '110'
  addresses:
  - type: InternalIP
    address: 10.0.0.1
  conditions:
  - type: Ready
    status: 'False'
    lastHeartbeatTime: 2026-04-28T12:00:05+00:00
"""

SMALLEST = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n"


def changed(document: str, old: str, new: str) -> bytes:
    """The document with one place changed; the place must be there, once."""
    assert document.count(old) == 1, f"{old!r} is there {document.count(old)} times"
    return document.replace(old, new).encode()
