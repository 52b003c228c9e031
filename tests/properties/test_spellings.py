"""Every field that scheduling reads, in every other spelling: the object is invalid, never read without the field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.objects.documents.complete import EVERYTHING
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import (
    decode_node,
    decode_pod,
    decode_surrounding,
    node_from_mapping,
    pod_from_mapping,
    surrounding_from_mapping,
)
from wharfinger.objects.documents.kubernetes_fields import kubernetes_fields
from wharfinger.objects.documents.pods import INLINE_GROUP
from wharfinger.objects.documents.spelling import READ

Path = tuple[str | int, ...]


def type_of(obj: Mapping[str, Any]) -> str:
    version = str(obj["apiVersion"]).replace("scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2")
    return kubernetes_fields().kinds[f"{version} {obj['kind']}"]


def read_fields(value: Any, name: str, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The place of every field that is read, and the mapping's type."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from read_fields(entry, name, (*path, index))
    elif isinstance(value, dict) and name in READ:
        for field in value:
            if field in READ[name]:
                yield (*path, field), name
                yield from read_fields(value[field], kubernetes_fields().types[name].get(field, ""), (*path, field))


OURS = {("core/v1.PodSchedulingGroup", INLINE_GROUP)}
"""No field of Kubernetes: other formats are read into it, and without it a pod waits for its PodGroup."""
PLACES = [(obj, path, name) for obj in EVERYTHING for path, name in read_fields(obj, type_of(obj))]


def respelt(obj: dict[str, Any], path: Path, spelling: str) -> dict[str, Any]:
    """A copy in which the field at the end of the path has another name."""
    copy: dict[str, Any] = json.loads(json.dumps(obj))
    inside: Any = copy
    for part in path[:-1]:
        inside = inside[part]
    inside[spelling] = inside.pop(path[-1])
    return copy


def decode(obj: Mapping[str, Any], kind: str) -> object:
    """Decode as the key's kind says: a misspelt `kind` does not choose another decoder."""
    value = json.dumps(obj).encode()
    match kind:
        case "Pod":
            return decode_pod(value)
        case "Node":
            return decode_node(value)
        case _:
            return decode_surrounding(value, kind)


def spellings(field: str) -> list[str]:
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", field).lower()
    one = field[:-3] + "y" if field.endswith("ies") else field.removesuffix("s")
    many = field[:-1] + "ies" if field.endswith("y") else f"{field}s"
    found = (words, words.replace("_", "-"), field.lower(), field.upper(), field[0].upper() + field[1:], one, many)
    return [spelling for spelling in dict.fromkeys(found) if spelling != field]


def test_every_field_that_is_read_stands_in_the_objects_of_this_test() -> None:
    """So none is left out of what follows."""
    found = {(name, path[-1]) for _, path, name in PLACES}
    expected = {(name, field) for name, fields in READ.items() for field in fields}
    assert expected <= found


@pytest.mark.parametrize("number", range(len(EVERYTHING)))
def test_another_spelling_of_a_read_field_makes_the_object_invalid(number: int) -> None:
    obj = EVERYTHING[number]
    decode(obj, str(obj["kind"]))
    known = kubernetes_fields().types
    for path, name in read_fields(obj, type_of(obj)):
        field = str(path[-1])
        for spelling in spellings(field):
            if spelling in known[name]:
                continue  # another field of Kubernetes
            with pytest.raises(InvalidObject) as refused:
                decode(respelt(obj, path, spelling), str(obj["kind"]))
            if field not in ("kind", "metadata", "name"):  # without these it is invalid for a reason of its own
                assert f"{spelling}: unknown field; did you mean {field}?" in str(refused.value), path


@given(data=st.data())
def test_any_spelling_of_a_read_field_is_invalid_or_means_the_same(data: st.DataObject) -> None:
    obj, path, name = data.draw(st.sampled_from(PLACES))
    field = str(path[-1])
    joint = st.sampled_from(["", "", "", "_", "-", " ", "."])
    upper = data.draw(st.lists(st.booleans(), min_size=len(field), max_size=len(field)))
    spelling = "".join(
        (data.draw(joint) if char.isupper() else "") + (char.upper() if large else char.lower())
        for char, large in zip(field, upper, strict=True)
    ) + data.draw(st.sampled_from(["", "s", "es", "_"]))
    if spelling in kubernetes_fields().types[name]:
        return
    with pytest.raises(InvalidObject):
        decode(respelt(obj, path, spelling), str(obj["kind"]))


class Reader(dict[str, Any]):
    """A mapping that notes which of its fields are read."""

    def __init__(self, fields: Mapping[str, Any], name: str, seen: set[tuple[str, str]]) -> None:
        types = kubernetes_fields().types.get(name, {})
        super().__init__({key: reader(value, types.get(key, ""), seen) for key, value in fields.items()})
        self.name, self.seen = name, seen

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add((self.name, key))
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.seen.add((self.name, key))
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.seen.add((self.name, str(key)))
        return super().__contains__(key)


def reader(value: Any, name: str, seen: set[tuple[str, str]]) -> Any:
    if isinstance(value, list):
        return [reader(entry, name, seen) for entry in value]
    return Reader(value, name, seen) if isinstance(value, dict) and name else value


@pytest.mark.parametrize("number", range(len(EVERYTHING)))
def test_decoding_reads_no_field_whose_spelling_is_not_checked(number: int) -> None:
    """A field that a reader takes in, and `READ` forgets, would be lost when it is misspelt."""
    obj, seen = EVERYTHING[number], set[tuple[str, str]]()
    read = Reader(obj, type_of(obj), seen)
    match obj["kind"]:
        case "Pod":
            pod_from_mapping(read)
        case "Node":
            node_from_mapping(read)
        case kind:
            surrounding_from_mapping(read, kind)
    unchecked = {(name, field) for name, field in seen - OURS if field not in READ.get(name, ())}
    assert not unchecked
