"""The table of views: every name can be imported."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest

from wharfinger.page.parts import PageView
from wharfinger.page.views import VIEWS


@pytest.mark.parametrize("name", VIEWS)
def test_each_name_of_the_table_is_a_view(name: str) -> None:
    assert issubclass(resolve_name(name), PageView)
