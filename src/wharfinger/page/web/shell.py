"""What browsers load: the one shell for every view, its modules and style, and the small page for those without a key.

Files are those of `page/assets` and of the views' packages. They are read once, and served under their paths in
`wharfinger`, below a digest of all contents: a browser keeps them until another release has others. There is no build
step.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from operator import itemgetter
from pkgutil import resolve_name
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from wharfinger.page.views import VIEWS

ASSETS = "/assets/"
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

    def __init__(self, views: Iterable[str] = VIEWS) -> None:
        """`views`: dotted names, as in `page.views.VIEWS`."""
        self.files = dict(_files("wharfinger.page", "assets"))
        menu: list[dict[str, Any]] = []
        for view in map(resolve_name, views):
            package = view.__module__.rpartition(".")[0]
            self.files |= _files(package)
            for entry in view.menu:
                modules = {path: f"{_folder(package)}{module}" for path, module in entry.views.items()}
                menu.append(entry._asdict() | {"views": modules, "address": next(iter(modules))})
        menu.sort(key=itemgetter("order"))
        self._addresses = [re.compile(re.sub(r"\{\w+\}", "([^/]+)", path)) for entry in menu for path in entry["views"]]
        digest = hashlib.sha256(b"".join(self.files[name].body for name in sorted(self.files))).hexdigest()[:12]
        self.prefix = f"{ASSETS}{digest}/"
        """Before the name of every file."""
        page = self.files["page/assets/index.html"].body.decode().replace("{assets}", self.prefix)
        self.page = page.replace("{menu}", orjson.dumps(menu).decode().replace("<", "\\u003c")).encode()

    def asset(self, path: str) -> Asset | None:
        """The file of an address; None where there is none."""
        return self.files.get(path.removeprefix(self.prefix)) if path.startswith(self.prefix) else None

    def is_view(self, path: str) -> bool:
        """Whether the shell shows this address, as it was sent: names are percent-encoded."""
        return any((found := one.fullmatch(path)) and all(map(_is_name, found.groups())) for one in self._addresses)


def _is_name(part: str) -> bool:
    """Whether a part of an address is a name that browsers can read."""
    try:
        name = unquote(part, errors="strict")
    except UnicodeDecodeError:
        return False
    return bool(name) and name not in (".", "..") and not _NO_CODE.search(part)


def _folder(package: str) -> str:
    return package.removeprefix("wharfinger.").replace(".", "/") + "/"


def _files(package: str, folder: str = "") -> Iterator[tuple[str, Asset]]:
    """What a package has for browsers, or a folder of it, by path in `wharfinger`."""
    prefix = _folder(package) + (f"{folder}/" if folder else "")
    for entry in (resources.files(package) / folder).iterdir():
        media_type = _TYPES.get(f".{entry.name.rpartition('.')[2]}")
        if media_type is not None:
            yield prefix + entry.name, Asset(entry.read_bytes(), media_type)


def door(then: str, *, wrong: bool, again: bool) -> str:
    """The page for those who are not let in. `then`: where to go afterwards.

    `again`: the request came from another site's page, so a cookie may have been held back; coming again from here
    shows it.
    """
    place = html.escape(then, quote=True)
    refresh = f'<meta http-equiv="refresh" content="0; url={place}">' if again else ""
    said = "<p role=alert><strong>That token is not known.</strong></p>" if wrong else ""
    return _alone(
        "sign in",
        f"<h1>wharfinger</h1>{said}"
        "<p>Open the one-time link that <code>wharfinger ui</code> or <code>wharfinger dev</code> printed, or enter a "
        "token of the page's token file.</p>"
        f'<form method=post action="/session"><input type=hidden name=then value="{place}">'
        "<label>Token <input type=password name=token autocomplete=off required></label>"
        "<button>Sign in</button></form>",
        refresh,
    )


def lost() -> str:
    """The page at an address where there is nothing."""
    return _alone("not found", '<h1>There is nothing at this address</h1><p><a href="/">Go to the overview</a></p>')


def _alone(title: str, body: str, head: str = "") -> str:
    """A page that needs no other file."""
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>wharfinger: {title}</title>{head}"
        f'<meta name=viewport content="width=device-width,initial-scale=1"><style>{_DOOR_STYLE}</style></head>'
        f"<body><main>{body}</main></body></html>"
    )
