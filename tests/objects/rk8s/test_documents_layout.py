"""What is read line by line is what libyaml reads."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.objects.rk8s.samples import POD, changed
from wharfinger.objects.rk8s.documents import head_of
from wharfinger.objects.rk8s.tree import parse

LINES = """\
  name: web-1
  name: ''
  uid: 5f0c
  labels:
  labels: {}
    app: web
    v: 1:30
    a/b.c: yes
    d: "x: y # z"
    e: 'it is'
    f:
  ownerReferences:
  - kind: Pod
    name: n
  ownerReferences: []
  generation: 0
  finalizers: null
  - x
      deep: 1
   odd: 1
  g: a b
  h: *a
  i: a: b
  j: - b
  k: ~
  l: |
  m: "a
  n: {a: b}
  # a remark
  o: NULL
  ? p
  q: a:

""".splitlines(keepends=True)


def typed(value: Any) -> Any:
    """The value with the types of what is in it: a scalar without quotes may become a number."""
    if isinstance(value, dict):
        return {key: typed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [typed(each) for each in value]
    return type(value), value


OWN = ["web-1", "null", "''", "a: b", "1e3", "2026-04-28T12:00:00.1Z", "x # y", "x\n   y", "x\n  name: y", ""]


@settings(max_examples=400)
@given(st.lists(st.sampled_from(LINES), max_size=9), st.none() | st.tuples(*[st.sampled_from(OWN)] * 4))
def test_metadata_is_read_line_by_line_as_libyaml_reads_it(
    lines: list[str], own: tuple[str, str, str, str] | None
) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n" + "".join(lines)
    if own is not None:
        first = "  name: {}\n  namespace: {}\n  uid: {}\n".format(*own)
        text = f"apiVersion: v1\nkind: Pod\nmetadata:\n{first}{''.join(lines)}  creationTimestamp: {own[3]}\n"
    found = head_of(text)

    assert found is None or typed(found) == typed(parse(text))


def test_metadata_as_the_writer_lays_it_out_needs_no_libyaml() -> None:
    owner = "ownerReferences:\n  - apiVersion: v1\n    kind: ReplicaSet\n    name: web\n    controller: true"
    for text in (POD, changed(POD, "ownerReferences: null", owner).decode()):
        head = text[: text.index("spec:\n")]

        assert typed(head_of(head)) == typed(parse(head))
