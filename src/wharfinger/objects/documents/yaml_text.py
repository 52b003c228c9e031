"""Plain values to YAML that reads back as the same values, here and with other YAML readers."""

from __future__ import annotations

import re
from typing import Any

import yaml

from wharfinger.objects.documents.yaml_events import FLOAT, INTEGER


class _Dumper(yaml.SafeDumper):
    """Quotes whatever some YAML reader could take for something else than text."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - values are written out, never shared
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - lists stand in
        super().increase_indent(flow, False)


_LINE_BREAKS = frozenset("\x85\u2028\u2029\r")
"""Characters that only double quotes carry unchanged."""


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = '"' if _LINE_BREAKS.intersection(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)

# On top of YAML 1.1's, which PyYAML brings: what YAML 1.2 reads as numbers.
for _tag, _pattern in (("int", INTEGER), ("float", FLOAT)):
    _whole = re.compile(rf"(?:{_pattern.pattern})\Z", re.ASCII)
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _whole, list("-+.0123456789"))


def to_yaml(value: Any) -> str:
    """One YAML document, keys in their order."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text.removesuffix("...\n")
