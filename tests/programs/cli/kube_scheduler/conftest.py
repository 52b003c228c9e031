"""`wharfinger kube-scheduler`: a kubeconfig for it, and command lines that are read as the command reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.conftest import kube_apiserver, mortal_kube_apiserver
from tests.apiserver.kubeconfigs import KubeconfigFolder, kubeconfig_folder

__all__ = ["kube_apiserver", "mortal_kube_apiserver"]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """The command sets up the log of its process, which is that of the tests here."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    others = {name: logging.getLogger(name).level for name in ("asyncio", "aiohttp", "temporalio")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, its in others.items():
        logging.getLogger(name).setLevel(its)
    logging.captureWarnings(False)


@pytest.fixture
def home(tmp_path: Path) -> KubeconfigFolder:
    """A right kubeconfig, of an API server that does not run."""
    folder = tmp_path / "home"
    folder.mkdir()
    made = kubeconfig_folder(folder)
    made.cluster["server"] = "https://127.0.0.1:9"
    made.write()
    return made


@pytest.fixture
def kubeconfig(home: KubeconfigFolder) -> str:
    return str(home.path)
