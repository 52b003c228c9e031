"""Replay's results on the page: listed, whole, by namespace, and two beside each other; no path from a request."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from tests.page.cluster import MemoryCluster, Page, served
from tests.page.replay_reports import MOST, ends, filled_folder, kept, rerun, shadow
from tests.page.small_cluster import TOKEN
from wharfinger.page.follow.plain import LONGEST
from wharfinger.page.options import PageOptions
from wharfinger.replay.page.replay_figures import POINTS
from wharfinger.replay.page.view import FRESH, ReplayPageReader
from wharfinger.replay.report import kept_reports

HOSTILE = "<script>alert(1)</script>\u202e\u0007"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled_folder(tmp_path / "replays")


@pytest.fixture
async def page(token_file: Path, folder: Path) -> AsyncIterator[Page]:
    options = PageOptions(0, static_token_file=token_file, replays_dir=folder)
    async with served(MemoryCluster(), options) as found:
        yield found


async def get(client: aiohttp.ClientSession, path: str, status: int = 200) -> Any:
    async with client.get(path) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def test_reports_are_listed_the_newest_first(client: aiohttp.ClientSession, folder: Path) -> None:
    found = await get(client, "/api/v1/replays")

    names = ["shadow-most", "shadow-plain", "rerun-most", "rerun-plain", "notes"]
    assert [one["name"] for one in found["replays"]] == names
    assert (found["folder"], found["count"], found["omitted"], found["problem"]) == (str(folder), 5, 0, None)
    first, _, lived, _, broken = found["replays"]
    assert (first["mode"], first["change"], first["decisions"]) == ("shadow", [MOST], 100)
    assert (first["summary"]["same"], first["summary"]["refused"]) == (70, 5)
    assert first["sameShare"] == pytest.approx(70 / 95), "of those that could be made again"
    assert first["packing"] == {"recorded": 0.35, "again": 0.6}
    assert lived["packing"] == {"recorded": 0.39, "again": pytest.approx(0.468)}, "cpu in use at the end"
    assert broken["problem"].startswith("not a report")
    assert (await get(client, "/api/v1/status"))["replays"] is True


async def test_the_list_is_by_namespace_too(client: aiohttp.ClientSession) -> None:
    first, *_ = (await get(client, "/api/v1/replays?namespace=batch"))["replays"]
    other, *_ = (await get(client, "/api/v1/replays?namespace=nowhere"))["replays"]

    assert (first["decisions"], first["summary"]["same"], first["packing"]["again"]) == (30, 0, 0.9)
    assert (other["decisions"], other["sameShare"]) == (0, None)


async def test_a_report_is_told_whole(client: aiohttp.ClientSession) -> None:
    found = await get(client, "/api/v1/replays/shadow-most")

    assert (found["name"], found["mode"], found["command"]) == ("shadow-most", "shadow", "wharfinger replay")
    assert found["namespaces"] == ["batch", "web"]
    report = found["report"]
    original = shadow(MOST)
    same = ("change", "decisions", "summary", "workloads", "pods", "builds", "profiles", "packing")
    assert {name: report[name] for name in same} == {name: original[name] for name in same}
    assert report["unreplayable"][0]["examples"] == original["unreplayable"][0]["examples"]
    assert len(report["packingOverTime"]) <= POINTS < len(original["packingOverTime"])
    assert report["packingOverTime"][0]["again"] == pytest.approx(0.3, abs=0.01)
    assert report["packingOverTime"][-1]["again"] == pytest.approx(0.6, abs=0.01)
    assert (found["beside"], found["between"], found["ofAll"]) == (None, None, [])


async def test_a_namespace_is_a_filter_of_a_report(client: aiohttp.ClientSession) -> None:
    found = await get(client, "/api/v1/replays/shadow-most?namespace=web")
    report = found["report"]

    assert (report["decisions"], report["sameShare"]) == (70, 1)
    assert [one["pod"] for one in report["pods"]] == ["web/front-1"]
    assert [one["workload"] for one in report["workloads"]] == ["web: ReplicaSet/front"]
    assert (report["reasons"], report["unreplayable"]) == ([], [])
    assert report["packing"]["again"] == 0.3
    assert "packingOverTime" in found["ofAll"], "what is not known by namespace is named"
    lived = await get(client, "/api/v1/replays/rerun-most?namespace=web")
    assert lived["report"]["evictions"], "a pod of the namespace was the reason"
    assert lived["report"]["pods"] == []


async def test_two_reruns_are_compared_pod_by_pod(client: aiohttp.ClientSession) -> None:
    found = await get(client, "/api/v1/replays/rerun-most?beside=rerun-plain")

    assert found["beside"]["name"] == "rerun-plain"
    assert found["beside"]["report"]["change"] == []
    between = found["between"]
    assert between["summary"] == {"same": 1, "elsewhere": 1, "refused": 1, "evicted": 0, "placed": 1, "otherwise": 0}
    assert (between["pods"], between["onlyHere"], between["onlyBeside"]) == (4, 0, 0)
    assert between["differing"] == [
        {"pod": "batch/d", "verdict": "refused", "beside": "n1", "here": ""},
        {"pod": "batch/c", "verdict": "placed", "beside": "", "here": "n2"},
        {"pod": "batch/b", "verdict": "elsewhere", "beside": "n2", "here": "n1"},
    ]
    assert "ends" not in json.dumps(found)
    web = await get(client, "/api/v1/replays/rerun-most?beside=rerun-plain&namespace=web")
    assert web["between"]["pods"] == 0


async def test_pods_of_one_rerun_only_are_counted_apart(client: aiohttp.ClientSession, folder: Path) -> None:
    kept(folder, "rerun-other", rerun(), ends=ends(a="n1", z="n1"))
    between = (await get(client, "/api/v1/replays/rerun-other?beside=rerun-plain"))["between"]

    assert (between["pods"], between["onlyHere"], between["onlyBeside"]) == (1, 1, 3)


async def test_victims_of_one_rerun_are_told_apart(client: aiohttp.ClientSession, folder: Path) -> None:
    """Here a and d were evicted, beside only d: it has no node in either."""
    for name, victims in (("rerun-here", [0, 3]), ("rerun-beside", [3])):
        told = ends(a="" if name == "rerun-here" else "n1", b="n2", c="n1", d="") | {"evicted": victims}
        summary = rerun()["summary"] | {"evicted": len(victims)}
        kept(folder, name, rerun(summary=summary), ends=told)

    found = await get(client, "/api/v1/replays/rerun-here?beside=rerun-beside")

    assert found["between"]["summary"]["evicted"] == 1
    assert found["between"]["differing"] == [{"pod": "batch/a", "verdict": "evicted", "beside": "n1", "here": ""}]
    assert found["report"]["summary"]["evicted"] == 2


async def test_shadows_beside_each_other_have_their_figures(client: aiohttp.ClientSession) -> None:
    for beside in ("shadow-plain", "rerun-plain"):
        found = await get(client, f"/api/v1/replays/shadow-most?beside={beside}")
        assert found["between"] is None
        assert found["beside"]["report"]["decisions"] == 100


@pytest.mark.parametrize(
    "name",
    ["../replays/shadow-most", "..%2Fsecret", "%2Fetc%2Fpasswd", "shadow-most.json", ".", "..", "nothing", "a" * 300],
)
async def test_requests_name_reports_and_no_paths(client: aiohttp.ClientSession, folder: Path, name: str) -> None:
    kept(folder.parent, "secret", shadow())
    raw = name if "%" in name else quote(name, safe="")
    async with client.get(f"/api/v1/replays/{raw}") as answer:
        assert answer.status in (400, 404), await answer.text()
    async with client.get(f"/api/v1/replays/shadow-most?beside={raw}") as answer:
        assert answer.status in (400, 404)


async def test_a_file_that_is_no_report_is_told_and_never_an_error(
    client: aiohttp.ClientSession, folder: Path, tmp_path: Path
) -> None:
    contents = [b"", b"\xff\xfe", b"[" * 200_000, json.dumps({"kind": "ReplayReport", "version": 9}).encode()]
    for number, content in enumerate(contents):
        (folder / f"wrong-{number}.json").write_bytes(content)
    with (folder / "wrong-large.json").open("wb") as file:
        file.truncate(kept_reports.MOST_BYTES + 1)
    (folder / "wrong-link.json").symlink_to(tmp_path / "tokens.csv")

    found = await get(client, "/api/v1/replays")
    problems = {one["name"]: one["problem"] for one in found["replays"] if one["problem"]}
    assert set(problems) == {"notes", "wrong-0", "wrong-1", "wrong-2", "wrong-3", "wrong-large"}
    assert problems["wrong-3"].startswith("written by a later release")
    for name in problems:
        said = await get(client, f"/api/v1/replays/{name}", 422)
        assert said["message"].startswith("this file cannot be shown")
    await get(client, "/api/v1/replays/wrong-link", 404)


async def test_hostile_texts_are_cut_and_stay_texts(client: aiohttp.ClientSession, folder: Path) -> None:
    long = HOSTILE * 100
    pod = shadow()["pods"][0] | {"pod": f"{HOSTILE}/{HOSTILE}", "verdict": HOSTILE}
    reason = {"verdict": long, "message": long, "decisions": 1, "namespaces": {long: 1}}
    scores = pod | {"recorded": pod["recorded"] | {"scores": {f"{HOSTILE}{number}": 1 for number in range(300)}}}
    kept(folder, "hostile", shadow(long, pods=[pod, scores] * 60, reasons=[reason] * 300), command=long)

    found = await get(client, "/api/v1/replays/hostile")
    assert len(found["report"]["change"][0]) == len(found["command"]) == LONGEST
    assert (len(found["report"]["pods"]), len(found["report"]["reasons"])) == (100, 200)
    assert len(found["report"]["pods"][1]["recorded"]["scores"]) == 200
    assert found["report"]["pods"][0]["pod"] == f"{HOSTILE}/{HOSTILE}"


async def test_a_report_is_read_again_when_it_has_changed(client: aiohttp.ClientSession, folder: Path) -> None:
    before = await get(client, "/api/v1/replays/shadow-plain")
    (folder / "shadow-plain.json").unlink()
    await get(client, "/api/v1/replays/shadow-plain", 404)
    kept(folder, "shadow-plain", shadow("A.weight=2"))
    after = await get(client, "/api/v1/replays/shadow-plain")

    assert (before["report"]["change"], after["report"]["change"]) == ([], ["A.weight=2"])


async def test_the_list_follows_the_folder_after_a_while(folder: Path) -> None:
    now = [10.0]
    looks = ReplayPageReader(folder, lambda: now[0])
    first = (await looks.all(""))["replays"]
    kept(folder, "shadow-plain-2", shadow("B.weight=2"), -60)
    (folder / "notes.json").unlink()
    os.utime(kept(folder, "rerun-x", rerun()), (2, 2))
    second = (await looks.all(""))["replays"]
    now[0] += FRESH
    third = (await looks.all(""))["replays"]

    assert len(first) == 5
    assert second == first
    names = [one["name"] for one in third]
    assert names == ["shadow-plain-2", "shadow-most", "shadow-plain", "rerun-most", "rerun-plain", "rerun-x"]


async def test_many_whole_reports_are_not_kept_in_memory(folder: Path) -> None:
    looks = ReplayPageReader(folder, lambda: 1.0)
    for number in range(12):
        kept(folder, f"r{number}", shadow())
        await looks.one(f"r{number}", "", "")

    assert len(looks._whole) == 4


async def test_without_a_folder_there_is_nothing(token_file: Path) -> None:
    options = PageOptions(0, static_token_file=token_file)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        served(MemoryCluster(), options) as page,
        aiohttp.ClientSession(page.server.url, headers=headers) as client,
    ):
        assert (await get(client, "/api/v1/replays"))["folder"] is None
        assert (await get(client, "/api/v1/status"))["replays"] is False
        await get(client, "/api/v1/replays/shadow-most", 404)


async def test_replays_are_shown_to_those_let_in_only(
    client: aiohttp.ClientSession, stranger: aiohttp.ClientSession
) -> None:
    for path in ("/api/v1/replays", "/api/v1/replays/shadow-most"):
        assert (await get(stranger, path, 401))["error"] == "Unauthorized"
    for path in ("/replays", "/replays/shadow-most?beside=rerun-plain"):
        async with client.get(path) as answer:
            assert (answer.status, answer.content_type) == (200, "text/html")
