"""Which addresses in etcd the page asks for metrics: those of this machine, and of the hosts that it was given."""

from __future__ import annotations

import pytest

from wharfinger.errors import UsageError
from wharfinger.page.follow.scraping import ELSEWHERE, FollowedHosts, Scraper, plain_session
from wharfinger.page.options import ScrapeOptions

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
