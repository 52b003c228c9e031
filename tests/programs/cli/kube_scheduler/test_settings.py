"""What flags come to: the configuration, the connection, the Lease, and how the pages are served."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.etcd.certificates import Authority
from tests.programs.cli.kube_scheduler.command_lines import parsed
from wharfinger.errors import UsageError
from wharfinger.framework.profiles import load_configuration
from wharfinger.programs.cli.settings import (
    kubernetes_settings,
    reviewing_kubeconfig,
    serving_options,
    with_flags,
    worker_settings,
)
from wharfinger.serving.listening import open_sockets
from wharfinger.serving.options import ServingOptions
from wharfinger.settings import KubernetesSettings, WorkerSettings


def kubernetes(*arguments: str, document: dict[str, Any] | None = None) -> KubernetesSettings:
    flags = parsed(*arguments)
    configured = load_configuration(with_flags(document or {}, flags))
    return kubernetes_settings(configured.configuration, flags, events="all", allow_insecure=False)


def serving(*arguments: str) -> ServingOptions:
    return serving_options(parsed(*arguments))


# --- the API ----------------------------------------------------------------------------------------


def test_usual_values_are_kube_schedulers() -> None:
    found = kubernetes()

    assert (found.kubeconfig, found.master, found.qps, found.burst) == (None, "", 50.0, 100)
    election = found.election
    assert election.enabled
    assert (election.name, election.namespace) == ("kube-scheduler", "kube-system")
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (15.0, 10.0, 2.0)


def test_connection_flags_count_without_a_configuration() -> None:
    found = kubernetes("--kubeconfig=/a", "--master=https://b:6443", "--kube-api-qps=-1", "--kube-api-burst=9")

    assert (found.kubeconfig, found.master) == (Path("/a"), "https://b:6443")
    assert (found.qps, found.burst) == (-1.0, 9)


def test_configuration_outranks_connection_flags_but_not_the_master() -> None:
    file = {"clientConnection": {"kubeconfig": "/file", "qps": 5}}
    arguments = ("--config=/c", "--kubeconfig=/flag", "--kube-api-qps=9", "--kube-api-burst=9", "--master=https://m")

    found = kubernetes(*arguments, document=file)

    assert (found.kubeconfig, found.qps, found.burst, found.master) == (Path("/file"), 5.0, 100, "https://m")


def test_configuration_without_a_kubeconfig_means_the_service_account() -> None:
    assert kubernetes("--config=/c", "--kubeconfig=/flag").kubeconfig is None


def test_election_flags_outrank_the_configuration_where_they_are_written() -> None:
    file = {"leaderElection": {"leaderElect": False, "resourceName": "file", "retryPeriod": "3s"}}
    arguments = (
        "--config=/c", "--leader-elect", "--leader-elect-lease-duration=40s", "--leader-elect-renew-deadline=30s",
        "--leader-elect-resource-namespace=ns",
    )  # fmt: skip

    election = kubernetes(*arguments, document=file).election

    assert election.enabled
    assert (election.name, election.namespace) == ("file", "ns")
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (40.0, 30.0, 3.0)


def test_without_election_its_durations_do_not_count() -> None:
    assert not kubernetes("--leader-elect=false", "--leader-elect-lease-duration=1s").election.enabled


def test_lease_that_is_too_short_for_a_holder_that_is_cut_off_is_refused() -> None:
    with pytest.raises(UsageError, match="leaseDuration 6 s is too short"):
        kubernetes(
            "--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=1s"
        )


def test_right_to_bind_ends_before_a_shorter_lease_does() -> None:
    short = ("--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=6s")

    assert kubernetes().importer_ttl == KubernetesSettings().importer_ttl
    assert kubernetes(*short).importer_ttl == 4.0


def test_waiting_pods_are_tried_again_after_the_duration() -> None:
    flags = parsed("--pod-max-in-unschedulable-pods-duration=90s", "--bind-address=127.0.0.1")

    found = worker_settings(WorkerSettings(), KubernetesSettings(), serving_options(flags), flags)

    assert found.dispatching.restart_every == 90.0
    assert (found.bind_address, found.health_port) == ("127.0.0.1", 10259)


# --- pages ------------------------------------------------------------------------------------------


def test_pages_are_served_by_tls_on_kube_schedulers_port() -> None:
    found = serving()

    assert (found.address, found.port, found.component) == ("0.0.0.0", 10259, "kube-scheduler")
    assert found.kubernetes
    assert found.tls is not None
    assert not found.open


def test_address_and_port() -> None:
    found = serving("--bind-address=127.0.0.2", "--secure-port=7443", "--permit-port-sharing")

    assert (found.address, found.port, found.share_port) == ("127.0.0.2", 7443, True)


def test_port_0_means_no_pages() -> None:
    assert serving("--secure-port=0").port < 0


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_port_beyond_the_range_is_refused(port: str) -> None:
    with pytest.raises(UsageError, match=rf"--secure-port {port} must be between 0 and 65535"):
        serving(f"--secure-port={port}")


def test_addresses_can_be_taken_again_at_once() -> None:
    """`--permit-address-sharing` asks for what is so anyway."""
    (listening,) = open_sockets("127.0.0.1", 0, dual=False, share_port=False)
    with listening:
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) != 0


def test_port_is_shared_where_it_is_permitted() -> None:
    (first,) = open_sockets("127.0.0.1", 0, dual=False, share_port=True)
    with first:
        (second,) = open_sockets("127.0.0.1", first.getsockname()[1], dual=False, share_port=True)
        second.close()


def test_tls_flags() -> None:
    tls = serving(
        "--tls-cert-file=a", "--tls-private-key-file=b", "--cert-dir=d", "--tls-min-version=VersionTLS13",
        "--tls-cipher-suites=TLS_A,TLS_B", "--tls-sni-cert-key=e,f:x.com",
    ).tls  # fmt: skip

    assert tls is not None
    assert (tls.cert_file, tls.key_file, tls.cert_dir) == (Path("a"), Path("b"), Path("d"))
    assert (tls.min_version, tls.cipher_suites, tls.pair_name) == (
        "VersionTLS13",
        ("TLS_A", "TLS_B"),
        "kube-scheduler",
    )
    assert [(pair.cert_file, pair.key_file, pair.patterns) for pair in tls.sni_pairs] == [
        (Path("e"), Path("f"), ("x.com",))
    ]


def test_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(UsageError, match="--tls-cert-file and --tls-private-key-file belong together"):
        serving("--tls-cert-file=a")


def test_authentication_and_authorization_flags(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca").pem

    found = serving(
        f"--client-ca-file={authority}", "--authentication-token-webhook-cache-ttl=3s",
        "--authorization-always-allow-paths=/healthz,/metrics/*", "--authorization-webhook-cache-authorized-ttl=4s",
        "--authorization-webhook-cache-unauthorized-ttl=5s",
    )  # fmt: skip

    assert (found.authentication.client_ca_file, found.authentication.token_ttl) == (authority, 3.0)
    assert found.authorization.always_allow_paths == ("/healthz", "/metrics/*")
    assert (found.authorization.allowed_ttl, found.authorization.denied_ttl) == (4.0, 5.0)


def test_metrics_flags(tmp_path: Path) -> None:
    manifest = tmp_path / "labels.yaml"
    manifest.write_text('"m,l": "a,b"\n')

    flags = serving("--disabled-metrics=x,y", "--disabled-metrics=z", "--allow-metric-labels=m,l=c").exposition
    file = serving(f"--allow-metric-labels-manifest={manifest}").exposition

    assert flags.disabled == {"x", "y", "z"}
    assert flags.allowed_labels == {("m", "l"): frozenset({"c"})}
    assert file.allowed_labels == {("m", "l"): frozenset({"a", "b"})}


@pytest.mark.parametrize("name", ["authentication-kubeconfig", "authorization-kubeconfig"])
def test_callers_are_reviewed_by_a_kubeconfig_of_their_own(name: str) -> None:
    assert reviewing_kubeconfig(parsed(f"--{name}=/r")) == Path("/r")
    assert reviewing_kubeconfig(parsed()) is None


def test_two_kubeconfigs_for_reviews_are_refused() -> None:
    with pytest.raises(UsageError, match="must be the same file here"):
        reviewing_kubeconfig(parsed("--authentication-kubeconfig=/a", "--authorization-kubeconfig=/b"))
