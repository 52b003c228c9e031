"""What requests ask for, checked: names, numbers, selectors and forms within limits. Anything else is a `BadInput`.

The page changes something (`--allow-actions`) only by a form that has a reason and repeats the name. What is done is
noted under the viewer's name.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wharfinger.errors import WharfingerError
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.page.follow.plain import text

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


def name_of(text: str, what: str) -> str:
    """A name of an object, or of a namespace. Raises `BadInput`."""
    if not text or len(text) > LONGEST_NAME or "/" in text or not text.isprintable():
        raise BadInput(f"{what}: that is no name")
    return text


def optional_name(query: Mapping[str, str], parameter: str) -> str:
    """A name that may be left out; empty then. Raises `BadInput`."""
    text = query.get(parameter, "")
    return name_of(text, parameter) if text else ""


def number(query: Mapping[str, str], parameter: str, usual: int, *, least: int, most: int) -> int:
    """A whole number in a range. Raises `BadInput`."""
    text = query.get(parameter, "")
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= 9) or not least <= int(text) <= most:
        raise BadInput(f"{parameter}: a number from {least} to {most} is asked for")
    return int(text)


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


def _key(text: str) -> str:
    key = text.strip()
    if not _LABEL_KEY.fullmatch(key):
        raise BadInput(f"selector: {key[:80]!r} is no key of a label")
    return key


def _value(text: str) -> str:
    value = text.strip()
    if not _LABEL_VALUE.fullmatch(value):
        raise BadInput(f"selector: {value[:80]!r} is no value of a label")
    return value


def pod_key(found: Mapping[str, str]) -> PodKey:
    """Namespace and name out of an address. Raises `BadInput`."""
    return PodKey(name_of(found["namespace"], "namespace"), name_of(found["name"], "name"))


log = logging.getLogger(__name__)


class ActionForm(BaseModel):
    """What every action has to carry."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, str_strip_whitespace=True)

    reason: Annotated[str, Field(min_length=1, max_length=200)]
    confirm: Annotated[str, Field(min_length=1, max_length=253)]
    """The name of what is changed, again."""
    stage: Annotated[str, Field(max_length=63)] = ""
    """Of an update run: which stage is approved."""
    when: Literal["before", "after"] = "before"
    """Whether the stage may start, or end."""


def confirmed(body: bytes, name: str) -> ActionForm:
    """The form of an action on what has that name. Raises `BadInput`."""
    try:
        form = ActionForm.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BadInput(f"{text('.'.join(map(str, first['loc'])) or 'the form')}: {first['msg']}") from None
    if form.confirm != name:
        raise BadInput(f"confirm: repeat the name {text(name)}")
    return form


def done(about: str, form: ActionForm, who: str, *, written: bool, sentence: str) -> dict[str, Any]:
    """Note that an action was carried out, and tell it. `about`: the verb, and on what: `pause fleet=prod`."""
    log.info("action_done action=%s who=%r why=%r written=%s", about, who, form.reason, written)
    return {"written": written, "sentence": text(sentence)}
