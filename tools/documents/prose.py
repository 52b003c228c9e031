"""Measure and wrap the prose of Markdown files: no sentence of more than 30 words, no line of more than 160 characters.

Code blocks, tables, headings and the addresses of links do not count.

    python tools/documents/prose.py FILE ...          # what is too long
    python tools/documents/prose.py --wrap FILE ...   # wrap paragraphs and list items that have a line that is too long
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MOST_WORDS = 30
MOST_CHARACTERS = 160
WIDTH = 120
"""Characters of a line after wrapping."""

LINK = re.compile(r"(!?\[[^\]]*\])\([^)]*\)")
ITEM = re.compile(r"(\s*)([-*]|\d+\.) +")
SENTENCE_END = re.compile(
    r"(?<=[.!?:;])[\"”)*_]*\s+(?=[A-Z*\"“(\[]|CODE|wharfinger|etcd|kube-scheduler|libscheduler|rk8s)"
)
"""Names that are written in small letters begin sentences, too."""
UNBREAKABLE = re.compile(r"(?:`[^`]*`|!?\[[^\]]*\](?:\([^)]*\))?|[^\s`\[]|[\[`])+")
BEGINS_A_BLOCK = re.compile(r"[-+*#>|=:]|\d+[.)]|!!!|```")


class Block(NamedTuple):
    """A paragraph or a list item."""

    line: int
    """The number of its first line, from 1."""
    lines: list[str]

    @property
    def indent(self) -> str:
        """What stands before its second and further lines."""
        item = ITEM.match(self.lines[0])
        return " " * item.end() if item else re.match(r"\s*", self.lines[0]).group()  # type: ignore[union-attr]

    @property
    def text(self) -> str:
        """Its words on one line, without the mark of a list item."""
        item = ITEM.match(self.lines[0])
        return " ".join(
            [self.lines[0][item.end() if item else 0 :].strip(), *(line.strip() for line in self.lines[1:])]
        )


def blocks(text: str) -> Iterator[Block]:
    """The paragraphs and list items of a document, in order."""
    fence, current, begins = "", [], 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        mark = re.match(r"```+|~~~+", bare)
        ends = fence or mark or not bare or bare.startswith(("|", "#", "!!!", "<")) or ITEM.match(line)
        if ends and current:
            yield Block(begins, current)
            current = []
        if mark and (not fence or bare == fence):
            fence = "" if fence else mark.group()
        elif not fence and bare and not bare.startswith(("|", "#", "!!!", "<")):
            begins = begins if current else number
            current = [*current, line]


def long_sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences with too many words, each with the line at which its paragraph begins. Code counts as a word."""
    for block in blocks(text):
        plain = LINK.sub(r"\1", re.sub(r"`[^`]*`", "CODE", block.text))
        for sentence in SENTENCE_END.split(plain):
            if len(sentence.split()) > MOST_WORDS:
                yield block.line, sentence


def long_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of prose that are too long, with their numbers."""
    for block in blocks(text):
        for number, line in enumerate(block.lines, block.line):
            if len(LINK.sub(r"\1", line)) > MOST_CHARACTERS:
                yield number, line


def wrapped(text: str) -> str:
    """The same document with its long paragraphs and list items wrapped; code, links and tables stay whole."""
    lines = text.splitlines()
    for block in reversed([*blocks(text)]):
        if any(len(line) > MOST_CHARACTERS for line in block.lines):
            lines[block.line - 1 : block.line - 1 + len(block.lines)] = _wrapped(block)
    return "\n".join(lines) + "\n"


def _wrapped(block: Block) -> Iterator[str]:
    first = ITEM.match(block.lines[0])
    line = first.group() if first else block.indent
    empty = True
    for word in UNBREAKABLE.findall(block.text):
        if not empty and len(line) + 1 + len(word) > WIDTH and not BEGINS_A_BLOCK.match(word):
            yield line
            line, empty = block.indent, True
        line += word if empty else f" {word}"
        empty = False
    yield line


def main(arguments: list[str]) -> int:
    """Wrap the files, or print what is too long in them."""
    wrap = arguments[:1] == ["--wrap"]
    found = 0
    for path in map(Path, arguments[wrap:]):
        text = path.read_text()
        if wrap:
            path.write_text(wrapped(text))
            continue
        for what, places in (("sentence", long_sentences(text)), ("line", long_lines(text))):
            for number, place in places:
                found += 1
                sys.stdout.write(f"{path}:{number}: {what}: {place}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
