"""Tokens and certificates in files: when they are read again, and what is said of spoilt ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apiserver.kubeconfigs import SECRET, KubeconfigFolder, kubeconfig_folder
from wharfinger.errors import UpstreamDenied


@pytest.fixture
def home(tmp_path: Path) -> KubeconfigFolder:
    return kubeconfig_folder(tmp_path)


async def test_token_file_is_read_again_each_minute(home: KubeconfigFolder) -> None:
    home.user = {"tokenFile": "token", "token": f"{SECRET}-in-place"}
    credentials = home.read().credentials
    assert (await credentials.current()).token == f"{SECRET}-file"
    (home.folder / "token").write_text("new\n")

    home.clock.advance(59)
    assert (await credentials.current()).token == f"{SECRET}-file"
    home.clock.advance(1)

    assert (await credentials.current()).token == "new"


async def test_token_file_is_read_again_after_a_refusal(home: KubeconfigFolder) -> None:
    home.user = {"tokenFile": "token"}
    credentials = home.read().credentials
    (home.folder / "token").write_text("new\n")

    credentials.refused()

    assert (await credentials.current()).token == "new"


async def test_token_in_place_is_used_until_the_file_is_there(home: KubeconfigFolder) -> None:
    home.user = {"tokenFile": "late", "token": f"{SECRET}-in-place"}
    credentials = home.read().credentials
    assert (await credentials.current()).token == f"{SECRET}-in-place"
    (home.folder / "late").write_text("late\n")

    home.clock.advance(60)

    assert (await credentials.current()).token == "late"


async def test_certificate_files_are_read_again(home: KubeconfigFolder) -> None:
    home.with_certificate()
    credentials = home.read().credentials
    before = await credentials.current()
    home.authority.sign("alice")  # writes the files anew

    home.clock.advance(60)

    after = await credentials.current()
    assert after.certificate == home.alice.cert.read_bytes() != before.certificate
    assert after.key == home.alice.key.read_bytes()


Damage = Callable[[KubeconfigFolder], object]


@pytest.mark.parametrize(
    ("user", "damage", "says"),
    [
        (
            {"tokenFile": "token"},
            lambda home: (home.folder / "token").unlink(),
            "tokenFile: file .*token does not exist",
        ),
        (
            {"tokenFile": "token"},
            lambda home: (home.folder / "token").write_text(""),
            "tokenFile: file .*token is empty",
        ),
        (
            {"client-certificate": "alice.crt", "client-key": "alice.key"},
            lambda home: home.authority.sign("bob").key.rename(home.alice.key),
            "client-certificate: file .*alice.crt does not fit its key",
        ),
        (
            {"client-certificate": "alice.crt", "client-key": "alice.key"},
            lambda home: home.now.advance(7200),
            "client-certificate: file .*alice.crt expired on ",
        ),
    ],
    ids=["gone", "empty", "key of another", "expired"],
)
async def test_spoilt_file_is_named_when_it_is_needed(
    home: KubeconfigFolder, user: dict[str, str], damage: Damage, says: str
) -> None:
    home.user = user
    credentials = home.read().credentials
    damage(home)
    credentials.refused()

    with pytest.raises(UpstreamDenied, match=rf'^kubeconfig {home.path}, user "alice", {says}') as caught:
        await credentials.current()
    assert str(caught.value).isprintable()
    assert SECRET not in str(caught.value)


async def test_certificate_in_place_ends_at_its_date(home: KubeconfigFolder) -> None:
    home.with_certificate()
    credentials = home.read().credentials
    await credentials.current()

    home.now.advance(7200)

    with pytest.raises(UpstreamDenied, match="expired on"):
        await credentials.current()
