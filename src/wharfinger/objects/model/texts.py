"""Texts of bounded length: histories, records and lines of a UI have room for so much, whatever others wrote."""

from __future__ import annotations

from collections.abc import Sequence


def shortened(text: str, limit: int) -> str:
    """At most so many characters; a text that was cut says so by its last one."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int) -> str:
    """The same, without line breaks."""
    return shortened(" ".join(text.split()), limit)


def within(text: str, limit: int) -> str:
    """The text in at most so many bytes of UTF-8; one that was cut says so by its last character."""
    raw = text.encode()
    return text if len(raw) <= limit else raw[: limit - 3].decode(errors="ignore") + "…"


def listed(items: Sequence[str], limit: int) -> str:
    """The items with commas, in about so many bytes; those for which there is no room are counted."""
    told: list[str] = []
    left = limit
    for item in items:
        left -= len(item.encode()) + 2
        if told and left < 0:
            return f"{', '.join(told)} and {len(items) - len(told)} more"
        told.append(within(item, limit))
    return ", ".join(told)


def counted(names: Sequence[str], most: int) -> str:
    """The first names with commas; the others are counted."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def plain(text: str) -> str:
    """Text that others wrote, on one line and without power over the terminal.

    Control characters and bytes that are no text are shown as backslash escapes.
    """
    return text if text.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # how a byte that is no UTF-8 is kept in a key
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")
