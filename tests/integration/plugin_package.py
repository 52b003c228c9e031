"""A plugin in a package of its own, which worker processes find by its entry point."""

from __future__ import annotations

from pathlib import Path


def put_plugin(folder: Path, name: str, source: str) -> None:
    """Write a package with the plugin `name`. Python finds it, as if it was installed, where it starts in the folder.

    Such a process may be a fork (tests/forked.py). With another PYTHONPATH it would import everything again.
    """
    package = name.lower()
    information = folder / f"{package}-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / f"{package}.py").write_text(source)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[wharfinger.plugins]\n{name} = {package}:{name}\n")
