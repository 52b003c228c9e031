"""Reading single fields of a decoded mapping: typed, limited, and precise about what is wrong.

As in Kubernetes' own decoding, null means absent. Every reader raises `InvalidObject` naming the field;
`where` is the path of the mapping with its dot, such as `spec.`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.model.pod import NO_LABELS, NOTHING
from wharfinger.objects.model.quantities import LIMIT, IntOrPercent, parse_quantity, to_milli_precision

LIST_LIMIT = 4096
"""Entries of one list or mapping that is read; no real object comes near."""
TEXT_LIMIT = 64 * 1024
"""Characters of one text that is read: the longest that has a meaning here is a message."""

EMPTY: Mapping[str, Any] = {}


def mapping(obj: Mapping[str, Any], key: str, where: str = "") -> Mapping[str, Any]:
    """A nested mapping; empty when absent."""
    value = obj.get(key)
    if value is None:
        return EMPTY
    if value.__class__ is not dict and not isinstance(value, Mapping):  # the first one costs a tenth
        raise InvalidObject(f"{where}{key} is no mapping")
    return value


def part(obj: object, *names: str) -> Mapping[str, Any]:
    """What lies below these names; empty where anything on the way is no mapping, for objects that nothing checked."""
    for name in names:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj if isinstance(obj, Mapping) else EMPTY


def mappings(obj: Mapping[str, Any], key: str, where: str = "") -> Sequence[Mapping[str, Any]]:
    """A list of mappings; empty when absent."""
    value = sequence(obj, key, where)
    for index, entry in enumerate(value):
        if entry.__class__ is not dict and not isinstance(entry, Mapping):
            raise InvalidObject(f"{where}{key}[{index}] is no mapping")
    return value


def sequence(obj: Mapping[str, Any], key: str, where: str = "") -> Sequence[Any]:
    """A list of anything; empty when absent."""
    value = obj.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise InvalidObject(f"{where}{key} is no list")
    if len(value) > LIST_LIMIT:
        raise InvalidObject(f"{where}{key} has more than {LIST_LIMIT} entries")
    return value


def text(obj: Mapping[str, Any], key: str, where: str = "", default: str = "") -> str:
    """A text; `default` when absent."""
    value = obj.get(key)
    if value is None:
        return default
    if value.__class__ is str and len(value) <= TEXT_LIMIT and value.isascii():
        return value
    return checked_text(value, f"{where}{key}")


def choice(obj: Mapping[str, Any], key: str, where: str, words: Sequence[str], default: str | None) -> str:
    """One of these words; `default` when absent, and an error when that is None."""
    word = default if obj.get(key) is None else text(obj, key, where)
    if word is None:
        raise InvalidObject(f"{where}{key} is missing")
    if word not in words and word != default:
        raise InvalidObject(f"{where}{key} {word[:40]!r} is none of {', '.join(words)}")
    return word


def texts(obj: Mapping[str, Any], key: str, where: str = "") -> tuple[str, ...]:
    """A list of texts; empty when absent."""
    values = sequence(obj, key, where)
    return tuple([checked_text(value, f"{where}{key}[{index}]") for index, value in enumerate(values)])


def text_map(obj: Mapping[str, Any], key: str, where: str = "") -> Mapping[str, str]:
    """A mapping of texts (labels, selectors); empty when absent. A null value is an empty text."""
    value = mapping(obj, key, where)
    if not value:
        return NO_LABELS
    _limited(value, key, where)
    result = {}
    for name, entry in value.items():
        path = f"{where}{key}"
        result[checked_text(name, path)] = "" if entry is None else checked_text(entry, f"{path}[{_shown(name)}]")
    return result


def checked_text(value: object, path: str) -> str:
    """The value, when it is a text of bearable length that can be written as UTF-8."""
    if not isinstance(value, str):
        raise InvalidObject(f"{path} is no text")
    if len(value) > TEXT_LIMIT:
        raise InvalidObject(f"{path} is longer than {TEXT_LIMIT} characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidObject(f"{path} holds half of a surrogate pair") from None
    return value


def integer(obj: Mapping[str, Any], key: str, where: str, *, low: int, high: int) -> int | None:
    """An integer within bounds; None when absent."""
    value = obj.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidObject(f"{where}{key} is no integer")
    if not low <= value <= high:
        raise InvalidObject(f"{where}{key} is not between {low} and {high}")
    return value


def boolean(obj: Mapping[str, Any], key: str, where: str = "") -> bool:
    """A truth value; False when absent."""
    value = obj.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidObject(f"{where}{key} is neither true nor false")
    return value


def int_or_percent(obj: Mapping[str, Any], key: str, where: str = "", *, low: int | None = None) -> IntOrPercent | None:
    """A number, or a percentage such as `25%`; None when absent. `low`: the least number."""
    written = obj.get(key)
    if written is None:
        return None
    if isinstance(written, int) and not isinstance(written, bool) and (low is None or written >= low):
        return IntOrPercent(written)
    if isinstance(written, str) and written.endswith("%") and written[:-1].isdecimal():
        return IntOrPercent(int(written[:-1][:9]), percent=True)
    raise InvalidObject(f"{where}{key} is neither a number nor a percentage")


def quantities(obj: Mapping[str, Any], key: str, where: str = "") -> Mapping[str, int]:
    """A resource list in nano-units, none negative, no finer than milli-units; empty when absent. Null is zero."""
    value = mapping(obj, key, where)
    if not value:
        return NOTHING
    _limited(value, key, where)
    result = {}
    for name, amount in value.items():
        try:
            nanos = 0 if amount is None else parse_quantity(amount)
        except ValueError as error:
            raise InvalidObject(f"{where}{key}[{_shown(name)}]: {_shown(amount)} {error}") from None
        if nanos < 0:
            raise InvalidObject(f"{where}{key}[{_shown(name)}]: {_shown(amount)} is negative")
        result[checked_text(name, f"{where}{key}")] = to_milli_precision(nanos)
    return result


def _limited(value: Mapping[str, Any], key: str, where: str) -> None:
    if len(value) > LIST_LIMIT:
        raise InvalidObject(f"{where}{key} has more than {LIST_LIMIT} entries")


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > LIMIT:
        return "a number"  # perhaps one with too many digits to be written out
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."
