"""Workers' metrics: read with the page's own credential, and what is shown where they cannot be read."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.etcd.certificates import Authority
from tests.page.cluster import Page
from tests.page.metrics_process import MetricsProcess
from wharfinger.errors import UsageError
from wharfinger.kubernetes.page.view import KubernetesAlerts
from wharfinger.page.alerts.evaluation import FIRING, LEFT, QUIET, UNKNOWN, UNUSED, Alerts
from wharfinger.page.follow.scraping import ELSEWHERE, FollowedHosts, Scraper, plain_session
from wharfinger.page.options import ScrapeOptions
from wharfinger.scheduling.page.view import SchedulingView
from wharfinger.scheduling.page.worker_alerts import WorkerAlerts

FIRST = """
scheduler_pending_pods{queue="active"} 12
scheduler_pending_pods{queue="in-flight"} 3
scheduler_schedule_attempts_total{result="scheduled",profile="p"} 100
scheduler_scheduling_algorithm_duration_seconds_sum 1.0
scheduler_scheduling_algorithm_duration_seconds_count 100
wharfinger_config_problems 0
"""
SECOND = (
    FIRST.replace("} 100\n", "} 150\n")
    .replace("_sum 1.0", "_sum 1.5")
    .replace("_count 100", "_count 150")
    .replace("config_problems 0", "config_problems 2")
    .replace('"active"} 12', '"active"} 2000')
    + "temporal_workflow_task_execution_failed_total 1\n"
)


async def test_figures_come_from_two_reads_and_alerts_follow(page: Page) -> None:
    now = [100.0]
    async with MetricsProcess(FIRST).serving() as worker, aiohttp.ClientSession() as session:
        scraper = Scraper(ScrapeOptions(), lambda: [worker.url, ""], lambda: now[0])
        parts = page.parts
        alerts = Alerts(
            parts.following.clock,
            [
                WorkerAlerts(parts.following, parts.view(SchedulingView).pending, scraper),
                KubernetesAlerts(parts.following, scraper),
            ],
        )
        assert {one.name: one.state for one in alerts.all()}["Backlog"] == UNKNOWN
        await scraper.read_all(session)
        now[0], worker.body = 105.0, SECOND
        await scraper.read_all(session)

        found = scraper.figures(worker.url)
        assert (found["problem"], found["active"], found["inFlight"]) == (None, 2000, 3)
        assert found["attemptsPerSecond"] == 10.0
        assert found["decisionSeconds"] == pytest.approx(0.01)
        states = {one.name: one.state for one in alerts.all()}
        assert states["WorkflowTaskFailures"] == states["ConfigurationNotInForce"] == FIRING
        assert states["Backlog"] == QUIET, "not for long enough"
        assert states["StartFailures"] == LEFT
        assert states["PromisesOld"] == UNUSED
        assert alerts.all()[0].severity == "critical", "what is worst comes first"

        worker.status = 500
        await scraper.read_all(session)
        assert scraper.figures(worker.url) == {"problem": "answered with status 500"}
    async with aiohttp.ClientSession() as session:
        await scraper.read_all(session)
        assert scraper.figures(worker.url)["problem"].startswith("does not answer")
    assert scraper.figures("") == {"problem": "it serves no metrics"}


async def test_the_token_of_the_page_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t0ken\n")
    async with MetricsProcess(FIRST).serving() as worker, aiohttp.ClientSession() as session:
        worker.token = "t0ken"
        without = Scraper(ScrapeOptions(), lambda: [worker.url], lambda: 1.0)
        await without.read_all(session)
        assert "--metrics-token-file" in without.figures(worker.url)["problem"]
        with_it = Scraper(ScrapeOptions(token_file=file), lambda: [worker.url], lambda: 1.0)
        await with_it.read_all(session)
        assert with_it.figures(worker.url)["problem"] is None
        assert with_it._credential("http://10.0.0.1:1") == {}, "never in the clear over a network"
        assert with_it._credential("https://10.0.0.1:1") == {}, "any name's certificate is had by anybody"
        named = ScrapeOptions(token_file=file, ca_file=Authority(tmp_path, "metrics-ca").pem)
        vouched = Scraper(named, list, lambda: 1.0)
        assert vouched._credential("https://10.0.0.1:1") == {"Authorization": "Bearer t0ken"}
        assert vouched._credential("http://10.0.0.1:1") == {}


async def test_workers_that_are_gone_are_forgotten() -> None:
    urls = ["http://127.0.0.1:1"]
    scraper = Scraper(ScrapeOptions(), lambda: urls, lambda: 1.0)
    async with aiohttp.ClientSession() as session:
        await scraper.read_all(session)
        assert list(scraper.workers) == urls
        urls.clear()
        await scraper.read_all(session)
        assert not scraper.workers


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        ScrapeOptions(cert_file=tmp_path / "c")
    with pytest.raises(UsageError):
        Scraper(ScrapeOptions(ca_file=tmp_path / "nothing"), list, lambda: 1.0)


MALFORMED = ("host-1:10259", "http://[::1", "http://", "https://a:b", "\x00", "http://h:99999999", "/", "http:")


@pytest.mark.parametrize("address", MALFORMED)
async def test_a_malformed_address_ends_nothing(tmp_path: Path, address: str) -> None:
    file = tmp_path / "token"
    file.write_text("t0ken")
    async with MetricsProcess(FIRST).serving() as worker, aiohttp.ClientSession() as session:
        scraper = Scraper(ScrapeOptions(token_file=file), lambda: [address, worker.url], lambda: 1.0)
        await scraper.read_all(session)
        assert scraper.figures(address)["problem"].startswith("does not answer")
        assert scraper.figures(worker.url)["problem"] is None


@pytest.mark.parametrize("host", ["10.0.0.1:1", "127.0.0.1.example:1", "example:1", "user@example:1"])
async def test_a_token_goes_to_nobody_else_unvouched(tmp_path: Path, host: str) -> None:
    file = tmp_path / "token"
    file.write_text("t0ken")
    scraper = Scraper(ScrapeOptions(token_file=file), list, lambda: 1.0)
    assert scraper._credential(f"https://{host}") == scraper._credential(f"http://{host}") == {}
    assert scraper._credential("http://[::1]:1") == {"Authorization": "Bearer t0ken"}


ELSEWHERE_URLS = (
    "http://169.254.169.254/latest",
    "http://10.0.0.9:10259",
    "http://db.internal:5432",
    "https://evil.example",
    "http://me.evil.example:1",
    "http://localhost@evil.example:1",
    "http://2130706433:1",
    "file:///etc/passwd",
    "http://[::ffff:a9fe:a9fe]:80",
    "//evil.example",
    "http://[",
    "",
)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://me:1", "http://0.0.0.0:1"]
)
def test_this_machine_is_asked(url: str) -> None:
    assert FollowedHosts(own="me").follow(url)


@pytest.mark.parametrize("url", ELSEWHERE_URLS)
def test_other_hosts_are_not_asked(url: str) -> None:
    assert not FollowedHosts(own="me").follow(url)


@pytest.mark.parametrize(
    ("host", "asked", "not_asked"),
    [
        ("10.1.0.0/16", "http://10.1.2.3:1", "http://10.2.0.1:1"),
        ("10.1.2.3", "http://10.1.2.3:1", "http://10.1.2.4:1"),
        ("fd00::/8", "http://[fd00::7]:1", "http://[fe80::7]:1"),
        ("*.workers.example.org", "http://a.workers.example.org:1", "http://workers.example.org.evil.example:1"),
        ("Worker-1", "http://worker-1:1", "http://worker-2:1"),
    ],
)
def test_hosts_that_were_given_are_asked(host: str, asked: str, not_asked: str) -> None:
    hosts = FollowedHosts([host], own="me")
    assert hosts.follow(asked)
    assert not hosts.follow(not_asked)


@pytest.mark.parametrize("host", ["", "http://a", "a*", "a b", "u@a"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="--metrics-host"):
        FollowedHosts([host])


async def test_an_address_elsewhere_is_said_and_never_called() -> None:
    registered = ["http://169.254.169.254"]
    scraper = Scraper(ScrapeOptions(), lambda: registered, lambda: 1.0, follows=FollowedHosts(own="me").follow)
    async with plain_session(1.0) as session:
        await scraper.read_all(session)
    assert scraper.figures(registered[0]) == {"problem": ELSEWHERE}
