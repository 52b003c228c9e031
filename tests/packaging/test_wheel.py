"""What is shipped: every file of the package, the pinned modules, the example's data; and that it starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from wharfinger.process.build import build_id

pytest.importorskip("setuptools", minversion="77", reason="`make setup` installs it")

pytestmark = pytest.mark.long  # seconds of pip; imports of a package that is not listed fail in `make check` too

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {"src/wharfinger": "wharfinger", "workflows": "wharfinger/workflows", "activities": "wharfinger/activities"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is shipped: what earlier builds left in the checkout must not slip in."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    for name in ("src", "workflows", "activities", "tools", "examples", "deploy"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    target = tmp_path_factory.mktemp("wheel")
    pip(["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(checkout)])
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed into a folder of its own, away from the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    pip(["install", "--no-deps", "--no-compile", "--target", str(folder), str(wheel)])  # it runs a few modules
    return folder


def pip(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def run(installed: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run something with the installed package in front of the checkout's."""
    environment = {**os.environ, "PYTHONPATH": str(installed), **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=installed, check=False)


def for_browsers() -> set[str]:
    """The page's files for browsers, as they are named in the wheel."""
    source = ROOT / "src"
    found = [*(source / "wharfinger/page/assets").glob("*.*"), *source.rglob("*.js")]
    assert len(found) > 20
    return {path.relative_to(source).as_posix() for path in found}


def test_every_module_of_every_room_is_in_the_wheel(wheel: Path) -> None:
    """A sub-package that pyproject.toml forgets would vanish without a word."""
    expected = {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, package in ROOMS.items()
        for path in (ROOT / folder).rglob("*.py")
    }

    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}

    assert shipped == expected


def test_the_rooms_at_the_top_are_flat() -> None:
    nested = [path for room in ("workflows", "activities") for path in (ROOT / room).glob("*/*.py")]

    assert nested == []


def test_pinned_modules_and_the_example_cluster_are_in_the_wheel(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())

    for path in (
        "py.typed",
        "tools/etcd/go.mod",
        "tools/etcd/go.sum",
        "tools/temporal/go.mod",
        "tools/temporal/go.sum",
    ):
        assert f"wharfinger/{path}" in shipped
    assert for_browsers() <= shipped
    assert {"wharfinger/examples/openb/nodes.csv", "wharfinger/examples/openb/pods.csv.gz"} <= shipped


def test_files_for_browsers_are_in_the_source_distribution(checkout: Path, tmp_path: Path) -> None:
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (built,) = tmp_path.glob("*.tar.gz")

    with tarfile.open(built) as archive:
        shipped = {name.partition("/src/")[2] for name in archive.getnames()}

    assert for_browsers() <= shipped


def test_the_console_script_starts_from_the_wheel(installed: Path) -> None:
    answer = run(installed, str(installed / "bin" / "wharfinger"), "--version")

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("wharfinger ")


def test_wheel_and_editable_install_of_the_same_files_have_one_build_id(installed: Path) -> None:
    answer = run(installed, sys.executable, "-c", "from wharfinger.process.build import build_id; print(build_id())")

    assert answer.stdout.strip() == build_id(), answer.stderr


def test_workflows_and_activities_are_imported_under_the_package(installed: Path) -> None:
    code = "import wharfinger.workflows as w, wharfinger.activities as a; print(w.__file__); print(a.__file__)"
    answer = run(installed, sys.executable, "-c", code)

    assert answer.stdout.split() == [
        str(installed / "wharfinger" / room / "__init__.py") for room in ("workflows", "activities")
    ]


def test_without_server_go_and_network_one_line_names_what_to_install(installed: Path, tmp_path: Path) -> None:
    answer = run(
        installed, sys.executable, "-m", "wharfinger.dev.binaries", PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path)
    )

    assert answer.returncode == 1
    assert answer.stderr.count("\n") == 1
    assert "Install etcd 3.6 on the PATH, or Go 1." in answer.stderr
