"""ARCHITECTURE.md, the layers of import-linter and the packages agree; names of classes are unique, of tests short."""

from __future__ import annotations

import ast
import pkgutil
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import wharfinger

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "src" / "wharfinger", ROOT / "workflows", ROOT / "activities")
"""Where wings lie: all in one folder but these two, see `package-dir` in pyproject.toml."""

LONGEST_TEST_NAME = 70
"""A reader takes in a longer name only at the second look; what does not fit belongs into the docstring."""

Classes = dict[str, list[str]]
"""Name of a class -> file of each of its definitions."""


def layers() -> list[list[str]]:
    """The wings of each layer, top to bottom, as import-linter reads them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layered,) = [contract for contract in contracts if contract.get("containers") == ["wharfinger"]]
    return [[name.strip(" ()") for name in re.split(r"[|:]", layer)] for layer in layered["layers"]]


def wing_table() -> list[list[str]]:
    """The wings of each row of the table in ARCHITECTURE.md."""
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("| wing |"))
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        first_cell = re.split(r"(?<!\\)\|", line)[1]
        rows.append(re.findall(r"`([a-z_]+)`", first_cell))
    return rows


def packages() -> set[str]:
    """The modules and packages of wharfinger, without the door of `python -m`."""
    return {module.name for module in pkgutil.iter_modules(wharfinger.__path__)} - {"__main__"}


def public_classes() -> Classes:
    """Every public class that stands at the top level of a module."""
    found: Classes = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.py")):
            for name in re.findall(r"^class ([^\W_]\w*)", path.read_text(), flags=re.M):  # parsing takes two seconds
                found[name].append(path.relative_to(ROOT).as_posix())
    return found


def described(doubles: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    return [f"{name}: {', '.join(files)}" for name, files in doubles]


def test_the_wing_table_lists_every_package_once() -> None:
    listed = [wing for row in wing_table() for wing in row]

    assert sorted(listed) == sorted(packages())


def test_the_layers_list_every_package_once() -> None:
    listed = [wing for layer in layers() for wing in layer if wing != "__main__"]

    assert sorted(listed) == sorted(packages())


def test_the_wing_table_has_the_order_of_the_layers() -> None:
    depth = {wing: number for number, layer in enumerate(layers()) for wing in layer}
    rows = [[depth[wing] for wing in row] for row in wing_table()]

    assert [number for row in rows for number in row] == sorted(number for row in rows for number in row)


def test_no_two_public_classes_have_one_name() -> None:
    doubles = {name: places for name, places in public_classes().items() if len(places) > 1}

    assert described(sorted(doubles.items())) == []


def test_classes_that_texts_name_with_their_module_are_there() -> None:
    """`module.Class`: a class that gets another name is still called by the former one in texts."""
    modules: dict[str, list[Path]] = defaultdict(list)
    for folder in FOLDERS:
        for path in folder.rglob("*.py"):
            modules[path.stem].append(path)

    @cache
    def tops(module: str) -> set[str]:
        parsed = (ast.parse(path.read_text()) for path in modules[module])
        return {name for module in parsed for node in module.body for name in defined(node)}

    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *(p for each in FOLDERS for p in each.rglob("*.py"))]
    named = [
        (path, module, name)
        for path in texts
        if path.name != "CHANGELOG.md"
        for module, name in re.findall(r"`(?:[a-z_]+\.)*([a-z_]+)\.([A-Z]\w*)[`.(]", path.read_text())
        if module in modules
    ]

    assert named
    assert [f"{path.relative_to(ROOT)}: {at}.{name}" for path, at, name in named if name not in tops(at)] == []


def defined(node: ast.stmt) -> Iterable[str]:
    """The names that a statement of a module defines."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def test_names_of_tests_have_at_most_70_characters() -> None:
    """Of test functions and of methods of test classes; to parse all files would take two seconds."""
    names = [
        (path, name)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), flags=re.M)
    ]

    assert len(names) > 1000
    assert [
        f"{path.relative_to(ROOT)}: {len(name)} characters: {name}"
        for path, name in names
        if len(name) > LONGEST_TEST_NAME
    ] == []


def test_the_architecture_stays_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= 15_000
