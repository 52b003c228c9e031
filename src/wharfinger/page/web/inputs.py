"""Texts of requests, read within limits: topics of the stream, and label selectors. Anything else is a `BadInput`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from wharfinger.errors import WharfingerError
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement

LONGEST_NAME = 253
LONGEST_SELECTOR = 1000
MOST_REQUIREMENTS = 30
LONGEST_TOPIC = 600
_LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_SET = re.compile(r"\s*(!?)\s*([^\s!=,()]+)\s*(?:(in|notin)\s*\(([^()]*)\))?\s*", re.ASCII)


class BadInput(WharfingerError):
    """A request asks for what cannot be; its text is for whoever sent it."""


class TooLong(WharfingerError):
    """A question was given up, or never got its turn."""


def topic_pattern(topics: Mapping[str, int]) -> re.Pattern[str]:
    """What matches these topics: how many names follow in one; where none does, perhaps a namespace."""
    namespace, name = rf"(?:\?namespace=[^/?]{{0,{LONGEST_NAME}}})?", rf"[^/]{{1,{LONGEST_NAME}}}"
    shapes = [topic + (":" + "/".join([name] * names) if names else namespace) for topic, names in topics.items()]
    return re.compile("|".join(shapes))


def topics_of(text: str, most: int, known: re.Pattern[str]) -> list[str]:
    """The topics of a stream, separated by commas. Raises `BadInput`."""
    found = list(dict.fromkeys(filter(None, text.split(","))))
    if len(found) > most or any(len(one) > LONGEST_TOPIC or not one.isprintable() for one in found):
        raise BadInput(f"topics: at most {most}, each a short word")
    unknown = next((one for one in found if not known.fullmatch(one)), None)
    if unknown is not None:
        raise BadInput(f"topics: there is no topic {unknown[:80]!r}")
    return found


def selector_of(text: str) -> LabelSelector:
    """A label selector as kubectl takes it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises `BadInput`."""
    if len(text) > LONGEST_SELECTOR:
        raise BadInput(f"selector: at most {LONGEST_SELECTOR} characters")
    found = [_requirement(part) for part in _parts(text) if part.strip()]
    if len(found) > MOST_REQUIREMENTS:
        raise BadInput(f"selector: at most {MOST_REQUIREMENTS} requirements")
    return LabelSelector(tuple(found))


def _parts(text: str) -> list[str]:
    """Cut at the commas that are in no parentheses."""
    parts, depth, begin = [], 0, 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth not in (0, 1):
            raise BadInput("selector: its parentheses do not match")
        if char == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    if depth:
        raise BadInput("selector: its parentheses do not match")
    return [*parts, text[begin:]]


def _requirement(part: str) -> Requirement:
    for sign, operator in (("!=", Operator.NOT_IN), ("==", Operator.IN), ("=", Operator.IN)):
        key, found, value = part.partition(sign)
        if found and "(" not in key:
            return Requirement(_key(key), operator, (_value(value),))
    match = _SET.fullmatch(part)
    if match is None:
        raise BadInput(f"selector: {part.strip()[:80]!r} is no requirement")
    negated, key, word, values = match.groups()
    if word:
        if negated:
            raise BadInput(f"selector: {part.strip()[:80]!r} is no requirement")
        operator = Operator.IN if word == "in" else Operator.NOT_IN
        return Requirement(_key(key), operator, tuple(_value(value) for value in values.split(",")))
    return Requirement(_key(key), Operator.DOES_NOT_EXIST if negated else Operator.EXISTS, ())


def _part(text: str, shape: re.Pattern[str], what: str) -> str:
    part = text.strip()
    if not shape.fullmatch(part):
        raise BadInput(f"selector: {part[:80]!r} is no {what} of a label")
    return part


_key = partial(_part, shape=_LABEL_KEY, what="key")
_value = partial(_part, shape=_LABEL_VALUE, what="value")
