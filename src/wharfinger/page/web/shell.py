"""What browsers load: the one shell for every view, its modules and style, and the small page for those without a key.

Files are those of this package, read once, under addresses that name their content: a browser keeps them until another
release has others. There is no build step.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib import resources
from typing import NamedTuple
from urllib.parse import unquote

ASSETS = "/assets/"
VIEWS = ("/", "/map", "/pending", "/pods", "/gangs", "/fleets", "/placements", "/kubernetes", "/alerts", "/replays")
"""Addresses of the shell."""
NAMED = {
    "pending": (1,),
    "pods": (2,),
    "gangs": (2,),
    "nodes": (1,),
    "placements": (1,),
    "runs": (1, 2),
    "replays": (1,),
}
"""More of them: the first part, and how many names may follow it."""
_NO_CODE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'none'; "
    "manifest-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_DOOR_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0;display:grid;min-height:100vh;"
    "place-items:center;background:Canvas;color:CanvasText}main{max-width:26rem;padding:2rem}h1{font-size:1.25rem}"
    "input,button{font:inherit;padding:.5rem .75rem;border-radius:6px;border:1px solid GrayText;width:100%;"
    "box-sizing:border-box;margin-top:.5rem}button{cursor:pointer}code{font-size:.9em}"
)
DOOR_POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(_DOOR_STYLE.encode()).digest()).decode()}'"
    "; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Asset(NamedTuple):
    """A file for browsers."""

    body: bytes
    media_type: str


class Shell:
    """The files, by address."""

    def __init__(self) -> None:
        self.files = dict(_files("", resources.files("wharfinger.page") / "assets"))
        digest = hashlib.sha256(b"".join(self.files[name].body for name in sorted(self.files))).hexdigest()[:12]
        self.prefix = f"{ASSETS}{digest}/"
        """Before the name of every file."""
        page = self.files["index.html"].body.decode().replace("{assets}", self.prefix)
        self.page = page.encode()

    def asset(self, path: str) -> Asset | None:
        """The file of an address; None where there is none."""
        return self.files.get(path.removeprefix(self.prefix)) if path.startswith(self.prefix) else None

    @staticmethod
    def is_view(path: str) -> bool:
        """Whether the shell shows this address, as it was sent: names are percent-encoded."""
        if path in VIEWS:
            return True
        _, kind, *names = path.split("/")
        return len(names) in NAMED.get(kind, ()) and all(map(_is_name, names))


def _is_name(part: str) -> bool:
    """Whether a part of an address is a name that browsers can read."""
    try:
        name = unquote(part, errors="strict")
    except UnicodeDecodeError:
        return False
    return bool(name) and name not in (".", "..") and not _NO_CODE.search(part)


def _files(prefix: str, folder: resources.abc.Traversable) -> list[tuple[str, Asset]]:
    found: list[tuple[str, Asset]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(f"{prefix}{entry.name}/", entry)
            continue
        suffix = f".{entry.name.rpartition('.')[2]}"
        if suffix in _TYPES:
            found.append((prefix + entry.name, Asset(entry.read_bytes(), _TYPES[suffix])))
    return found


def door(then: str, *, wrong: bool, again: bool) -> str:
    """The page for those who are not let in. `then`: where to go afterwards.

    `again`: the request came from another site's page, so a cookie may have been held back; coming again from here
    shows it.
    """
    place = html.escape(then, quote=True)
    refresh = f'<meta http-equiv="refresh" content="0; url={place}">' if again else ""
    said = "<p role=alert><strong>That token is not known.</strong></p>" if wrong else ""
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>wharfinger: sign in</title>{refresh}"
        '<meta name=viewport content="width=device-width,initial-scale=1">'
        f"<style>{_DOOR_STYLE}</style></head><body><main><h1>wharfinger</h1>{said}"
        "<p>Open the one-time link that <code>wharfinger ui</code> or <code>wharfinger dev</code> printed, or enter a "
        "token of the page's token file.</p>"
        f'<form method=post action="/session"><input type=hidden name=then value="{place}">'
        "<label>Token <input type=password name=token autocomplete=off required></label>"
        "<button>Sign in</button></form></main></body></html>"
    )


def lost() -> str:
    """The page at an address where there is nothing."""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>wharfinger: not found</title>"
        '<meta name=viewport content="width=device-width,initial-scale=1">'
        f"<style>{_DOOR_STYLE}</style></head><body><main><h1>There is nothing at this address</h1>"
        '<p><a href="/">Go to the overview</a></p></main></body></html>'
    )
