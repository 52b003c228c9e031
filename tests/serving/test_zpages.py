"""`/configz`, `/statusz` and `/flagz` in the forms of Kubernetes 1.36."""

from __future__ import annotations

import json
import re

import aiohttp
import pytest
import yaml

from tests.serving.serving import Hand, content, get, serving
from wharfinger.serving.options import ServingOptions

OPTIONS = ServingOptions(open=True, component="kube-scheduler")
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
PAGES = {
    "configuration": lambda: {"kind": "KubeSchedulerConfiguration", "apiVersion": "kubescheduler.config.k8s.io/v1"},
    "flags": lambda: {"v": "2", "config": "/etc/s.yaml"},
    "versions": {"Python version": "3.12.1", "Binary version": "1.36.2", "Emulation version": "1.36"},
}


async def test_configz_has_the_completed_configuration() -> None:
    async with serving(OPTIONS, content(**PAGES)) as server:
        code, text = await get(server, "/configz")

    assert code == 200
    assert json.loads(text) == {"componentconfig": PAGES["configuration"]()}  # type: ignore[operator]


async def test_flagz_is_sorted_text() -> None:
    async with serving(OPTIONS, content(**PAGES)) as server:
        assert (await get(server, "/flagz"))[1] == f"\nkube-scheduler flagz\n{WARNING}\nconfig: /etc/s.yaml\nv: 2\n"


async def test_statusz_says_what_runs_since_when() -> None:
    clock = Hand()
    async with serving(OPTIONS, content(**PAGES), clock=clock) as server:
        clock.seconds += 2 * 3600 + 3 * 60 + 4.5
        _, text = await get(server, "/statusz")

    lines = text.split("\n")
    assert lines[:4] == ["", "kube-scheduler statusz", WARNING, ""]
    assert re.fullmatch(r"Started: [A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d UTC \d{4}", lines[4])
    assert lines[5:] == [
        "Up: 2 hr 03 min 04 sec",
        "Python version: 3.12.1",
        "Binary version: 1.36.2",
        "Emulation version: 1.36",
        "Paths: /configz /flagz /healthz /livez /metrics /readyz /statusz",
        "",
    ]


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
async def test_structured_forms_are_served_when_asked_for(version: str) -> None:
    async with serving(OPTIONS, content(**PAGES)) as server, aiohttp.ClientSession() as http:
        accept = f"application/json;v={version};g=config.k8s.io;as=Flagz"
        async with http.get(f"{server.url}/flagz", headers={"Accept": accept}) as answer:
            flags = await answer.json()
            warned = "Warning" in answer.headers
        accept = f"application/yaml;v={version};g=config.k8s.io;as=Statusz, text/plain"
        _, status = await get(server, "/statusz", headers={"Accept": accept})

    head = {"apiVersion": f"config.k8s.io/{version}", "metadata": {"name": "kube-scheduler"}}
    assert flags == {"kind": "Flagz", **head, "flags": {"config": "/etc/s.yaml", "v": "2"}}
    assert warned is (version == "v1alpha1")
    said = yaml.safe_load(status)
    assert {key: said[key] for key in ("kind", *head)} == {"kind": "Statusz", **head}
    assert (said["binaryVersion"], said["emulationVersion"], said["uptimeSeconds"]) == ("1.36.2", "1.36", 0)
    assert "/metrics" in said["paths"]


@pytest.mark.parametrize(
    "accept", ["application/json", "application/json;v=v1;g=config.k8s.io;as=Flagz", "text/html",
               "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"]
)  # fmt: skip
async def test_other_forms_are_not_acceptable(accept: str) -> None:
    async with serving(OPTIONS, content(**PAGES)) as server:
        assert (await get(server, "/flagz", headers={"Accept": accept}))[0] == 406


@pytest.mark.parametrize("path", ["/configz", "/flagz", "/statusz", "/debug/pprof", "/"])
async def test_pages_without_content_do_not_exist(path: str) -> None:
    async with serving(OPTIONS) as server:
        assert (await get(server, path))[0] == 404


@pytest.mark.parametrize("path", ["/flagz", "/statusz"])
@pytest.mark.parametrize("accept", ["", "text/plain", "*/*", "text/*", "application/json;q=0.1, */*", "text/html, */*"])
async def test_text_is_served_by_default_by_name_and_by_wildcard(path: str, accept: str) -> None:
    async with serving(OPTIONS, content(**PAGES)) as server:
        code, text = await get(server, path, headers={"Accept": accept} if accept else {})

    assert (code, text.split("\n")[1]) == (200, f"kube-scheduler {path[1:]}")
