"""Kubeconfigs: what is read of a right one, and how several are merged."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
import yaml

from tests.apiserver.kubeconfigs import SECRET, KubeconfigFolder, encoded, kubeconfig_folder
from wharfinger.apiserver.kubeconfig import read_access


@pytest.fixture
def home(tmp_path: Path) -> KubeconfigFolder:
    return kubeconfig_folder(tmp_path)


async def test_token_and_authority_are_read(home: KubeconfigFolder) -> None:
    access = home.read()

    assert access.server == "https://10.0.0.1:6443"
    assert access.ca == home.authority.pem.read_bytes()
    assert (access.verify, access.tls_server_name, access.proxy, access.namespace) == (True, "", "", "team")
    assert (await access.credentials.current()).token == f"{SECRET}-token"


async def test_yaml_is_read_like_json(home: KubeconfigFolder) -> None:
    home.text = yaml.safe_dump(home.document())

    assert (await home.read().credentials.current()).token == f"{SECRET}-token"


async def test_dates_in_yaml_stay_text(home: KubeconfigFolder) -> None:
    home.user = {"token": "TOKEN"}
    home.text = yaml.safe_dump(home.document()).replace("TOKEN", "2026-01-02")

    assert (await home.read().credentials.current()).token == "2026-01-02"


async def test_certificates_are_read_from_files_beside_the_kubeconfig(home: KubeconfigFolder) -> None:
    home.with_certificate()

    identity = await home.read().credentials.current()

    assert identity.certificate == home.alice.cert.read_bytes()
    assert identity.key == home.alice.key.read_bytes()


async def test_data_in_place_outranks_files(home: KubeconfigFolder, caplog: pytest.LogCaptureFixture) -> None:
    home.user = {"client-certificate": "gone", "client-key": "gone"}
    home.user |= {"client-certificate-data": encoded(home.alice.cert), "client-key-data": encoded(home.alice.key)}
    home.cluster |= {"certificate-authority": "gone", "certificate-authority-data": encoded(home.authority.pem)}

    access = home.read()

    assert access.ca == home.authority.pem.read_bytes()
    assert (await access.credentials.current()).certificate == home.alice.cert.read_bytes()
    ignored = [r.getMessage() for r in caplog.records if r.getMessage().startswith("kubeconfig_file_ignored")]
    assert len(ignored) == 3


async def test_one_file_may_have_both_certificate_and_key(home: KubeconfigFolder) -> None:
    both = home.folder / "both.pem"
    both.write_bytes(home.alice.key.read_bytes() + home.alice.cert.read_bytes())
    home.user = {"client-certificate": "both.pem", "client-key": "both.pem"}

    assert (await home.read().credentials.current()).key == both.read_bytes()


async def test_basic_authentication_is_read(home: KubeconfigFolder) -> None:
    home.user = {"username": "alice", "password": SECRET}

    identity = await home.read().credentials.current()

    assert (identity.username, identity.password, identity.token) == ("alice", SECRET, "")


async def test_context_without_user_is_anonymous(home: KubeconfigFolder) -> None:
    del home.context["user"]
    home.cluster = {"server": "http://192.0.2.1:8080"}

    identity = await home.read().credentials.current()

    assert (identity.token, identity.username, identity.certificate) == ("", "", b"")


def test_chosen_context_outranks_the_current_one(home: KubeconfigFolder) -> None:
    other = {"name": "other", "context": {"cluster": "prod", "user": "alice", "namespace": "elsewhere"}}
    home.top = {"contexts": [{"name": "main", "context": home.context}, other]}
    home.options = {"context": "other"}

    assert home.read().namespace == "elsewhere"


def test_master_replaces_the_server_and_its_name(home: KubeconfigFolder) -> None:
    home.cluster["tls-server-name"] = "kubernetes.default"
    assert home.read().tls_server_name == "kubernetes.default"
    home.options = {"master": "https://10.0.0.2:6443/"}

    access = home.read()

    assert access.server == "https://10.0.0.2:6443"
    assert access.tls_server_name == ""
    assert access.ca


async def test_master_alone_is_used_anonymously(home: KubeconfigFolder) -> None:
    access = read_access(master="http://192.0.2.7:8080", surroundings=home.surroundings())

    assert access.server == "http://192.0.2.7:8080"
    assert (await access.credentials.current()).token == ""


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("https://k8s.example.com/clusters/one/", "https://k8s.example.com/clusters/one"),
        ("HTTPS://[::1]:6443/?a=b#c", "https://[::1]:6443"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://127.0.0.9:8001", "http://127.0.0.9:8001"),
        ("http://[::1]:8001", "http://[::1]:8001"),
    ],
)
def test_servers_urls_are_cleaned(home: KubeconfigFolder, url: str, read: str) -> None:
    home.cluster["server"] = url

    assert home.read().server == read


def test_proxy_is_read_and_not_shown(home: KubeconfigFolder) -> None:
    home.cluster["proxy-url"] = "https://proxy.example.com:3128"

    assert home.read().proxy == "https://proxy.example.com:3128"


def test_insecure_options_are_accepted_when_allowed(home: KubeconfigFolder) -> None:
    home.cluster = {"server": "http://192.0.2.1:8080", "insecure-skip-tls-verify": True}
    home.options = {"allow_insecure": True}

    access = home.read()

    assert (access.server, access.verify) == ("http://192.0.2.1:8080", False)


def test_access_hides_its_secrets(home: KubeconfigFolder) -> None:
    home.user |= {"client-key-data": encoded(home.alice.key), "client-certificate": home.alice.cert.name}

    shown = repr(home.read())

    assert SECRET not in shown
    assert "PRIVATE KEY" not in shown


def test_first_of_several_files_wins_whole_entries(home: KubeconfigFolder) -> None:
    """As in client-go: an entry of the second file is dropped, even what the first one's has no word of."""
    folder = home.folder / "second"
    folder.mkdir()
    (folder / "other.pem").write_bytes(home.authority.pem.read_bytes())
    second = {
        "current-context": "second",
        "contexts": [{"name": "second", "context": {"cluster": "staging", "user": "alice"}}],
        "clusters": [
            {"name": "prod", "cluster": {"server": "https://wrong", "tls-server-name": "wrong"}},
            {"name": "staging", "cluster": {"server": "https://staging", "certificate-authority": "other.pem"}},
        ],
        "users": [],
    }
    (folder / "config").write_text(json.dumps(second))
    missing, empty = home.folder / "missing", home.folder / "empty"
    empty.touch()
    files = [missing, empty, home.write(), home.path, folder / "config"]
    home.environment = {"KUBECONFIG": os.pathsep.join(["", *map(str, files)])}

    first = read_access(surroundings=home.surroundings())
    staging = read_access(context="second", surroundings=home.surroundings())

    assert (first.server, first.tls_server_name) == ("https://10.0.0.1:6443", "")
    assert (staging.server, staging.ca) == ("https://staging", home.authority.pem.read_bytes())


def test_named_kubeconfig_outranks_the_variable(home: KubeconfigFolder) -> None:
    home.environment = {"KUBECONFIG": "/does/not/exist"}

    assert home.read().server == "https://10.0.0.1:6443"


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_kubeconfig_that_all_may_read_is_logged(
    home: KubeconfigFolder, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    home.write().chmod(mode)

    home.read()

    logged = [record for record in caplog.records if record.getMessage().startswith("kubeconfig_open_to_all ")]
    assert len(logged) == (mode == 0o644)
    assert SECRET not in caplog.text


def test_other_credentials_outrank_a_plugin(home: KubeconfigFolder, caplog: pytest.LogCaptureFixture) -> None:
    token = home.user
    home.with_exec()
    home.user |= token
    caplog.set_level(logging.WARNING)

    home.read()

    assert "kubeconfig_exec_ignored" in caplog.text
