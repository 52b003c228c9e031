"""TLS contexts: whom they trust, what they show, and certificates' dates. Handshakes are done in memory."""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path

import pytest

from tests.apiserver.kubeconfigs import KubeconfigFolder, kubeconfig_folder
from tests.etcd.certificates import Authority, Signed, in_memory_only
from wharfinger.apiserver import tls
from wharfinger.apiserver.credentials import Access, ApiIdentity
from wharfinger.apiserver.tls import check_authorities
from wharfinger.errors import ConfigurationError, UpstreamDenied

NAME = "apiserver.example.com"


@pytest.fixture
def home(tmp_path: Path) -> KubeconfigFolder:
    return kubeconfig_folder(tmp_path)


def access(home: KubeconfigFolder, *, ca: bytes | None = None, verify: bool = True) -> Access:
    authorities = home.authority.pem.read_bytes() if ca is None else ca
    return Access("https://x", home.read().credentials, authorities, verify)


def handshake(client: ssl.SSLContext, server: Signed, trusted: Path, *, name: str = NAME) -> ssl.SSLObject:
    """The server's side of a connection, after a byte has gone each way. Raises what either side refuses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    context.load_verify_locations(trusted)
    context.verify_mode = ssl.CERT_OPTIONAL
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(down, up, server_hostname=name)
    theirs = context.wrap_bio(up, down, server_side=True)
    waiting = [ours.do_handshake, theirs.do_handshake]
    for _ in range(10):
        for step in list(waiting):
            try:
                step()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(step)
    assert not waiting
    return theirs


def test_server_of_the_authority_is_trusted(home: KubeconfigFolder) -> None:
    server = home.authority.sign("server", host=NAME)

    theirs = handshake(tls.context(access(home), ApiIdentity()), server, home.authority.pem)

    assert theirs.version() == "TLSv1.3"
    assert theirs.getpeercert() is None


def test_client_certificate_is_shown(home: KubeconfigFolder) -> None:
    server = home.authority.sign("server", host=NAME)
    identity = ApiIdentity(certificate=home.alice.cert.read_bytes(), key=home.alice.key.read_bytes())

    theirs = handshake(tls.context(access(home), identity), server, home.authority.pem)

    shown = theirs.getpeercert()
    assert shown is not None
    assert shown["subject"] == ((("commonName", "alice"),),)


def test_server_of_another_authority_is_refused(home: KubeconfigFolder) -> None:
    other = Authority(home.folder, "other")

    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls.context(access(home), ApiIdentity()), other.sign("server", host=NAME), other.pem)


@pytest.mark.parametrize("host", ["other.example.com", None])
def test_server_without_the_alternative_name_is_refused(home: KubeconfigFolder, host: str | None) -> None:
    """The common name does not count, as in Go."""
    server = home.authority.sign(NAME, host=host)

    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls.context(access(home), ApiIdentity()), server, home.authority.pem)


def test_authority_that_is_not_self_signed_is_trusted(home: KubeconfigFolder) -> None:
    server = home.authority.sign("server", host=NAME)

    handshake(tls.context(access(home, ca=server.cert.read_bytes()), ApiIdentity()), server, home.authority.pem)


def test_text_around_authorities_is_skipped(home: KubeconfigFolder) -> None:
    server = home.authority.sign("server", host=NAME)
    ca = "Tür\n".encode() + Authority(home.folder, "other").pem.read_bytes() + home.authority.pem.read_bytes()
    check_authorities(ca)

    handshake(tls.context(access(home, ca=ca), ApiIdentity()), server, home.authority.pem)


def test_unverified_server_may_be_any(home: KubeconfigFolder) -> None:
    other = Authority(home.folder, "other")

    handshake(tls.context(access(home, verify=False), ApiIdentity()), other.sign("server"), other.pem)


def test_old_versions_of_tls_are_refused(home: KubeconfigFolder) -> None:
    server = home.authority.sign("server", host=NAME)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.load_cert_chain(server.cert, server.key)
    made = tls.context(access(home), ApiIdentity())

    assert made.minimum_version == ssl.TLSVersion.TLSv1_2
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = made.wrap_bio(down, up, server_hostname=NAME), old.wrap_bio(up, down, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        ours.do_handshake()
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol|version|no shared"):
        theirs.do_handshake()


def test_context_is_kept_while_the_certificate_is_the_same(home: KubeconfigFolder) -> None:
    to = access(home)
    first = tls.context(to, ApiIdentity(token="a"))
    alice = ApiIdentity(certificate=home.alice.cert.read_bytes(), key=home.alice.key.read_bytes())

    assert tls.context(to, ApiIdentity(token="b")) is first
    assert tls.context(to, alice) is not first
    assert tls.context(access(home, verify=False), ApiIdentity()) is not first


def test_system_authorities_are_trusted_where_none_is_named(
    home: KubeconfigFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = home.authority.sign("server", host=NAME)
    monkeypatch.setenv("SSL_CERT_FILE", str(home.authority.pem))

    handshake(tls.context(access(home, ca=b""), ApiIdentity()), server, home.authority.pem)


def test_unusable_certificate_is_denied(home: KubeconfigFolder) -> None:
    bob = home.authority.sign("bob")
    mixed = ApiIdentity(certificate=home.alice.cert.read_bytes(), key=bob.key.read_bytes())

    with pytest.raises(UpstreamDenied, match="client certificate for https://x does not fit its key"):
        tls.context(access(home), mixed)


@pytest.mark.parametrize("in_memory", [pytest.param(True, marks=in_memory_only), False])
def test_keys_leave_no_file(home: KubeconfigFolder, monkeypatch: pytest.MonkeyPatch, in_memory: bool) -> None:
    scratch = home.folder / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    if not in_memory:
        monkeypatch.delattr("os.memfd_create", raising=False)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    tls.load_pair(context, home.alice.cert.read_bytes(), home.alice.key.read_bytes())
    with pytest.raises(ConfigurationError):
        tls.load_pair(context, home.alice.cert.read_bytes(), b"")

    assert list(scratch.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


def test_keys_without_memory_or_folder_are_reported(home: KubeconfigFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(home.folder / "missing"))
    monkeypatch.delattr("os.memfd_create", raising=False)

    with pytest.raises(ConfigurationError, match="cannot be given to OpenSSL: No such file"):
        tls.load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), b"", b"")
