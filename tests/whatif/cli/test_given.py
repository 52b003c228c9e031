"""Names made of `metadata.generateName`."""

from __future__ import annotations

import pytest

from wharfinger.whatif.cli.given import generated, stem_of


def test_names_follow_from_the_stem_and_from_what_is_taken() -> None:
    first = generated("web-", ())
    second = generated("web-", {first})

    assert (first, second) == (generated("web-", ()), generated("web-", {first}))
    assert first != second
    assert first.startswith("web-")
    assert len(first) == len("web-") + 5


def test_long_stems_are_cut_as_an_api_server_does() -> None:
    assert len(generated("w" * 80, ())) == 63


@pytest.mark.parametrize("metadata", [None, {}, {"generateName": 1}, {"generateName": "web-", "name": "x"}])
def test_objects_with_names_have_no_stem(metadata: object) -> None:
    assert stem_of({"metadata": metadata}) == ""
