"""Access with the service account of the pod that this process runs in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apiserver.kubeconfigs import SECRET, KubeconfigFolder, kubeconfig_folder
from wharfinger.apiserver.credentials import Access
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.errors import ConfigurationError, UpstreamDenied


@pytest.fixture
def pod(tmp_path: Path) -> KubeconfigFolder:
    """A pod's environment and service account; no kubeconfig is written."""
    home = kubeconfig_folder(tmp_path)
    mounted = tmp_path / "serviceaccount"
    mounted.mkdir()
    (mounted / "token").write_text(f"{SECRET}-token")
    (mounted / "ca.crt").write_bytes(home.authority.pem.read_bytes())
    (mounted / "namespace").write_text("kube-system")
    home.environment = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    return home


def account(pod: KubeconfigFolder) -> Path:
    return pod.folder / "serviceaccount"


def access(pod: KubeconfigFolder, **options: str) -> Access:
    return read_access(surroundings=pod.surroundings(), **options)


async def test_service_account_is_read(pod: KubeconfigFolder) -> None:
    found = access(pod)

    assert (found.server, found.namespace, found.verify) == ("https://10.96.0.1:443", "kube-system", True)
    assert found.ca == pod.authority.pem.read_bytes()
    assert (await found.credentials.current()).token == f"{SECRET}-token"


def test_ipv6_address_is_put_in_brackets(pod: KubeconfigFolder) -> None:
    pod.environment["KUBERNETES_SERVICE_HOST"] = "fd00::1"

    assert access(pod).server == "https://[fd00::1]:443"


def test_namespace_may_be_missing(pod: KubeconfigFolder) -> None:
    (account(pod) / "namespace").unlink()

    assert access(pod).namespace == ""


async def test_token_is_read_again_each_minute(pod: KubeconfigFolder) -> None:
    credentials = access(pod).credentials
    await credentials.current()
    (account(pod) / "token").write_text("new")

    pod.clock.advance(60)

    assert (await credentials.current()).token == "new"


def test_master_replaces_the_address(pod: KubeconfigFolder) -> None:
    assert access(pod, master="https://apiserver").server == "https://apiserver"


def test_token_is_not_sent_to_a_plain_master(pod: KubeconfigFolder) -> None:
    with pytest.raises(ConfigurationError, match="--master: credentials would be sent over plain http"):
        access(pod, master="http://apiserver:8080")


def test_kubeconfig_outranks_the_service_account(pod: KubeconfigFolder) -> None:
    pod.environment["KUBECONFIG"] = str(pod.write())

    assert access(pod).server == "https://10.0.0.1:6443"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            lambda folder: (folder / "token").unlink(),
            "token: file .*token does not exist.*automountServiceAccountToken",
        ),
        (lambda folder: (folder / "token").write_text(" \n"), "token: file .*token is empty"),
        (lambda folder: (folder / "token").write_text("a b"), "token: file .*token has no bearer token"),
        (lambda folder: (folder / "ca.crt").unlink(), r"ca\.crt: file .*ca.crt does not exist.*kube-root-ca\.crt"),
        (lambda folder: (folder / "ca.crt").write_text("x"), r"ca\.crt: file .*ca.crt has no PEM certificate; it must"),
    ],
    ids=["no token", "empty token", "two words", "no authority", "authority is no PEM"],
)
def test_wrong_service_account_is_named(pod: KubeconfigFolder, spoil: Callable[[Path], object], says: str) -> None:
    spoil(account(pod))

    with pytest.raises(ConfigurationError, match=f"^service account, {says}") as caught:
        access(pod)
    assert str(caught.value).isprintable()


def test_environment_that_is_no_address_is_named(pod: KubeconfigFolder) -> None:
    pod.environment["KUBERNETES_SERVICE_PORT"] = "tcp://10.96.0.1:443"

    with pytest.raises(ConfigurationError, match="KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: must be a URL"):
        access(pod)


async def test_lost_token_is_named_when_it_is_needed(pod: KubeconfigFolder) -> None:
    credentials = access(pod).credentials
    (account(pod) / "token").unlink()
    credentials.refused()

    with pytest.raises(UpstreamDenied, match=r"^service account, token: file .* does not exist"):
        await credentials.current()
