"""Metadata of objects and of pod templates, labels, and selectors of labels."""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.objects.documents.checks import words
from wharfinger.objects.documents.checks.place import FieldPlace

_MOST_ANNOTATIONS = 256 * 1024
"""Bytes of keys and values together."""


def check_metadata(
    metadata: FieldPlace, name_rule: Callable[[str], list[str]] = words.dns_subdomain, *, namespaced: bool = True
) -> None:
    """The metadata of an object. `name_rule`: what is wrong with a name."""
    name = metadata["name"]
    if name.text:
        name.each(name_rule(name.text))
    elif not metadata["generateName"].text:
        name.required("name or generateName is required")
    namespace = metadata["namespace"]
    if namespaced and namespace.text:
        namespace.each(words.dns_label(namespace.text))
    check_labels(metadata["labels"])
    check_annotations(metadata["annotations"])
    _check_owners(metadata["ownerReferences"])


def check_labels(labels: FieldPlace) -> None:
    """Labels, or a selector that looks like labels."""
    for key, value in labels.map.items():
        labels.each(words.label_key(key), key)
        labels.each(words.label_value(value or ""), value)


def check_annotations(annotations: FieldPlace) -> None:
    """Annotations of an object."""
    for key in annotations.map:
        annotations.each(words.label_key(key.lower()), key)
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
        requirement["key"].each(words.label_key(requirement["key"].text), requirement["key"].text)
        for value in requirement["values"].entries():
            value.each(words.label_value(value.text))


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
