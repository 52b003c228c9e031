"""The API server of `wharfinger dev`: its files and its command line, then a real one on an etcd of its own."""

from __future__ import annotations

import base64
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.apiserver import api_server_process
from tests.apiserver.api_server_process import ApiServerProcess
from wharfinger.dev import binaries
from wharfinger.dev.kube_apiserver import ADMIN, RENEW_AFTER, ApiserverFiles, ApiserverUser, KubeApiserver

ALICE = ApiserverUser("alice", ("readers", "writers"))
PODS = "/api/v1/namespaces/default/pods"
POD = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
BIND_PODS = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def server(folder: Path) -> KubeApiserver:
    return KubeApiserver(Path("kube-apiserver"), ApiserverFiles(folder), "http://127.0.0.1:2379", 6443, users=(ALICE,))


def test_staging_modules_have_the_version_of_the_pinned_kubernetes() -> None:
    text = (binaries.modules_folder(binaries.KUBE_APISERVER) / "go.mod").read_text()
    replaced = re.findall(r"^\t(\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    wanted = "v0." + binaries.pinned(binaries.KUBE_APISERVER).removeprefix("1.")

    assert len(replaced) > 30
    assert all(module == by and version == wanted for module, by, version in replaced)
    other = binaries.modules_folder(binaries.KUBE_APISERVER).parent / "kubernetes-fields" / "go.mod"
    assert f"k8s.io/api {wanted}" in other.read_text()


def test_tokens_and_kubeconfig_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    apiserver = server(tmp_path / "new" / "folder")
    before = os.umask(0)
    try:
        apiserver.prepare()
    finally:
        os.umask(before)

    assert mode(apiserver.files.folder) == 0o700
    assert mode(apiserver.files.tokens) == mode(apiserver.files.kubeconfig) == 0o600


def test_kubeconfig_names_the_server_its_certificate_and_the_admins_token(tmp_path: Path) -> None:
    apiserver = server(tmp_path)
    apiserver.prepare()

    content = yaml.safe_load(apiserver.files.kubeconfig.read_text())

    cluster = {"server": "https://127.0.0.1:6443", "certificate-authority": str(tmp_path / "apiserver.crt")}
    assert [one["cluster"] for one in content["clusters"]] == [cluster]
    assert [one["user"] for one in content["users"]] == [{"token": apiserver.files.token()}]
    context = content["contexts"][0]
    assert context["name"] == content["current-context"]
    assert context["context"] == {"cluster": content["clusters"][0]["name"], "user": content["users"][0]["name"]}


def test_tokens_outlive_restarts_and_differ_between_users(tmp_path: Path) -> None:
    files = ApiserverFiles(tmp_path)
    files.prepare(())
    admin = files.token()

    files.prepare((ALICE,))

    assert files.token() == admin
    assert len({admin, files.token("alice")}) == 2
    assert len(admin) >= 43  # 32 random bytes
    assert f'{files.token("alice")},alice,alice,"readers,writers"' in files.tokens.read_text().splitlines()
    files.prepare(())
    with pytest.raises(KeyError):
        files.token("alice")


def test_command_line_has_no_secret_and_listens_on_loopback_only(tmp_path: Path) -> None:
    apiserver = server(tmp_path)
    apiserver.prepare()

    command = apiserver.command()

    assert not [word for word in command for name in (ADMIN.name, "alice") if apiserver.files.token(name) in word]
    assert "--bind-address=127.0.0.1" in command
    assert f"--token-auth-file={apiserver.files.tokens}" in command


def test_certificate_without_its_key_is_removed_before_a_start(tmp_path: Path) -> None:
    """The server writes one after the other, and would refuse to start after it was killed in between."""
    files = ApiserverFiles(tmp_path)
    files.certificate.touch()

    files.prepare(())

    assert not files.certificate.exists()


@pytest.mark.parametrize("age", [RENEW_AFTER - 60, RENEW_AFTER + 60])
def test_certificate_is_renewed_when_it_is_soon_to_expire(age: float, tmp_path: Path) -> None:
    files = ApiserverFiles(tmp_path)
    for path in (files.certificate, files.key):
        path.touch()
    made = files.certificate.stat().st_mtime

    files.prepare((), clock=lambda: made + age)

    assert files.certificate.exists() == files.key.exists() == (age < RENEW_AFTER)


def test_server_that_has_made_no_certificate_is_not_up(tmp_path: Path) -> None:
    apiserver = server(tmp_path)
    apiserver.prepare()

    assert not apiserver.is_up()


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    """One that the tests of this file share and start again."""
    if reason := api_server_process.missing():
        pytest.skip(reason)
    process = ApiServerProcess(tmp_path_factory.mktemp("kubernetes"), users=(ALICE,))
    try:
        yield process.start()
    finally:
        process.kill_all()


@pytest.mark.servers
def test_server_is_of_the_pinned_version(kubernetes: ApiServerProcess) -> None:
    answer = kubernetes.request("GET", "/version")

    assert answer.code == 200
    major, minor, _ = binaries.pinned(binaries.KUBE_APISERVER).split(".")
    assert answer.body["gitVersion"] == f"v{binaries.pinned(binaries.KUBE_APISERVER)}"
    assert (answer.body["major"], answer.body["minor"]) == (major, minor)


@pytest.mark.servers
def test_new_node_has_no_taint_and_keeps_its_status(kubernetes: ApiServerProcess) -> None:
    status = {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}

    node = kubernetes.create("/api/v1/nodes", {"metadata": {"name": "fresh"}, "status": status})

    assert node["spec"] == {}
    assert node["status"]["allocatable"] == {"cpu": "4"}


@pytest.mark.servers
def test_pod_without_service_account_is_admitted_and_bound(kubernetes: ApiServerProcess) -> None:
    pod = kubernetes.create(PODS, {"metadata": {"name": "lone"}, **POD})

    assert "serviceAccountName" not in pod["spec"]
    assert pod["spec"]["priority"] == 0  # the usual admission plugins work
    kubernetes.create("/api/v1/nodes", {"metadata": {"name": "its-node"}})
    kubernetes.create(f"{PODS}/lone/binding", {"metadata": {"name": "lone"}, "target": {"name": "its-node"}})
    assert kubernetes.request("GET", f"{PODS}/lone").body["spec"]["nodeName"] == "its-node"


@pytest.mark.servers
def test_claim_can_be_deleted(kubernetes: ApiServerProcess) -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    kubernetes.create(claims, {"metadata": {"name": "data"}, "spec": spec})

    assert kubernetes.request("DELETE", f"{claims}/data").code == 200
    assert kubernetes.request("GET", f"{claims}/data").code == 404


@pytest.mark.servers
@pytest.mark.parametrize("token", ["", "guessed"])
def test_request_without_a_known_token_is_unauthorized(token: str, kubernetes: ApiServerProcess) -> None:
    assert kubernetes.request("GET", PODS, token=token).code == 401
    assert kubernetes.request("GET", "/readyz", token=token).code == 401


@pytest.mark.servers
def test_user_of_the_file_has_groups_and_no_permissions(kubernetes: ApiServerProcess) -> None:
    alice = kubernetes.user_from_file("alice")

    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = kubernetes.request("POST", path, {}, token=alice.token).body["status"]["userInfo"]

    assert review["username"] == "alice"
    assert {"readers", "writers"} < set(review["groups"])
    assert kubernetes.request("GET", PODS, token=alice.token).code == 403


@pytest.mark.servers
def test_limited_user_may_do_what_its_rules_allow(kubernetes: ApiServerProcess) -> None:
    user = kubernetes.user("limited", [READ_PODS], namespaced={"kube-system": [BIND_PODS]})

    def bind(namespace: str) -> int:
        body = {"metadata": {"name": "absent"}, "target": {"name": "fresh"}}
        return kubernetes.request(
            "POST", f"/api/v1/namespaces/{namespace}/pods/absent/binding", body, token=user.token
        ).code

    assert kubernetes.request("GET", PODS, token=user.token).code == 200
    assert kubernetes.request("GET", "/api/v1/nodes", token=user.token).code == 403
    assert (bind("kube-system"), bind("default")) == (404, 403)
    assert yaml.safe_load(user.kubeconfig.read_text())["users"][0]["user"] == {"token": user.token}
    assert mode(user.kubeconfig) == 0o600


@pytest.mark.servers
def test_keys_in_etcd_are_all_below_the_prefix(kubernetes: ApiServerProcess) -> None:
    """So it can share wharfinger's etcd, whose keys are below /registry."""
    everything = base64.b64encode(b"\0").decode()

    found = kubernetes.etcd.post("/v3/kv/range", {"key": everything, "range_end": everything, "keys_only": True})

    keys = [base64.b64decode(kv["key"]).decode() for kv in found["kvs"]]
    assert "/kubernetes/namespaces/default" in keys
    assert [key for key in keys if not key.startswith("/kubernetes/")] == []


@pytest.mark.servers
def test_restart_with_its_etcd_keeps_objects_and_credentials(kubernetes: ApiServerProcess) -> None:
    kubeconfig, certificate = kubernetes.kubeconfig.read_bytes(), kubernetes.server.files.certificate.read_bytes()
    user = kubernetes.user("survivor", [READ_PODS])
    made = kubernetes.create(PODS, {"metadata": {"name": "kept"}, **POD})

    kubernetes.kill_all()
    kubernetes.start()

    assert kubernetes.request("GET", f"{PODS}/kept").body["metadata"] == made["metadata"]
    assert kubernetes.kubeconfig.read_bytes() == kubeconfig
    assert kubernetes.server.files.certificate.read_bytes() == certificate
    assert kubernetes.request("GET", PODS, token=user.token).code == 200


@pytest.mark.servers
def test_stopped_server_is_not_up_and_goes_on_later(kubernetes: ApiServerProcess) -> None:
    kubernetes.pause()
    try:
        assert not kubernetes.server.is_up()
    finally:
        kubernetes.resume()

    kubernetes.wait_ready()
    assert kubernetes.request("GET", PODS).code == 200


@pytest.mark.servers
def test_server_logs_no_token(kubernetes: ApiServerProcess) -> None:
    kubernetes.request("GET", PODS, token="guessed")
    log = kubernetes.log.read_text()

    assert log
    assert not [name for name in (ADMIN.name, "alice") if kubernetes.server.files.token(name) in log]


@pytest.mark.servers
def test_server_ends_on_request_and_comes_back(kubernetes: ApiServerProcess) -> None:
    """A watch does not hold it up, as it would by the server's defaults."""
    kubernetes.create(PODS, {"metadata": {"name": "durable"}, **POD})

    with kubernetes.open("GET", f"{PODS}?watch=true"):
        assert kubernetes.stop() == 0
    kubernetes.start()

    assert kubernetes.request("GET", f"{PODS}/durable").code == 200
