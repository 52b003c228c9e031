"""The system's Chromium, driven by Playwright; tests that need it are skipped where it is not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Playwright or no Chromium here: `make browser` installs both where the machine allows"
FRAMES = """async (steps) => {
  const table = document.querySelector(".vtable"), took = [];
  let before = performance.now();
  while (table.scrollTop + table.clientHeight < table.scrollHeight - 1 && took.length < steps) {
    table.scrollTop += 480;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    took.push(now - before);
    before = now;
  }
  return took;
}"""
"""Scrolls the explorer, at most so many steps; answers how long each frame took, milliseconds."""


def executable() -> str:
    """Where Chromium is; empty where it is not."""
    named = os.environ.get("CHROMIUM", "")
    return named or next((found for name in NAMES if (found := shutil.which(name))), "")


def there() -> bool:
    """Whether a browser can be driven."""
    return find_spec("playwright") is not None and bool(executable())


@asynccontextmanager
async def launched() -> AsyncIterator[Any]:
    """A headless browser with software rendering."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable(), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            await browser.close()
