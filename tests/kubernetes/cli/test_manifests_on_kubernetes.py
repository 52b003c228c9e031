"""The printed manifests on a real API server: they are valid, and what they permit is enough, and nothing more."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver import conftest as api_servers
from tests.apiserver.api_server_process import ApiServerProcess, LimitedUser
from tests.conftest import EtcdServer, TemporalServer, free_port, start_etcd
from tests.forked import Forked
from tests.integration.dev_tree import wait_until
from wharfinger.apiserver.client import ApiResource
from wharfinger.kubernetes.cli.install_choices import InstallChoices
from wharfinger.kubernetes.cli.install_files import Manifest
from wharfinger.kubernetes.cli.manifests import objects_of

kube_apiserver = api_servers.kube_apiserver
"""The fixture of that folder."""

pytestmark = pytest.mark.timeout(300)

NAMESPACE = "wharfinger-rbac"
NAME = "rbac-test"
"""Of the cluster, its Lease and its profile."""
CHOICES = InstallChoices(namespace=NAMESPACE, cluster=NAME, scheduler_name=NAME, temporal="temporal:7233")
WHOLE = InstallChoices(namespace=NAMESPACE, cluster=NAME, with_hub=True, with_member=True)
INSECURE = replace(WHOLE, insecure=True)
OPERATORS = InstallChoices(namespace=NAMESPACE, monitoring=True, cert_manager=True, temporal="temporal:7233")
STATIC = InstallChoices(only="static-pods", scheduler_name="default-scheduler", temporal="temporal:7233")
SERVED = {
    "Namespace": ("", "v1", "namespaces", False),
    "ServiceAccount": ("", "v1", "serviceaccounts", True),
    "ConfigMap": ("", "v1", "configmaps", True),
    "Service": ("", "v1", "services", True),
    "Pod": ("", "v1", "pods", True),
    "PersistentVolumeClaim": ("", "v1", "persistentvolumeclaims", True),
    "CronJob": ("batch", "v1", "cronjobs", True),
    "Deployment": ("apps", "v1", "deployments", True),
    "StatefulSet": ("apps", "v1", "statefulsets", True),
    "PodDisruptionBudget": ("policy", "v1", "poddisruptionbudgets", True),
    "NetworkPolicy": ("networking.k8s.io", "v1", "networkpolicies", True),
    "FlowSchema": ("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", False),
    "ClusterRole": ("rbac.authorization.k8s.io", "v1", "clusterroles", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", False),
    "Role": ("rbac.authorization.k8s.io", "v1", "roles", True),
    "RoleBinding": ("rbac.authorization.k8s.io", "v1", "rolebindings", True),
}
"""Where the API has each kind."""
DEFINITIONS = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": [
        f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
        for kind in ("servicemonitors", "podmonitors", "prometheusrules")
    ],
    "github.com/cert-manager/cert-manager@v1.19.0": [
        f"deploy/crds/cert-manager.io_{kind}.yaml" for kind in ("certificates", "issuers")
    ],
}
"""Go modules with definitions of kinds, and their files."""
_numbers = itertools.count()


def path_of(obj: Manifest) -> str:
    return ApiResource(*SERVED[obj["kind"]]).path(obj["metadata"].get("namespace", ""))


@pytest.fixture(scope="module")
def installed(kube_apiserver: ApiServerProcess) -> ApiServerProcess:
    """An API server with the namespace and the permissions of the manifests."""
    kinds = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "FlowSchema")
    for obj in objects_of(CHOICES):
        if obj["kind"] in kinds:
            kube_apiserver.create(path_of(obj), obj)
    return kube_apiserver


@pytest.fixture(scope="module")
def user(installed: ApiServerProcess) -> LimitedUser:
    """The service account of the manifests."""
    return installed.user_of(NAMESPACE, "wharfinger")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory, installed: ApiServerProcess) -> Iterator[EtcdServer]:
    """For the copies: their etcd is never another cluster's. Needs the API server, which skips where none is built."""
    with start_etcd(tmp_path_factory.mktemp("etcd"), None, "--max-txn-ops=1024") as server:
        yield server


@pytest.mark.parametrize(
    "choices",
    [CHOICES, WHOLE, INSECURE, STATIC, InstallChoices(only="rbac", namespace=NAMESPACE, user="alice")],
    ids=["second", "whole", "insecure", "static", "rbac"],
)
def test_api_server_takes_each_object_as_it_is(installed: ApiServerProcess, choices: InstallChoices) -> None:
    """Strictly: a field that Kubernetes does not have is an error."""
    for obj in objects_of(choices):
        named = {**obj, "metadata": {**obj["metadata"], "name": f"dry-{obj['metadata']['name']}"}}
        answer = installed.request("POST", f"{path_of(obj)}?dryRun=All&fieldValidation=Strict", named)

        assert answer.code == 201, (obj["kind"], answer.body)


def test_objects_for_operators_fit_the_definitions_of_their_kinds(kube_apiserver: ApiServerProcess) -> None:
    for module, paths in DEFINITIONS.items():
        folder = module_folder(module)
        for path in paths:
            definition = yaml.safe_load((folder / path).read_text())
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            if kube_apiserver.request("GET", f"{definitions}/{definition['metadata']['name']}").code != 200:
                kube_apiserver.create(definitions, definition)
    kube_apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    kinds = ("Issuer", "Certificate", "ServiceMonitor", "PodMonitor")
    found = [one for one in objects_of(OPERATORS) if one["kind"] in kinds]
    assert {one["kind"] for one in found} == set(kinds)
    for obj in found:
        path = f"/apis/{obj['apiVersion']}/namespaces/{NAMESPACE}/{obj['kind'].lower()}s"
        wait_until(lambda path=path: kube_apiserver.request("GET", path).code == 200, 30, f"{path} is served")

        answer = kube_apiserver.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", obj)

        assert answer.code == 201, (obj["kind"], answer.body)


def module_folder(module: str) -> Path:
    """A Go module in the cache of modules; skips where there is no Go, or no way to the module."""
    if (go := shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")) is None:
        pytest.skip("there is no Go, by which the definitions of these kinds are had")
    command = [go, "mod", "download", "-json", module]
    done = subprocess.run(["timeout", "100", *command], check=False, cwd="/", capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{module} cannot be had: {done.stdout or done.stderr}")
    return Path(json.loads(done.stdout)["Dir"])


def test_installation_of_an_earlier_release_takes_the_objects_of_this_one(kube_apiserver: ApiServerProcess) -> None:
    """Names, selectors and claims are as they were: the API lets nobody change the latter two."""
    before = yaml.safe_load_all((Path(__file__).parent / "installed_before.yaml").read_text())
    for obj in itertools.chain(before, objects_of(InstallChoices())):
        if "wharfinger" in (obj["metadata"].get("namespace"), obj["metadata"]["name"] * (obj["kind"] == "Namespace")):
            path = f"{path_of(obj)}/{obj['metadata']['name']}?fieldValidation=Strict&fieldManager=kubectl"
            answer = kube_apiserver.request("PATCH", path, obj, content_type="application/apply-patch+yaml")

            assert answer.code in (200, 201), (obj["kind"], answer.body)


def test_pods_pass_the_restricted_pod_security_standard(installed: ApiServerProcess) -> None:
    """Which the namespace of the manifests enforces."""
    namespace = installed.request("GET", f"/api/v1/namespaces/{NAMESPACE}").body
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    found = [one["spec"]["jobTemplate"] if one["kind"] == "CronJob" else one for one in objects_of(WHOLE)]
    made = [
        {"metadata": {"name": f"{number}"}, **one}
        for number, one in enumerate(found)
        if "template" in one.get("spec", ())
    ]
    for obj in made:
        spec, claims = obj["spec"]["template"]["spec"], obj["spec"].get("volumeClaimTemplates", ())
        claimed = [{"name": one["metadata"]["name"], "emptyDir": {}} for one in claims]
        pod = {
            "metadata": {"name": f"dry-{obj['metadata']['name']}"},
            "spec": {**spec, "volumes": [*spec.get("volumes", ()), *claimed]},
        }

        answer = installed.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", pod)

        assert answer.code == 201, answer.body

    assert len(made) == 7


def test_worker_schedules_with_the_printed_permissions(
    installed: ApiServerProcess, user: LimitedUser, etcd: EtcdServer, temporal_server: TemporalServer, tmp_path: Path
) -> None:
    node = {"metadata": {"name": "rbac-node"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
    installed.create("/api/v1/nodes", node)
    with working(tmp_path, user, etcd, temporal_server) as log:
        small = add_pod(installed, "small", cpu="3")
        wait_until(lambda: condition(installed, small) == ("True", ""), 90, f"small is bound; {log}")
        large = add_pod(installed, "large", cpu="9")
        wait_until(lambda: condition(installed, large) == ("False", "Unschedulable"), 60, f"large is refused; {log}")
        wait_until(lambda: {"Scheduled", "FailedScheduling"} <= reasons(installed), 60, f"events; {log}")
        important = add_pod(installed, "important", cpu="3", priorityClassName="system-node-critical")
        wait_until(lambda: is_leaving(installed, small), 60, f"small is preempted; {log}")
        lease = installed.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}").body
        assert lease["spec"]["holderIdentity"].startswith(f"{NAME}_")
        installed.request("DELETE", small, {"gracePeriodSeconds": 0})  # as its kubelet would
        wait_until(lambda: condition(installed, important) == ("True", ""), 60, f"important is bound; {log}")

    assert "forbidden" not in log.read_text().lower()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/api/v1/namespaces/kube-system/pods/any", {"metadata": {"labels": {"a": "b"}}}),
        ("POST", "/api/v1/namespaces/kube-system/pods", {"metadata": {"name": "any"}}),
        ("GET", "/api/v1/secrets", None),
        ("GET", "/api/v1/namespaces/kube-system/configmaps/any", None),
        ("PATCH", "/api/v1/nodes/any", {"metadata": {"labels": {"a": "b"}}}),
        ("DELETE", "/api/v1/nodes/any", None),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", None),
        ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/other", None),
        ("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/other", {"metadata": {"name": "other"}}),
        ("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}", None),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "any"}}),
        ("POST", "/api/v1/namespaces/kube-system/pods/any/eviction", {"metadata": {"name": "any"}}),
        ("POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", {"spec": {}}),
    ],
)
def test_nothing_else_is_permitted(
    installed: ApiServerProcess, user: LimitedUser, method: str, path: str, body: Any
) -> None:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"

    answer = installed.request(method, path, body, token=user.token, content_type=kind)

    assert answer.code == 403, answer


@contextmanager
def working(folder: Path, user: LimitedUser, etcd: EtcdServer, temporal: TemporalServer) -> Iterator[Path]:
    """A worker as the Deployment runs it, but that the kubeconfig is in a file; gives its log."""
    configuration, log = folder / "scheduler.yaml", folder / "worker.log"
    configuration.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        f"clientConnection: {{kubeconfig: {user.kubeconfig}}}\n"
        f"leaderElection: {{leaderElect: true, resourceNamespace: {NAMESPACE}, resourceName: {NAME}}}\n"
        f"profiles: [{{schedulerName: {NAME}}}]\n"
    )
    env = {
        **os.environ,
        "WHARFINGER_ETCD": etcd.url,
        "WHARFINGER_TEMPORAL": temporal.address,
        "WHARFINGER_CLUSTER": NAME,
        "WHARFINGER_MAX_TXN_OPS": "1024",
    }
    options = (f"--config={configuration}", f"--secure-port={free_port()}", "--bind-address=127.0.0.1")
    process = Forked(("kube-scheduler", *options), env, log, log)
    try:
        yield log
    finally:
        process.kill()
        process.wait()


def add_pod(server: ApiServerProcess, name: str, *, cpu: str, **spec: Any) -> str:
    """A pod for the worker; its path."""
    requests = {"cpu": cpu, "memory": "1Gi"}
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    pod = {
        "metadata": {"name": f"{name}-{next(_numbers)}"},
        "spec": {"schedulerName": NAME, "nodeSelector": {}, "containers": containers, **spec},
    }
    path = "/api/v1/namespaces/kube-system/pods"
    return f"{path}/{server.create(path, pod)['metadata']['name']}"


def condition(server: ApiServerProcess, path: str) -> tuple[str, str]:
    """Status and reason of PodScheduled."""
    status = server.request("GET", path).body["status"]
    found = [one for one in status.get("conditions", ()) if one["type"] == "PodScheduled"]
    return (found[0]["status"], found[0].get("reason", "")) if found else ("", "")


def reasons(server: ApiServerProcess) -> set[str]:
    """Of the events in the namespace of the pods."""
    items = server.request("GET", "/apis/events.k8s.io/v1/namespaces/kube-system/events").body["items"]
    return {one["reason"] for one in items if one["reportingController"] == NAME}


def is_leaving(server: ApiServerProcess, path: str) -> bool:
    answer = server.request("GET", path)
    return answer.code == 404 or bool(answer.body["metadata"].get("deletionTimestamp"))
