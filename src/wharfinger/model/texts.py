"""Texts of bounded length: histories, records and lines of a UI have room for so much, whatever others wrote."""

from __future__ import annotations


def shortened(text: str, limit: int) -> str:
    """At most so many characters; a text that was cut says so by its last one."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int) -> str:
    """The same, without line breaks."""
    return shortened(" ".join(text.split()), limit)
