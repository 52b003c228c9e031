"""What options come to before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving.serving import Hand
from wharfinger.errors import UsageError
from wharfinger.serving.access import Caller, KeyedHash, StaticTokens, bearer_token
from wharfinger.serving.options import (
    AuthorizationOptions,
    ServingOptions,
    SniPair,
    TlsOptions,
    is_loopback,
    of_process,
    sni_pair,
)

FILE = Path("file")


@pytest.mark.parametrize(
    ("address", "given", "tls", "open_"),
    [
        ("127.0.0.1", {}, False, True),
        ("::1", {}, False, True),
        ("localhost", {}, False, True),
        ("0.0.0.0", {}, False, False),
        ("10.0.0.7", {}, False, False),
        ("0.0.0.0", {"metrics_open": True}, False, True),
        ("127.0.0.1", {"cert_file": FILE, "key_file": FILE}, True, False),
        ("0.0.0.0", {"static_token_file": FILE}, True, False),
        ("0.0.0.0", {"client_ca_file": FILE}, True, False),
        ("0.0.0.0", {"cert_file": FILE, "key_file": FILE, "metrics_open": True}, True, True),
    ],
)
def test_how_a_process_is_served(address: str, given: dict[str, Path], tls: bool, open_: bool) -> None:
    options: ServingOptions = of_process(address, 0, **given)  # type: ignore[arg-type]

    assert (options.tls is not None, options.open) == (tls, open_)


@pytest.mark.parametrize("pair", [(FILE, None), (None, FILE)])
def test_certificate_and_key_belong_together(pair: tuple[Path | None, Path | None]) -> None:
    with pytest.raises(UsageError, match="--tls-cert-file and --tls-private-key-file belong together"):
        TlsOptions(*pair)


def test_loopback_is_known_by_its_address() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "", "10.0.0.1", "example.com")))


def test_sni_pairs_are_read_as_kube_scheduler_reads_them() -> None:
    assert sni_pair("a.crt,a.key") == SniPair(Path("a.crt"), Path("a.key"))
    assert sni_pair("a.crt,a.key:*.Foo.com,foo.com") == SniPair(Path("a.crt"), Path("a.key"), ("*.foo.com", "foo.com"))
    for wrong in ("", "a.crt", "a.crt,", "a,b,c", "a,b:", "a,b:x.*.com"):
        with pytest.raises(UsageError, match="--tls-sni-cert-key"):
            sni_pair(wrong)


def test_open_paths_may_end_with_a_star() -> None:
    options = AuthorizationOptions(always_allow_paths=("/metrics", "debug/*", "/"))

    assert [
        path for path in ("/", "/metrics", "/metrics/slis", "/debug/x", "/debug", "/livez") if options.opens(path)
    ] == [
        "/",
        "/metrics",
        "/debug/x",
    ]
    with pytest.raises(UsageError, match="--authorization-always-allow-paths"):
        AuthorizationOptions(always_allow_paths=("/a*b",))


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("bearer abc", "abc"), ("Bearer  abc", ""), ("Bearer", ""), ("Basic abc", ""), ("", "")],
)
def test_bearer_token_of_a_header(header: str, token: str) -> None:
    assert bearer_token(header) == token


def tokens(path: Path, text: str, clock: Hand | None = None) -> StaticTokens:
    path.write_text(text)
    return StaticTokens(path, KeyedHash(), clock if clock is not None else Hand())


def test_token_file_names_users_and_groups(tmp_path: Path) -> None:
    found = tokens(tmp_path / "t", 'abc,alice,1,"g1,g2"\n\ndef,bob,2\n')

    assert found.find("abc") == Caller("alice", "1", ("g1", "g2", "system:authenticated"), by_token_file=True)
    assert found.find("def") == Caller("bob", "2", ("system:authenticated",), by_token_file=True)
    assert found.find("ab") is None
    assert found.find("") is None


@pytest.mark.parametrize("text", ["abc,alice\n", "s3cret\n", ",alice,1\n", "s3cret,,1\n"])
def test_wrong_token_file_is_one_line_without_its_tokens(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="--static-token-file: entry 1 of") as caught:
        tokens(tmp_path / "t", text)

    assert "s3cret" not in str(caught.value)


def test_replaced_token_file_counts_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "t", Hand()
    found = tokens(path, "old,alice,1\n", clock)
    path.write_text("newer,alice,1\n")
    clock.seconds += 1.0
    assert (found.find("old"), found.find("newer") is not None) == (None, True)

    path.write_text("s3cret\n")
    clock.seconds += 1.0
    assert found.find("newer") is not None
    assert "static_tokens_kept" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o640, False), (0o600, False)])
def test_a_file_of_tokens_that_everybody_can_read_is_warned_of(
    tmp_path: Path, mode: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tokens.csv"
    file.touch(mode=mode)
    file.chmod(mode)

    tokens(file, "secret-token,prometheus,1")

    assert ("static_tokens_open_to_all" in caplog.text) is warned
    assert "secret-token" not in caplog.text
