"""Addresses that workers register: whoever registers one writes it, so nothing but its own figures may depend on it."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.page.metrics_process import MetricsProcess
from tests.page.test_scraping import FIRST
from wharfinger.page.follow.scraping import Scraper
from wharfinger.page.options import ScrapeOptions

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
