"""What is shipped: every file of the package, the pinned modules, the example's data; and that it starts."""

from __future__ import annotations

import email
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import free_port
from tests.dev.release_server import ReleaseServer, serving, tar_gz
from tests.integration.dev_tree import wait_until
from tests.patience import patient
from wharfinger.dev import binaries
from wharfinger.dev.binaries import released
from wharfinger.dev.releases import ETCD, PLATFORMS, TEMPORAL, ReleaseArchive, this_platform
from wharfinger.process.build import build_id

pytest.importorskip("setuptools", minversion="77", reason="`make setup` installs it")

pytestmark = pytest.mark.long  # seconds of pip; imports of a package that is not listed fail in `make check` too

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {"src/wharfinger": "wharfinger", "workflows": "wharfinger/workflows", "activities": "wharfinger/activities"}


NOT_SHIPPED = ("__pycache__", "*.pyc", "*.egg-info", ".git", ".gitignore", ".venv", ".tools", ".*cache*", ".hypothesis")
NOT_SHIPPED_AT_THE_TOP = {"build", "dist", "data", "wharfinger-data"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout: what earlier builds left in it must not slip in."""
    copy = tmp_path_factory.mktemp("checkout") / "copy"
    usual = shutil.ignore_patterns(*NOT_SHIPPED)

    def ignore(folder: str, names: list[str]) -> set[str]:
        return usual(folder, names) | (NOT_SHIPPED_AT_THE_TOP if Path(folder) == ROOT else set())

    shutil.copytree(ROOT, copy, ignore=ignore)
    shutil.rmtree(copy / "docs" / "reference", ignore_errors=True)  # pages that are made from the code
    return copy


@pytest.fixture(scope="module")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    files = {path.relative_to(checkout) for path in checkout.rglob("*")}
    folder = tmp_path_factory.mktemp("sdist")
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for left in {path.relative_to(checkout) for path in checkout.rglob("*.egg-info")} - files:
        shutil.rmtree(checkout / left)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as pip makes it of the source distribution."""
    target = tmp_path_factory.mktemp("wheel")
    pip(["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(sdist)])
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

    assert {name for name in shipped if not name.startswith("wharfinger/examples/")} == expected


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
        "deploy/monitoring/rules.yaml",
        "deploy/monitoring/dashboards/pods.json",
    ):
        assert f"wharfinger/{path}" in shipped
    assert for_browsers() <= shipped
    assert {"wharfinger/examples/openb/nodes.csv", "wharfinger/examples/openb/pods.csv.gz"} <= shipped


def test_all_examples_are_in_the_wheel(wheel: Path) -> None:
    """The documents name them, and `wharfinger dev` prints where they lie."""
    examples = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.*") if path.suffix != ".pyc"}
    shipped = set(zipfile.ZipFile(wheel).namelist())

    assert {f"wharfinger/{name}" for name in examples if (ROOT / name).is_file()} <= shipped


def test_every_file_of_the_checkout_is_in_the_source_distribution(checkout: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames()}
    files = {path.relative_to(checkout).as_posix() for path in checkout.rglob("*") if path.is_file()}

    assert files - shipped == set()
    assert {"worker.py", "CHANGELOG.md", "docker-compose.yml", "requirements/runtime.txt", "LICENSE"} <= files


def test_metadata_names_authors_addresses_and_pythons(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(files.read(name))

    assert metadata["Author"]
    assert {url.split(",")[0] for url in metadata.get_all("Project-URL", [])} >= {"Homepage", "Documentation"}
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)} <= set(
        metadata.get_all("Classifier", [])
    )


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
        installed, sys.executable, "-m", "wharfinger.dev.binaries", "etcd",
        PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path), WHARFINGER_DOWNLOADS="http://127.0.0.1:1",
    )  # fmt: skip

    assert answer.returncode == 1
    *_, line = answer.stderr.splitlines()
    assert "Install etcd 3.6 on the PATH, or Go 1." in line
    assert "WHARFINGER_DOWNLOADS" in line
    assert "Traceback" not in answer.stderr


@pytest.fixture
def mirror() -> Iterator[ReleaseServer]:
    """A mirror with a program that only prints the version which is pinned of etcd."""
    archive = ReleaseArchive(ETCD, released(ETCD), this_platform())
    program = f"#!/bin/sh\necho 'etcd Version: {archive.version}'\n# {random.Random(3).randbytes(300_000).hex()}\n"
    content = tar_gz({archive.member("etcd"): program.encode()})
    with serving() as server:
        digest = server.put(f"/etcd/v{archive.version}/{archive.name}", content)
        server.put(f"/etcd/v{archive.version}/SHA256SUMS", f"{digest}  {archive.name}\n".encode())
        yield server


def start(installed: Path, mirror: ReleaseServer, home: Path) -> subprocess.Popen[str]:
    """Make sure of etcd, in an empty home and without Go."""
    environment = {
        "HOME": str(home),
        "PATH": str(home),
        "PYTHONPATH": str(installed),
        "WHARFINGER_DOWNLOADS": mirror.url,
    }
    command = [sys.executable, "-m", "wharfinger.dev.binaries", "etcd"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(this_platform() not in PLATFORMS, reason="there are no archives for this machine")
def test_two_starters_at_once_download_once(installed: Path, mirror: ReleaseServer, tmp_path: Path) -> None:
    mirror.silence = 0.2
    starters = [start(installed, mirror, tmp_path) for _ in range(2)]
    printed = [starter.communicate(timeout=patient(60)) for starter in starters]

    assert [starter.returncode for starter in starters] == [0, 0], printed
    (program,) = {line.rpartition(" ")[2].strip() for line, _ in printed}
    assert Path(program).parents[2] == tmp_path / ".cache" / "wharfinger"
    assert len([path for path, _ in mirror.asked if path.endswith(".gz")]) == 1


@pytest.mark.servers
@pytest.mark.skipif(this_platform() not in PLATFORMS, reason="there are no archives for this machine")
def test_first_pod_is_bound_in_an_empty_home_without_go(installed: Path, tmp_path: Path) -> None:
    """etcd and Temporal come from a mirror; then `dev`, `apply` and `get pods` are what a newcomer types."""
    home, ready = tmp_path / "home", tmp_path / "ready.json"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": f"{installed / 'bin'}:/bin", "PYTHONPATH": str(installed)}
    ports = [f"--{name}-port={free_port()}" for name in ("etcd", "temporal", "ui", "health")]
    with serving() as mirror:
        for project, program in ((ETCD, binaries.ETCD), (TEMPORAL, binaries.TEMPORAL)):
            archive = ReleaseArchive(project, released(project), this_platform())
            files = {archive.member(program.name): binaries.locate(program).read_bytes()}
            digest = mirror.put(f"/{project.name}/v{archive.version}/{archive.name}", tar_gz(files, level=0))
            with (tmp_path / "pins").open("a") as pins:
                pins.write(f"{digest}  {archive.name}\n")
        environment |= {"WHARFINGER_DOWNLOADS": mirror.url, "WHARFINGER_DOWNLOADS_SHA256": str(tmp_path / "pins")}
        command = [installed / "bin" / "wharfinger", "dev", f"--ready-file={ready}", *ports]
        with (tmp_path / "log").open("wb") as log:
            dev = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: ready.exists() or dev.poll() is not None, 60, "everything is up")
            printed = (tmp_path / "log").read_text()
            assert ready.exists(), printed

            def typed(words: str) -> str:
                answer = subprocess.run(
                    [installed / "bin" / "wharfinger", *words.split()], cwd=home, capture_output=True, text=True,
                    env=environment | dict(re.findall(r"export (\w+)=(\S+)", printed)), timeout=patient(60), check=True,
                )  # fmt: skip
                return answer.stdout

            typed(re.findall(r"wharfinger (apply -f \S+quickstart) ", printed)[0])
            wait_until(lambda: "Bound" in typed("get pods"), 60, "a pod is bound")
            assert {path for path, _ in mirror.asked if not path.endswith(".gz")} == set()
        finally:
            dev.send_signal(signal.SIGINT)
            try:
                assert dev.wait(patient(30)) == 0
            finally:
                dev.kill()
                dev.wait()
