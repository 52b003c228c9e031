"""The command lines of the agent and of the page, and the ports that they get over several lives."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import free_port
from wharfinger.dev.agent_part import AgentPart
from wharfinger.dev.folder import DataFolder
from wharfinger.dev.page_part import PagePart
from wharfinger.dev.placing import PlacingPart
from wharfinger.dev.settings import DevSettings
from wharfinger.errors import ServerError
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.page.follow.scraping import FollowedHosts

SERVERS = ["--etcd=http://127.0.0.1:1", "--temporal=127.0.0.1:2"]


def agent(root: Path, **settings: object) -> AgentPart:
    made = DevSettings(root, **settings)  # type: ignore[arg-type]
    return AgentPart(made, DataFolder(root), lambda: SERVERS)


def page(root: Path, named: int | None = None) -> PagePart:
    return PagePart(DataFolder(root), lambda: SERVERS, lambda: "http://127.0.0.1:8233", named)


def test_the_agent_gets_what_its_instances_need(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    part = agent(
        tmp_path, config=config, format=ClusterFormat.RK8S, lease_ttl=2.5, agent_options=("--allow-env=TZ",),
        health_port=12345,
    )  # fmt: skip
    command = part.spec(tmp_path / "kubeconfig").command()

    assert command[1:4] == ["-m", "wharfinger", "agent"]
    assert {
        *SERVERS,
        f"--data-dir={tmp_path / 'agent'}",
        f"--config={config}",
        "--format=rk8s",
        f"--kubeconfig={tmp_path / 'kubeconfig'}",
        "--lease-ttl=2.5",
        "--allow-env=TZ",
        "--instance-health-port=12345",
        f"--health-port={part.port}",
    } <= set(command)


def test_the_agent_gets_no_option_that_has_its_usual_value(tmp_path: Path) -> None:
    command = agent(tmp_path).spec(None).command()
    assert not [one for one in command if one.startswith(("--config", "--format", "--kubeconfig"))]


def test_the_agent_keeps_the_port_of_its_last_life(tmp_path: Path) -> None:
    first = agent(tmp_path)
    first.spec(None).command()
    first.came_up()

    second = agent(tmp_path)
    second.spec(None).command()
    assert second.port == first.port


def test_the_worker_of_a_member_keeps_its_files_in_the_tree(tmp_path: Path) -> None:
    part = PlacingPart(DataFolder(tmp_path), lambda _role: SERVERS, Path("etcd"), 1, "127.0.0.1", guarded=False)
    part.member_specs()
    command = part.worker_specs()[0].command()
    (state,) = [one.removeprefix("--state-dir=") for one in command if one.startswith("--state-dir=")]

    assert Path(state).is_relative_to(tmp_path)


def test_the_page_keeps_its_port_unless_another_process_took_it(tmp_path: Path) -> None:
    first = page(tmp_path)
    assert (first.url, first.port) == ("", 0)
    first.port = free_port()
    assert f"--port={first.port}" in first.spec().command()
    assert first.url == f"http://127.0.0.1:{first.port}"
    first.came_up()

    second = page(tmp_path)
    second.spec().command()
    assert second.port == first.port
    with socket.create_server(("127.0.0.1", first.port)):
        second.spec().command()
    assert second.port != first.port


def test_a_named_port_of_the_page_must_be_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"--page-port: port {port} is taken"):
            page(tmp_path, port).spec().command()


def test_the_page_gets_the_folders_of_the_tree(tmp_path: Path) -> None:
    command = page(tmp_path, free_port()).spec().command()
    assert {
        *SERVERS,
        f"--link-file={tmp_path / 'page.link'}",
        f"--replays-dir={tmp_path / 'replays'}",
        "--temporal-ui=http://127.0.0.1:8233",
    } <= set(command)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "192.0.2.7"])
def test_the_page_may_read_metrics_where_the_tree_listens(tmp_path: Path, address: str) -> None:
    """Without more, a page reads none but those of loopback."""
    part = replace(page(tmp_path, free_port()), bind_address=address)
    given = [one.removeprefix("--metrics-host=") for one in part.spec().command() if one.startswith("--metrics-host=")]

    assert FollowedHosts(given).follow(f"http://{address}:10259")


def test_the_link_is_empty_until_the_page_has_written_it(tmp_path: Path) -> None:
    part = page(tmp_path)
    assert part.link() == ""
    (tmp_path / "page.link").write_text("http://127.0.0.1:1/in?secret\n")
    assert part.link() == "http://127.0.0.1:1/in?secret"
