"""The build id: one of each set of files, however they are installed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from wharfinger.process.build import build_id, digest, release


@pytest.fixture
def package(tmp_path: Path) -> Path:
    made = tmp_path / "package"
    (made / "rooms").mkdir(parents=True)
    (made / "rooms" / "door.py").write_text("OPEN = True\n")
    (made / "fields.json").write_text("{}\n")
    return made


def test_build_id_is_the_release_and_a_digest() -> None:
    assert re.fullmatch(re.escape(release()) + r"\+[0-9a-f]{12}", build_id())


def test_copies_and_trees_of_links_have_the_digest_of_their_files(package: Path, tmp_path: Path) -> None:
    copy, links = tmp_path / "copy", tmp_path / "links"
    shutil.copytree(package, copy)
    links.mkdir()
    (links / "fields.json").symlink_to(package / "fields.json")
    (links / "rooms").symlink_to(package / "rooms")

    assert digest(copy) == digest(links) == digest(package)


def test_compiled_modules_are_left_out(package: Path) -> None:
    before = digest(package)
    (package / "rooms" / "__pycache__").mkdir()
    (package / "rooms" / "__pycache__" / "door.cpython-311.pyc").write_bytes(b"compiled")

    assert digest(package) == before


@pytest.mark.parametrize(
    ("file", "content"),
    [("rooms/door.py", "OPEN = False\n"), ("fields.json", "[]\n"), ("rooms/new.py", "")],
    ids=["changed code", "changed data", "a new empty file"],
)
def test_any_other_file_changes_the_digest(package: Path, file: str, content: str) -> None:
    before = digest(package)
    (package / file).write_text(content)

    assert digest(package) != before


def test_a_renamed_file_and_a_moved_boundary_change_the_digest(package: Path) -> None:
    (package / "a").write_text("xy")
    (package / "b").write_text("z")
    before = digest(package)
    (package / "a").write_text("x")
    (package / "b").write_text("yz")
    moved = digest(package)
    (package / "b").rename(package / "c")

    assert len({before, moved, digest(package)}) == 3
