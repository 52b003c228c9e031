"""Metadata of objects and of pod templates, labels, selectors of labels, and the rules of names and other words.

Each rule answers what is wrong, nothing where the word is right. Rules and messages are those of
`k8s.io/apimachinery/pkg/util/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from wharfinger.objects.documents.checks.place import FieldPlace

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_LENGTH = "must be no more than 63 bytes"
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_KEY})?')"
)
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_ENVIRONMENT_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def _no_more_than(length: int) -> str:
    return f"must be no more than {length} characters"


def dns_label(word: str) -> list[str]:
    """An RFC 1123 label: a namespace, a container's name."""
    found = [_no_more_than(63)] if len(word) > 63 else []
    if not re.fullmatch(_LABEL, word):
        found.append("must not contain dots" if re.fullmatch(_SUBDOMAIN, word) else _LABEL_RULE)
    return found


def dns_subdomain(word: str) -> list[str]:
    """An RFC 1123 subdomain: the name of most objects."""
    found = [_no_more_than(253)] if len(word) > 253 else []
    return found if re.fullmatch(_SUBDOMAIN, word) else [*found, _SUBDOMAIN_RULE]


def label_key(word: str) -> list[str]:
    """The key of a label, also called a qualified name."""
    prefix, *rest = word.split("/")
    if len(rest) > 1:
        return [
            f"a valid label key {_KEY_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    found: list[str] = []
    if rest:
        found += [f"prefix part {rule}" for rule in (dns_subdomain(prefix) if prefix else ["must be non-empty"])]
    name = rest[0] if rest else prefix
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append(f"name part {_LABEL_LENGTH}")
    return found if re.fullmatch(_KEY, name) else [*found, f"name part {_KEY_RULE}"]


def label_value(word: str) -> list[str]:
    """The value of a label."""
    found = [_LABEL_LENGTH] if len(word) > 63 else []
    return found if not word or re.fullmatch(_KEY, word) else [*found, _VALUE_RULE]


def port_name(word: str) -> list[str]:
    """The name of a container's port."""
    found = [_no_more_than(15)] if len(word) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", word):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", word):
        found.append("must contain at least one letter (a-z)")
    if "--" in word:
        found.append("must not contain consecutive hyphens")
    if word.startswith("-") or word.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def port(number: int) -> list[str]:
    """The number of a port."""
    return in_range(number, 1, 65535)


def in_range(number: int, least: int, most: int) -> list[str]:
    """A number within bounds."""
    return [] if least <= number <= most else [f"must be between {least} and {most}, inclusive"]


def percent(word: str) -> list[str]:
    """A percentage."""
    return [] if re.fullmatch("[0-9]+%", word) else [_PERCENT_RULE]


def environment_name(word: str) -> list[str]:
    """The name of an environment variable."""
    right = all(char.isascii() and char.isprintable() and char != "=" for char in word)
    return [] if right else [_ENVIRONMENT_RULE]


_MOST_ANNOTATIONS = 256 * 1024
"""Bytes of keys and values together."""


def check_metadata(metadata: FieldPlace, name_rule: Callable[[str], list[str]], *, namespaced: bool) -> None:
    """The metadata of an object. `name_rule`: what is wrong with a name."""
    name = metadata["name"]
    if name.text:
        name.each(name_rule(name.text))
    elif not metadata["generateName"].text:
        name.required("name or generateName is required")
    namespace = metadata["namespace"]
    if namespaced and namespace.text:
        namespace.each(dns_label(namespace.text))
    check_labels(metadata["labels"])
    check_annotations(metadata["annotations"])
    _check_owners(metadata["ownerReferences"])


def check_labels(labels: FieldPlace) -> None:
    """Labels, or a selector that looks like labels."""
    for key, value in labels.map.items():
        labels.each(label_key(key), key)
        labels.each(label_value(value or ""), value)


def check_annotations(annotations: FieldPlace) -> None:
    """Annotations of an object."""
    for key in annotations.map:
        annotations.each(label_key(key.lower()), key)
    size = sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.map.items())
    if size > _MOST_ANNOTATIONS:
        annotations.invalid(f"may not be more than {_MOST_ANNOTATIONS} bytes", "")


def _check_owners(owners: FieldPlace) -> None:
    controllers = []
    for owner in owners.entries():
        for field, why in (("apiVersion", "version must not be empty"), ("kind", ""), ("name", ""), ("uid", "")):
            if not owner[field].text:
                owner[field].invalid(why or "must not be empty", "")
        if owner["controller"].value is True:
            controllers.append(f"{owner['kind'].text}/{owner['name'].text}")
    if len(controllers) > 1:
        told = f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        owners.invalid(f"Only one reference can have Controller set to true. {told}")


def check_label_selector(selector: FieldPlace) -> None:
    """A selector of labels; nothing is wrong where there is none."""
    check_labels(selector["matchLabels"])
    for requirement in selector["matchExpressions"].entries():
        if not check_number_of_values(requirement):
            requirement["operator"].at(requirement["operator"].text).invalid("not a valid selector operator")
        requirement["key"].each(label_key(requirement["key"].text), requirement["key"].text)
        for value in requirement["values"].entries():
            value.each(label_value(value.text))


def check_number_of_values(requirement: FieldPlace) -> bool:
    """Whether the operator is one of the four of labels; if so, whether it has values is checked."""
    values = requirement["values"]
    match requirement["operator"].text:
        case "In" | "NotIn":
            if not values.entries():
                values.required("must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values.entries():
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case _:
            return False
    return True


def is_empty(selector: FieldPlace) -> bool:
    """Whether a selector asks for nothing."""
    return not selector["matchLabels"].map and not selector["matchExpressions"].entries()
