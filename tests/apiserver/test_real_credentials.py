"""Who a real API server takes us for, by each kind of credentials that a kubeconfig may have."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.apiserver.api_server_process import ApiServerProcess
from tests.apiserver.conftest import StartKubeApiserver
from tests.apiserver.kubeconfigs import V1, KubeconfigFolder, kubeconfig_folder, printed
from tests.patience import patient
from wharfinger.apiserver import tls
from wharfinger.apiserver.credentials import Access
from wharfinger.apiserver.exec_plugin import run_plugin
from wharfinger.apiserver.kubeconfig import read_access

pytestmark = pytest.mark.servers

ADMIN = "wharfinger-admin"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def user_name(access: Access) -> str:
    """The name that the server has for us; the code of its answer where it has none."""
    identity = await access.credentials.current()
    headers = {"Content-Type": "application/json"}
    if identity.token:
        headers["Authorization"] = f"Bearer {identity.token}"
    url = f"{access.server}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    request = urllib.request.Request(url, json.dumps(REVIEW).encode(), headers, method="POST")
    handler = urllib.request.HTTPSHandler(context=tls.context(access, identity))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
    try:
        with await asyncio.to_thread(opener.open, request, timeout=patient(10)) as answer:
            return str(json.load(answer)["status"]["userInfo"]["username"])
    except urllib.error.HTTPError as error:
        return str(error.code)


def home_of(folder: Path, server: ApiServerProcess) -> KubeconfigFolder:
    """A kubeconfig's folder whose cluster is the server."""
    home = kubeconfig_folder(folder)
    written = yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"]
    home.cluster = {**written, "server": server.url}
    home.run = run_plugin
    return home


async def test_written_kubeconfig_is_the_admins(kube_apiserver: ApiServerProcess) -> None:
    assert await user_name(read_access(kube_apiserver.kubeconfig)) == ADMIN


async def test_token_file_is_read_again_after_a_401(kube_apiserver: ApiServerProcess, tmp_path: Path) -> None:
    home = home_of(tmp_path, kube_apiserver)
    home.user = {"tokenFile": "token"}
    access = home.read()
    assert await user_name(access) == "401"

    (tmp_path / "token").write_text(kube_apiserver.server.files.token())
    access.credentials.refused()

    assert await user_name(access) == ADMIN


async def test_plugins_token_is_accepted(kube_apiserver: ApiServerProcess, tmp_path: Path) -> None:
    home = home_of(tmp_path, kube_apiserver)
    (tmp_path / "answer").write_bytes(printed({"token": kube_apiserver.server.files.token()}))
    home.script(f"cat {tmp_path}/answer")
    home.environment = {"PATH": "/bin:/usr/bin"}
    home.with_exec(command="./login", apiVersion=V1)

    assert await user_name(home.read()) == ADMIN


async def test_client_certificates_name_the_user(start_kube_apiserver: StartKubeApiserver, tmp_path: Path) -> None:
    """From files, and from a plugin; what another authority has signed is nobody's."""
    signed = kubeconfig_folder(tmp_path)
    server = start_kube_apiserver(options=[f"--client-ca-file={signed.authority.pem}"])
    beside = tmp_path / "kubeconfig"
    beside.mkdir()
    home = home_of(beside, server)
    home.user = {"client-certificate": str(signed.alice.cert), "client-key": str(signed.alice.key)}
    assert await user_name(home.read()) == "alice"

    pair = {"clientCertificateData": signed.alice.cert.read_text(), "clientKeyData": signed.alice.key.read_text()}
    (home.folder / "answer").write_bytes(printed(pair))
    home.script(f"cat {home.folder}/answer")
    home.environment = {"PATH": "/bin:/usr/bin"}
    home.with_exec(command="./login")
    home.path.unlink()
    assert await user_name(home.read()) == "alice"

    home.with_certificate()
    home.path.unlink()
    assert await user_name(home.read()) == "401"
