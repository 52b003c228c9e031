"""The web page as a part of `wharfinger dev`: its link, what it shows of real servers, and that it comes back."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import threading
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dev_tree import DevTree, wait_until
from wharfinger.testing import node_manifest, pod_manifest

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    tree = DevTree(tmp_path_factory.mktemp("page"), 1, {"WHARFINGER_PAGE": "true"}, guarded=True)
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
        self.open = urllib.request.build_opener(*handlers).open
        self.base = json.loads(tree.ready_file.read_text())["page"]
        link = tree.folder / "data" / "page.link"
        assert link.stat().st_mode & 0o777 == 0o600
        with self.open(link.read_text().strip(), timeout=10) as answer:
            assert answer.status == 200

    def get(self, path: str) -> Any:
        """The answer; empty while there is none."""
        try:
            with self.open(f"{self.base}/api/v1/{path}", timeout=20) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (404, 503):
                raise
            return defaultdict(list)


class Follower:
    """Follows the stream of a browser that stays open: it connects again whenever it was cut off."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.up = False
        self.refused = 0
        """The status with which it was refused last."""
        self.last: dict[str, Any] = defaultdict(dict)
        """By topic, what was told last."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    @contextmanager
    def open(self) -> Iterator[Follower]:
        self._thread.start()
        try:
            wait_until(lambda: self.last["overview"], 30, "the stream tells the overview")
            yield self
        finally:
            self._over.set()
            self._thread.join(30)

    def _follow(self) -> None:
        while not self._over.wait(0.2):
            try:
                self._read()
            except urllib.error.HTTPError as error:
                self.refused = error.code
            except (OSError, http.client.HTTPException):  # it was cut off, or nobody is there
                pass
            self.up = False

    def _read(self) -> None:
        address = f"{self._browser.base}/api/v1/stream?topics=status,overview"
        with self._browser.open(address, timeout=30) as answer:
            self.up, topic = True, ""
            for line in answer:
                if self._over.is_set():
                    return
                if line.startswith(b"event: "):
                    topic = line[7:].decode().strip()
                elif line.startswith(b"data: "):
                    self.last[topic] = json.loads(line[6:]).get("now")


@contextmanager
def nothing_is_started_again(tree: DevTree) -> Iterator[dict[str, Any]]:
    """The supervisor stands still: what is killed stays away. Answers the processes' ids."""
    assert tree.process is not None
    pids: dict[str, Any] = tree.ready["pids"]
    os.kill(tree.process.pid, signal.SIGSTOP)
    try:
        yield pids
    finally:
        os.kill(tree.process.pid, signal.SIGCONT)


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


def test_a_replay_that_is_kept_is_shown_by_the_page(tree: DevTree) -> None:
    said = (tree.folder / "dev.log").read_text()
    assert "wharfinger replay --since 1h --keep-in " in said
    browser = Browser(tree)
    assert browser.get("status")["replays"] is True
    assert browser.get("replays")["replays"] == []

    tree.cli("replay", "--since", "1h", "--keep-in", str(tree.folder / "data" / "replays"))

    wait_until(lambda: browser.get("replays")["replays"], 20, "the report is listed")
    [row] = browser.get("replays")["replays"]
    assert (row["mode"], row["problem"], row["sameShare"]) == ("shadow", None, 1)
    assert browser.get(f"replays/{row['name']}")["report"]["decisions"] == row["decisions"] > 0


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


@pytest.mark.timeout(240)
def test_an_open_page_says_who_is_away_and_recovers(tree: DevTree) -> None:
    browser = Browser(tree)
    with Follower(browser).open() as viewer:
        for what in ("etcd", "temporal"):
            with nothing_is_started_again(tree) as pids:
                os.kill(pids[what], signal.SIGKILL)
                wait_until(lambda what=what: viewer.last["status"][what]["answers"] is False, 10, f"{what}: it says so")
                assert viewer.up, "the stream itself goes on"
            wait_until(lambda what=what: viewer.last["status"][what]["answers"], 60, f"{what}: it recovers")
            pod = pod_manifest(f"seen-after-{what}", "1", schedulingGates=[{"name": "g"}])
            held = viewer.last["overview"]["pods"]["gated"]
            wait_until(lambda pod=pod: applied(tree, pod), 60, f"{what}: etcd takes pods")
            wait_until(
                lambda held=held: viewer.last["overview"]["pods"]["gated"] == held + 1, 30, f"{what}: the pod is seen"
            )

        [worker] = tree.ready["pids"]["workers"]
        [before] = viewer.last["overview"]["workers"]
        assert before["state"] == "ready"
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: viewer.last["overview"]["workers"] != [before], 15, "the worker's end is seen")

        def successor() -> bool:
            return [(one["state"], one["pid"] != worker) for one in viewer.last["overview"]["workers"]] == [
                ("ready", True)
            ]

        wait_until(successor, 90, "its successor is ready, and it is gone")


def test_a_page_that_died_lets_in_by_another_link_alone(tree: DevTree) -> None:
    """Whoever was let in before has to come in again, and is told how."""
    browser, link = Browser(tree), tree.folder / "data" / "page.link"
    before = link.read_text()
    with Follower(browser).open() as viewer:
        os.kill(json.loads(tree.ready_file.read_text())["pids"]["page"], signal.SIGKILL)

        wait_until(lambda: not viewer.up, 10, "the stream was cut off")
        wait_until(lambda: link.exists() and link.read_text() != before, 60, "there is another link")
        wait_until(lambda: viewer.refused == 401, 30, "the old cookie is worth nothing")
    with pytest.raises(urllib.error.HTTPError) as refused:
        browser.open(urllib.request.Request(f"{browser.base}/map", headers={"Accept": "text/html"}), timeout=20)
    assert refused.value.code == 401
    assert "Open the one-time link" in refused.value.read().decode()
    wait_until(lambda: Browser(tree).get("status")["inStep"], 60, "it is in step again")


def shapes(lines: list[str]) -> set[str]:
    """Lines of `dev` without what differs from start to start: times, ids, ports, paths and links."""
    found = set()
    for line in lines:
        text = re.sub(r"^[\d:]{8} ", "", line)
        text = re.sub(r"(-f |--keep-in |next one: |cat )\S*/", r"\1", text)
        text = re.sub(r"--endpoints \S+ ", "", text)  # the usual port may be taken
        text = re.sub(r"(Data: )\S+|(?<= )(?:wharfinger-)?data/", r"\1", text)
        text = re.sub(r"link=\S+", "link=", text)
        found.add(re.sub(r"\d+", "N", re.sub(r"\d+ workers?", "N workers", text)))
    return {text for text in found if not text.startswith("  export ")}  # the usual ports may be taken


def test_dev_prints_what_getting_started_shows(tree: DevTree) -> None:
    page = Path(__file__).parents[2] / "docs" / "getting-started.md"
    shown = re.findall(r"^\d\d:\d\d:\d\d .*", page.read_text(), flags=re.M)
    printed = (tree.folder / "dev.log").read_text().splitlines()
    began = next(number for number, line in enumerate(printed) if " Starting " in line)
    ends = next(number for number, line in enumerate(printed) if line.endswith("Ctrl-C stops everything."))

    assert shapes(shown) == shapes(printed[began : ends + 1])
    first, *parts = (line[9:] for line in shown)
    told = [line for line in parts if " is up after " in line and not line.startswith("Everything")]
    assert f": {len(told)} processes ..." in first
