"""Which certificate clients are shown, and what is refused, by real handshakes on loopback."""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import ssl
import stat
import tempfile
from pathlib import Path

import aiohttp
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.etcd.certificates import Authority, Signed, in_memory_only
from tests.serving.serving import Hand, content, get, serving, trusting
from wharfinger.errors import UsageError
from wharfinger.fleet.agent.instances import asking
from wharfinger.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    ServingOptions,
    SniPair,
    TlsOptions,
    of_process,
)
from wharfinger.serving.server import Server
from wharfinger.serving.tls import TlsContexts


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "servers")


def over(tls: TlsOptions) -> ServingOptions:
    return ServingOptions(tls=tls, open=True)


async def shown(server: Server, name: str | None = None, context: ssl.SSLContext | None = None) -> x509.Certificate:
    """The certificate that a client sees which asks for that name; None = it asks for no name."""
    host, port = server.url.removeprefix("https://").split(":")
    _, writer = await asyncio.open_connection(
        host, int(port), ssl=context if context is not None else trusting(), server_hostname=name or ""
    )
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(der)


def common_name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string().removeprefix("CN=")


async def test_given_pair_is_shown(authority: Authority) -> None:
    pair = authority.sign("server", host="127.0.0.1")
    async with serving(over(TlsOptions(pair.cert, pair.key))) as server:
        assert (await get(server, "/livez", tls=trusting(authority.pem)))[0] == 200


async def test_self_signed_certificate_names_this_machine() -> None:
    async with serving(over(TlsOptions())) as server:
        certificate = await shown(server)

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
    assert certificate.not_valid_after_utc > datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=364)


async def test_self_signed_certificate_can_be_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with serving(over(TlsOptions(cert_dir=folder, pair_name="kube-scheduler"))) as server:
        assert (await get(server, "/livez", tls=trusting(folder / "kube-scheduler.crt")))[0] == 200


async def test_kept_pair_survives_a_restart(tmp_path: Path) -> None:
    options = over(TlsOptions(cert_dir=tmp_path / "run"))
    async with serving(options) as server:
        first = await shown(server)
    async with serving(options) as server:
        second = await shown(server)

    assert first.serial_number == second.serial_number
    assert stat.S_IMODE(os.stat(tmp_path / "run" / "wharfinger.key").st_mode) == 0o600


async def test_self_signed_certificate_is_renewed_before_it_expires() -> None:
    now = [datetime.datetime.now(datetime.UTC)]
    contexts = TlsContexts(over(TlsOptions()), clock=Hand(), utc_now=lambda: now[0])
    first = contexts._contexts
    now[0] += datetime.timedelta(days=334)
    _handshake(contexts)
    kept = contexts._contexts
    now[0] += datetime.timedelta(days=2)
    _handshake(contexts)

    assert kept is first
    assert contexts._contexts is not first


def _handshake(contexts: TlsContexts) -> None:
    """One in memory, as far as the client's first message."""
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting().wrap_bio(theirs, ours, server_hostname="localhost")
    server = contexts.front.wrap_bio(ours, theirs, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.example.com", "exact"),
        ("b.example.com", "wildcard"),
        ("x.b.example.com", "server"),
        ("named.example.org", "named.example.org"),
        ("A.EXAMPLE.com", "exact"),
        (None, "server"),
    ],
)
async def test_server_name_chooses_the_certificate(authority: Authority, name: str | None, expected: str) -> None:
    default, exact, wildcard = (authority.sign(one) for one in ("server", "exact", "wildcard"))
    named = authority.sign("named.example.org", host="named.example.org")
    pairs = (
        SniPair(wildcard.cert, wildcard.key, ("*.example.com",)),
        SniPair(exact.cert, exact.key, ("a.example.com",)),
        SniPair(named.cert, named.key),
    )
    async with serving(over(TlsOptions(default.cert, default.key, pairs))) as server:
        assert common_name(await shown(server, name)) == expected


def put(source: Signed, target: Signed) -> None:
    """Replace the files, as the mount of a secret does."""
    for old, new in ((source.cert, target.cert), (source.key, target.key)):
        copy = new.with_suffix(".new")
        shutil.copy(old, copy)
        copy.replace(new)


async def test_replaced_files_are_served_without_a_restart(authority: Authority) -> None:
    live, other, clock = authority.sign("live"), authority.sign("other"), Hand()
    async with serving(over(TlsOptions(live.cert, live.key)), clock=clock) as server:
        put(other, live)
        before = common_name(await shown(server))
        clock.seconds += 1.0
        after = common_name(await shown(server))
        nameless = common_name(await shown(server, None))

    assert (before, after, nameless) == ("live", "other", "other")


async def test_unusable_files_leave_the_old_certificate(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    live, clock = authority.sign("live"), Hand()
    async with serving(over(TlsOptions(live.cert, live.key)), clock=clock) as server:
        live.cert.write_text("half a file")
        clock.seconds += 1.0
        assert common_name(await shown(server)) == "live"

    assert "serving_certificates_kept" in caplog.text
    assert f"--tls-cert-file: {live.cert}" in caplog.text


async def test_replaced_client_authority_counts_without_a_restart(tmp_path: Path) -> None:
    old, new, clock = Authority(tmp_path, "old"), Authority(tmp_path, "new"), Hand()
    live = tmp_path / "live.pem"
    shutil.copy(old.pem, live)
    async with serving(of_process("127.0.0.1", 0, client_ca_file=live), clock=clock) as server:
        client = trusting(showing=new.sign("prometheus"))
        with pytest.raises(aiohttp.ClientError):
            await get(server, "/metrics", tls=client)
        shutil.copy(new.pem, live)
        clock.seconds += 1.0
        assert (await get(server, "/metrics", tls=client))[0] == 200


async def test_published_authorities_count_once_they_are_known(tmp_path: Path) -> None:
    """kube-scheduler's own default: the cluster says whose client certificates count."""
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    clients = [trusting(showing=one.sign(f"{number}")) for number, one in enumerate((first, second))]
    options = ServingOptions(tls=TlsOptions(), authorization=AuthorizationOptions(any_certificate=True))

    async def codes(server: Server) -> list[int]:
        return [(await get(server, "/metrics", tls=client))[0] for client in clients]

    async with serving(options) as server:
        assert await codes(server) == [401, 401]  # certificates are not asked for
        server.trust(first.pem.read_text())
        assert (await get(server, "/metrics", tls=clients[0]))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await get(server, "/metrics", tls=clients[1])
        server.trust(first.pem.read_text() + second.pem.read_text())
        assert await codes(server) == [200, 200]
        with pytest.raises(UsageError, match="no certificates, as PEM"):
            server.trust("nonsense")
        assert await codes(server) == [200, 200]


async def test_published_authorities_may_have_notes_in_any_script(tmp_path: Path) -> None:
    published = Authority(tmp_path, "published")
    client = trusting(showing=published.sign("alice"))
    options = ServingOptions(tls=TlsOptions(), authorization=AuthorizationOptions(any_certificate=True))

    async with serving(options) as server:
        with pytest.raises(UsageError, match="no certificates, as PEM"):
            server.trust("T\u00fcrk: nothing else")
        server.trust(f"# T\u00fcrk\n{published.pem.read_text()}")
        assert (await get(server, "/metrics", tls=client))[0] == 200


@in_memory_only
async def test_self_signed_certificate_needs_no_folder_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    async with serving(over(TlsOptions())) as server:
        assert (await get(server, "/livez", tls=trusting()))[0] == 200


async def test_older_tls_than_the_options_say_is_refused() -> None:
    old = trusting()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serving(over(TlsOptions(min_version="VersionTLS13"))) as server:
        with pytest.raises(OSError):
            await shown(server, context=old)
        await shown(server)


async def test_only_the_named_suites_are_offered() -> None:
    tls = TlsOptions(cipher_suites=("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"))
    async with serving(over(tls)) as server:
        for suite, works in (("ECDHE-ECDSA-AES256-GCM-SHA384", True), ("ECDHE-ECDSA-AES128-GCM-SHA256", False)):
            context = trusting()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(suite)
            if works:
                await shown(server, context=context)
            else:
                with pytest.raises(OSError):
                    await shown(server, context=context)


async def test_http_2_is_not_offered() -> None:
    context = trusting()
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with serving(over(TlsOptions())) as server:
        host, port = server.url.removeprefix("https://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()
        await writer.wait_closed()


def test_older_minimum_is_raised_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    contexts = TlsContexts(over(TlsOptions(min_version="VersionTLS10")), clock=Hand())

    assert contexts.front.minimum_version is ssl.TLSVersion.TLSv1_2
    assert "tls_min_version_raised asked=VersionTLS10" in caplog.text


def encrypted(pair: Signed) -> Path:
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    path = pair.key.with_suffix(".encrypted")
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        )
    )
    return path


def test_unusable_files_are_one_clear_line(authority: Authority, tmp_path: Path) -> None:
    good, other = authority.sign("good"), authority.sign("other")
    empty = tmp_path / "empty"
    empty.touch()
    cases = [
        (TlsOptions(tmp_path / "no", good.key), f"--tls-cert-file: cannot read {tmp_path}/no"),
        (TlsOptions(good.cert, tmp_path / "no"), f"--tls-private-key-file: cannot read {tmp_path}/no"),
        (TlsOptions(empty, good.key), f"--tls-cert-file: {empty} has no certificate"),
        (TlsOptions(good.cert, empty), f"--tls-private-key-file: {empty} has no private key"),
        (TlsOptions(good.cert, encrypted(good)), "has no private key without a passphrase"),
        (TlsOptions(good.cert, other.key), f"--tls-private-key-file: {other.key} is not the key of"),
        (TlsOptions(sni_pairs=(SniPair(empty, good.key),)), f"--tls-sni-cert-key: {empty} has no certificate"),
        (TlsOptions(cert_dir=empty / "under"), "--cert-dir: cannot write"),
        (TlsOptions(min_version="TLS1.2"), "--tls-min-version: 'TLS1.2' is no version"),
        (TlsOptions(cipher_suites=("TLS_RSA_WITH_RC4_128_SHA",)), "--tls-cipher-suites: TLS_RSA_WITH_RC4_128_SHA"),
    ]
    for tls, line in cases:
        with pytest.raises(UsageError) as caught:
            Server(over(tls), content())
        assert line in str(caught.value)
        assert "\n" not in str(caught.value)


def test_unusable_client_authority_is_one_clear_line(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for path, line in ((empty, "has no certificates"), (tmp_path / "no", "cannot read")):
        with pytest.raises(UsageError, match=f"--client-ca-file.*{line}"):
            Server(of_process("127.0.0.1", 0, client_ca_file=path), content())


async def test_agent_probes_instances_that_signed_their_own_certificate(tmp_path: Path) -> None:
    async with serving(over(TlsOptions())) as server, aiohttp.ClientSession() as session:
        assert await asking(session, 5.0)(f"{server.url}/livez") == ""


def test_client_certificates_are_read_on_uvloop_too(authority: Authority) -> None:
    """Processes run on uvloop, whose TLS is its own."""
    master = authority.sign("admin", organizations=["system:masters"])
    options = ServingOptions(
        tls=TlsOptions(),
        authentication=AuthenticationOptions(authority.pem),
        authorization=AuthorizationOptions(),
    )

    async def ask() -> list[int]:
        async with serving(options) as server:
            clients = trusting(showing=master), trusting()
            return [(await get(server, "/metrics", tls=client))[0] for client in clients]

    assert uvloop.run(ask()) == [200, 401]
