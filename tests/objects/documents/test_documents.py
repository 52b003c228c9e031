"""YAML and JSON text: files of manifests, and the YAML dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.shares import in_quarters
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.documents import objects, parse, to_json
from wharfinger.objects.documents.yaml_text import to_yaml

TEXT = st.text(st.characters(exclude_categories=("Cs",))) | st.from_regex(r"[-+]?[0-9eE._xo]+", fullmatch=True)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,  # hypothesis draws a leaf in longer than it takes to write and read it
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"), ("y", "y"),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("2026-01-02", "2026-01-02"), ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"), ("12:30:45", "12:30:45"),
        ("12", 12), ("-3", -3), ("0644", 0o644), ("0o17", 15), ("0x1F", 31), ("089", 89), ("1_000", "1_000"),
        ("1.5", 1.5), ("1e3", 1000.0), (".inf", ".inf"), (".nan", ".nan"), ("1e999", "1e999"),
        ("100m", "100m"), ("'12'", "12"), ('"true"', "true"), ("!!str 12", "12"), ("! 12", "12"), ("!!int 12", 12),
    ],
)  # fmt: skip
def test_scalars_mean_what_manifests_mean_by_them(text: str, value: object) -> None:
    assert parse(f"a: {text}\n".encode()) == {"a": value}


@in_quarters(100)
@given(value=VALUES)
def test_what_is_written_as_yaml_is_read_back_the_same(quarter: int, value: Any) -> None:
    assert parse(to_yaml({"value": value}).encode()) == {"value": value}


def test_numbers_and_amounts_are_written_without_needless_quotes() -> None:
    assert to_yaml({"cpu": "100m", "port": "80", "on": "yes"}) == "cpu: 100m\nport: '80'\n'on': 'yes'\n"


def test_whole_numbers_with_an_exponent_are_integers() -> None:
    """Helm writes a million that way."""
    found = parse(b"a: 1e+06\nb: 2.0\nc: 1.5\nd: 1e30\n")

    assert found == {"a": 1000000, "b": 2, "c": 1.5, "d": 1e30}
    assert [type(value) for value in found.values()] == [int, int, float, float]


def test_keys_are_text() -> None:
    assert parse(b"1: a\ntrue: b\n") == {"1": "a", "true": "b"}


def test_anchors_and_merge_keys_work() -> None:
    text = b"base: &b {a: 1, c: 2}\nown: {<<: *b, a: 9}\nlist: [*b]\n"

    assert parse(text) == {"base": {"a": 1, "c": 2}, "own": {"a": 9, "c": 2}, "list": [{"a": 1, "c": 2}]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [*a]", "no finished anchor"),
        ("a: *nowhere", "anchor"),
        ("a: 1\na: 2", "stands twice"),
        ("a: !!python/object:os.system x", "tag"),
        ("a: !!binary aGk=", "tag"),
        ("? [a]\n: b", "a key that is no text"),
        ("a: [1, 2", "no YAML"),
        ("- " * 500 + "x", "nested deeper"),
        ("a: !!int x", "does not suit its tag"),
        ("a: {<<: 3}", "takes mappings"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidObject, match=reason):
        parse(text.encode())


def test_a_yaml_bomb_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]

    with pytest.raises(InvalidObject, match="expand too far"):
        parse("\n".join(lines).encode())


def test_a_file_holds_documents_lists_and_empty_parts() -> None:
    text = "---\nkind: Pod\n---\n---\n# nothing\n---\nkind: List\nitems:\n"
    text += "- kind: Node\n- kind: List\n  items: [{kind: Job}]\n"

    assert [obj["kind"] for obj in objects(text)] == ["Pod", "Node", "Job"]


def test_items_of_a_typed_list_get_its_kind() -> None:
    text = '{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}'

    assert list(objects(text)) == [{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}]


def test_json_files_may_hold_a_plain_list() -> None:
    assert list(objects('[{"kind": "Pod"}, {"kind": "Node"}]')) == [{"kind": "Pod"}, {"kind": "Node"}]


def test_document_that_is_no_object_is_passed_on_and_the_rest_is_read() -> None:
    assert list(objects("just words\n---\n- 3\n- kind: Pod\n")) == ["just words", 3, {"kind": "Pod"}]
    assert list(objects('{"kind": "List", "items": [3, {"kind": "Pod"}]}')) == [3, {"kind": "Pod"}]


def test_a_file_is_refused_where_its_syntax_ends() -> None:
    with pytest.raises(InvalidObject):
        list(objects("{"))


@in_quarters(100)
@given(value=VALUES)
def test_what_is_written_as_json_is_read_back_the_same(quarter: int, value: Any) -> None:
    assert parse(to_json({"value": value})) == {"value": value}


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**400, 0.1, 1e22, 5e-324, "\ud800", "\x00", "é"])
def test_every_number_and_text_survives_being_read_and_written(value: object) -> None:
    text = json.dumps({"value": value}).encode()

    read = parse(text)
    again = parse(to_json(read))

    assert read == again == {"value": value}
    assert type(again["value"]) is type(value)


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}'])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidObject, match="number"):
        parse(text.encode())


@pytest.mark.parametrize("depth", [200, 300, 900])
def test_what_is_nested_deeply_survives(depth: int) -> None:
    text = b"[" * depth + b"]" * depth

    assert to_json(parse(text)) == text


def test_what_is_nested_beyond_all_measure_is_refused() -> None:
    with pytest.raises(InvalidObject, match="nested"):
        parse(b"[" * 5000 + b"]" * 5000)
    nested: Any = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(InvalidObject, match="nested"):
        to_json(nested)
