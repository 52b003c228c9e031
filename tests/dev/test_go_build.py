"""Building programs with the real Go, from a module without dependencies."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from wharfinger.dev import go_build
from wharfinger.dev.progress import Lines

pytestmark = pytest.mark.servers  # the guard of the marker counts Go as a server
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="no Go on the PATH")
MAIN = 'package main\n\nvar version = "unknown"\n\nfunc main() { println(version) }\n'


def module(folder: Path, **mains: str) -> Path:
    """A module `example` whose package `cmd/<name>` is a program; `_` in a name stands for `/`."""
    folder.mkdir()
    (folder / "go.mod").write_text("module example\n\ngo 1.21\n")
    for name, text in mains.items():
        package = folder / "cmd" / name.replace("_", "/")
        package.mkdir(parents=True)
        (package / "main.go").write_text(text)
    return folder


def printed(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stderr.strip()


@needs_go
def test_programs_of_one_module_are_built_together_and_stamped(tmp_path: Path) -> None:
    source = module(tmp_path / "source", server=MAIN, tool_v3=MAIN)
    built = tmp_path / "built"
    built.mkdir()
    lines: list[str] = []
    packages = ["example/cmd/server", "example/cmd/tool/v3"]

    reason = go_build.build(packages, source, built, Lines(lines.append), variables={"main.version": "v1.36.2"})

    assert reason == ""
    assert sorted(path.name for path in built.iterdir()) == [go_build.file_of(one) for one in packages]
    assert [printed(built / go_build.file_of(one)) for one in packages] == ["v1.36.2", "v1.36.2"]
    assert len([line for line in lines if line.startswith("building source")]) == 1


@needs_go
def test_program_without_variables_keeps_what_its_source_says(tmp_path: Path) -> None:
    source = module(tmp_path / "source", server=MAIN)

    assert go_build.build(["example/cmd/server"], source, tmp_path, Lines(lambda _: None)) == ""

    assert printed(tmp_path / "server") == "unknown"


@needs_go
def test_tags_choose_files(tmp_path: Path) -> None:
    source = module(tmp_path / "source", server=MAIN)
    (source / "cmd/server/other.go").write_text(
        '//go:build other\n\npackage main\n\nfunc init() { version = "other" }\n'
    )

    assert go_build.build(["example/cmd/server"], source, tmp_path, Lines(lambda _: None), tags="other") == ""

    assert printed(tmp_path / "server") == "other"


@needs_go
def test_failed_build_answers_with_what_go_printed_last(tmp_path: Path) -> None:
    source = module(tmp_path / "source", server="package main\n\nfunc main() { absent() }\n")

    assert "undefined: absent" in go_build.build(["example/cmd/server"], source, tmp_path, Lines(lambda _: None))


@needs_go
def test_package_that_does_not_exist_is_named(tmp_path: Path) -> None:
    source = module(tmp_path / "source", server=MAIN)

    assert "example/cmd/other" in go_build.build(["example/cmd/other"], source, tmp_path, Lines(lambda _: None))


def test_machine_without_go_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert go_build.build(["example"], tmp_path, tmp_path, Lines(lambda _: None)) == "no Go on the PATH"
