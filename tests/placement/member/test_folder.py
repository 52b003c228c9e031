"""The folder of members: what is read, and what is refused before anything is opened."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from wharfinger.errors import InvalidConfiguration, UsageError
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.placement.member.folder import members_in, read_folder


def put(folder: Path, name: str, text: str, mode: int = 0o400) -> None:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)


def test_a_file_says_how_its_member_is_reached(tmp_path: Path) -> None:
    put(tmp_path, "secret", "hush")
    put(tmp_path, "east.yaml", "etcd: [https://a:1/, https://b:2]\nuser: me\npasswordFile: secret\nformat: rk8s\n")
    put(tmp_path, "west.yaml", '{"etcd": ["http://c:3"], "protocol": "grpc"}')
    put(tmp_path, "notes.txt", "no member", 0o644)
    found = members_in(tmp_path)
    assert list(found) == ["east", "west"]
    assert found["east"].etcd.endpoints == ("https://a:1", "https://b:2")
    assert (found["east"].etcd.user, found["east"].etcd.password_file) == ("me", tmp_path / "secret")
    assert found["east"].format is ClusterFormat.RK8S
    assert found["west"].etcd.protocol == "grpc"


def test_a_member_in_a_network_of_ones_own_may_get_its_password_plainly(tmp_path: Path) -> None:
    put(tmp_path, "secret", "hush")
    put(tmp_path, "east.yaml", "etcd: [http://a:1]\nuser: me\npasswordFile: secret\nallowInsecure: true\n")
    assert members_in(tmp_path)["east"].etcd.allow_insecure


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "etcd: is missing"),
        ("etcd: [a:1]", "etcd[0]: is no URL"),
        ("etcd: ['http://a:x']", "etcd[0]: is no URL"),
        ("etcd: ['http://a:1/path']", "etcd[0]: is no URL"),
        ("etcd: ['https://me:hush@a:1']", "etcd[0]: has a user in it"),
        ("etcd: ['http://a:1']\nca: east.yaml", "etcd[0]: is plain"),
        ("etcd: ['https://a:1']\nca: east.yaml", "ca: "),
        ("etcd: ['https://a:1']\ncert: east.yaml\nkey: east.yaml", "key: "),
        ("etcd: ['https://a:1']\nuser: me\npasswordFile: bytes", "is no UTF-8 text"),
        ("etcd: [http://a:1]\nuser: me", "passwordFile: is missing"),
        ("etcd: [http://a:1]\nuser: me\npasswordFile: bytes", "etcd[0]: is plain, so the password would be sent"),
        ("etcd: [http://a:1]\nca: none.pem", "ca: there is no file"),
        ("etcd: [http://a:1]\nkey: east.yaml", "cert: is missing"),
        ("etcd: [http://a:1]\npassword: hush", "password"),
        ("[]", "is not a mapping"),
        ("{", "is "),
    ],
)
def test_mistakes_are_told_with_the_file(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff")
    (tmp_path / "bytes").chmod(0o400)
    put(tmp_path, "east.yaml", text)
    with pytest.raises(InvalidConfiguration) as refused:
        members_in(tmp_path)
    assert any(problem.startswith("east.yaml") and told in problem for problem in refused.value.problems)
    assert "hush" not in str(refused.value)


def test_what_others_may_read_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "secret", "hush", 0o644)
    put(tmp_path, "east.yaml", "etcd: [http://a:1]", 0o440)
    put(tmp_path, "west.yaml", "etcd: [https://a:1]\nuser: me\npasswordFile: secret")
    with pytest.raises(InvalidConfiguration) as refused:
        members_in(tmp_path)
    assert [problem.partition(":")[2].strip() for problem in refused.value.problems] == [
        "east.yaml may be read by others (mode 0440): chmod 0400 east.yaml",
        "secret may be read by others (mode 0644): chmod 0400 secret",
    ]


def test_a_name_that_is_none_and_a_folder_that_is_none_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "East_1.yaml", "etcd: [http://a:1]")
    with pytest.raises(InvalidConfiguration, match="no name of a member"):
        members_in(tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        members_in(tmp_path / "nothing")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize(("mode", "taken"), [(0o440, True), (0o444, False), (0o460, False)])
def test_file_of_a_secret_may_be_read_by_the_group_of_the_pod(mode: int, taken: bool) -> None:
    """A pod's Secret is root's, and the pod's `fsGroup` reads it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        file = folder / "east.yaml"
        file.write_text("etcd: [http://127.0.0.1:1]")
        os.chown(file, 0, 20001)
        file.chmod(mode)
        read, written = os.pipe()
        if (child := os.fork()) == 0:
            os.setgroups([20001])
            os.setgid(10001)
            os.setuid(10001)
            os.write(written, b"1" if "east" in read_folder(folder).members else b"0")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 1) == (b"1" if taken else b"0")
