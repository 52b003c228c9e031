"""The web page as a part of `wharfinger dev`: its link, what it shows of real servers, and that it comes back."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from http.cookiejar import CookieJar
from typing import Any

import pytest

from tests.integration.dev_tree import DevTree, wait_until
from wharfinger.testing import node_manifest, pod_manifest

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    tree = DevTree(tmp_path_factory.mktemp("page"), 1, {"WHARFINGER_PAGE": "true"})
    try:
        tree.start()
        yield tree
        assert tree.stop() == 0
    finally:
        tree.end()


class Browser:
    """Comes in by the link that is good now."""

    def __init__(self, tree: DevTree) -> None:
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        self._open = urllib.request.build_opener(*handlers).open
        self.base = json.loads(tree.ready_file.read_text())["page"]
        link = tree.folder / "data" / "page.link"
        assert link.stat().st_mode & 0o777 == 0o600
        with self._open(link.read_text().strip(), timeout=10) as answer:
            assert answer.status == 200

    def get(self, path: str) -> Any:
        """The answer; empty while there is none."""
        try:
            with self._open(f"{self.base}/api/v1/{path}", timeout=20) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (404, 503):
                raise
            return defaultdict(list)


def test_dev_prints_a_link_and_the_page_shows_the_cluster(tree: DevTree) -> None:
    assert "/login?link=" in (tree.folder / "dev.log").read_text()
    browser = Browser(tree)
    things = [node_manifest("n", "2"), pod_manifest("fits", "1"), pod_manifest("large", "64")]
    tree.cli("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))

    wait_until(lambda: browser.get("overview")["pods"]["bound"] == 1, 60, "the pod that fits is bound")
    wait_until(lambda: browser.get("pods/default/large").get("record"), 60, "the other one is refused")
    wait_until(lambda: browser.get("overview")["workers"][0]["metrics"]["problem"] is None, 60, "metrics were read")
    wait_until(
        lambda: len(browser.get("pods/default/large/attempts")["attempts"]) > 0, 60, "Temporal tells the attempt"
    )
    [attempt, *_] = browser.get("pods/default/large/attempts")["attempts"]
    decision = browser.get("pods/default/large/decision")
    assert "place" in [step["name"] for step in attempt["steps"]]
    assert attempt["link"].endswith("/history")
    assert decision["same"]
    assert decision["names"] == ["n"]


def test_the_page_goes_on_after_its_servers_were_killed(tree: DevTree) -> None:
    browser = Browser(tree)
    for what in ("etcd", "temporal", "workers"):
        tree.kill(what)
        pod = pod_manifest(f"after-{what}", "64")
        wait_until(lambda pod=pod: applied(tree, pod), 60, f"etcd takes pods after the end of {what}")

        path = f"pods/default/after-{what}"
        wait_until(
            lambda path=path: (browser.get(path).get("record") or {}).get("attempt"), 90, f"{what}: it is refused"
        )
        wait_until(
            lambda path=path: browser.get(f"{path}/attempts")["attempts"], 60, f"{what}: Temporal has the attempt"
        )
    status = browser.get("status")
    assert status["inStep"]
    assert status["etcd"]["answers"]


def applied(tree: DevTree, obj: dict[str, Any]) -> bool:
    return tree.cli("apply", "-f", "-", stdin=json.dumps(obj), check=False).returncode == 0


def test_a_page_that_died_comes_back_with_another_link(tree: DevTree) -> None:
    before = (tree.folder / "data" / "page.link").read_text()
    os.kill(json.loads(tree.ready_file.read_text())["pids"]["page"], signal.SIGKILL)

    wait_until(lambda: (tree.folder / "data" / "page.link").read_text() != before, 60, "there is another link")
    wait_until(lambda: Browser(tree).get("status")["inStep"], 60, "it is in step again")
