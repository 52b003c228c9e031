"""No sentence of the documents has more than 30 words, and no line of prose more than 160 characters."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
RECORDS = {"docs/upstream-suite.md", *(f"docs/decisions/{path.name}" for path in ROOT.glob("docs/decisions/*.md"))}
"""What was decided and measured once stays in the words of then; their lines are wrapped."""
SENTENCE = "One two three four five six seven eight nine ten" + " more" * 20


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    """The script."""
    spec = importlib.util.spec_from_file_location("documents_prose", ROOT / "tools/documents/prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its classes look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sentences_and_lines_are_short(prose: ModuleType, document: Path) -> None:
    text = document.read_text()
    sentences = [] if document.relative_to(ROOT).as_posix() in RECORDS else [*prose.long_sentences(text)]

    assert sentences == [], "say it in two"
    assert [*prose.long_lines(text)] == [], f"python tools/documents/prose.py --wrap {document.relative_to(ROOT)}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{SENTENCE}.", 0),
        (f"{SENTENCE} again.", 1),
        (f"{SENTENCE}. Again.", 0),
        (f"{SENTENCE}\nagain.", 1),
        (f"- {SENTENCE}\n- again", 0),
        (f"{SENTENCE} `a b c d`", 1),
        (f"{SENTENCE[:-5]} `a b c d`", 0),
        (f"{SENTENCE[:-5]} [word](with a long address)", 0),
        (f"```\n{SENTENCE} again\n```", 0),
        (f"| cell | {SENTENCE} again |", 0),
    ],
)
def test_words_are_counted_by_sentence(prose: ModuleType, text: str, found: int) -> None:
    assert len([*prose.long_sentences(text)]) == found


def test_wrapping_keeps_lists_tables_code_and_links(prose: ModuleType) -> None:
    words = "word " * 40
    text = (
        f"# {words}\n\n{words}`some code` [a link](of/some/length.md) - {words}\n\n1. {words}\n2. short\n\n"
        f"| {words}|\n\n```\n{words}\n```\n\n- {words}\n\n      {words}\n"
    )

    wrapped = prose.wrapped(text)

    assert [*prose.long_lines(wrapped)] == []
    assert "`some code`" in wrapped
    assert "[a link](of/some/length.md)" in wrapped
    assert "\n- word" in wrapped
    assert "\n-\n" not in wrapped
    assert "\n   word" in wrapped, "further lines of an item stand below its text"
    assert [line for line in wrapped.splitlines() if line.startswith(("# ", "| "))] == [
        line for line in text.splitlines() if line.startswith(("# ", "| "))
    ]
    assert wrapped.split() == text.split()
    assert prose.wrapped(wrapped) == wrapped
