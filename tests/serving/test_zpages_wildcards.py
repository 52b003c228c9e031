"""`/flagz` and `/statusz` as text: by default, asked for, and by wildcards."""

from __future__ import annotations

import pytest

from tests.serving.serving import get, serving
from tests.serving.test_zpages import OPTIONS, PAGES, content


@pytest.mark.parametrize("path", ["/flagz", "/statusz"])
@pytest.mark.parametrize("accept", ["", "text/plain", "*/*", "text/*", "application/json;q=0.1, */*", "text/html, */*"])
async def test_text_is_served_by_default_by_name_and_by_wildcard(path: str, accept: str) -> None:
    async with serving(OPTIONS, content(**PAGES)) as server:
        code, text = await get(server, path, headers={"Accept": accept} if accept else {})

    assert (code, text.split("\n")[1]) == (200, f"kube-scheduler {path[1:]}")
