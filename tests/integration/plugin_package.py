"""A plugin in a package of its own, which worker processes find by its entry point."""

from __future__ import annotations

from pathlib import Path


def installed_plugin(folder: Path, name: str, source: str) -> dict[str, str]:
    """Write a package with the plugin `name`; the variable that makes Python find it, as if it was installed."""
    package = name.lower()
    information = folder / f"{package}-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / f"{package}.py").write_text(source)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[wharfinger.plugins]\n{name} = {package}:{name}\n")
    return {"PYTHONPATH": str(folder)}
