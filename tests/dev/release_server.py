"""A web server of archives for tests: it answers ranges, and fails as it is told."""

from __future__ import annotations

import hashlib
import io
import ssl
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.etcd.certificates import Signed


@dataclass
class ReleaseServer:
    """What it has, and how it behaves."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    """Content by path."""
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and range of each request; through a proxy, the whole address."""
    cut_to: int | None = None
    """Bytes after which it breaks the connection."""
    cuts: int = 1
    """How often it does so."""
    ranges: bool = True
    says_length: bool = True
    silence: float = 0.0
    """Seconds before each piece."""

    def put(self, path: str, content: bytes) -> str:
        """Serve a file; returns its SHA-256."""
        self.files[path] = content
        return hashlib.sha256(content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, server: ReleaseServer, *arguments: object) -> None:
        self._served = server
        super().__init__(*arguments)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        served, path = self._served, urlsplit(self.path).path
        wanted = self.headers["Range"]
        served.asked.append((self.path, wanted))
        if path in served.redirects:
            self.send_response(302)
            self.send_header("Location", served.redirects[path])
            self.end_headers()
            return
        content = served.files.get(path)
        if content is None:
            self.send_error(404)
            return
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and served.ranges else 0
        if begin and begin >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        if served.says_length:
            self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        rest = content[begin:]
        if served.cut_to is not None and served.cuts:
            served.cuts -= 1
            rest = rest[: served.cut_to]
        for at in range(0, len(rest), 1 << 16):
            time.sleep(served.silence)
            try:
                self.wfile.write(rest[at : at + (1 << 16)])
            except OSError:  # the client has given up
                return


@contextmanager
def serving(tls: Signed | None = None) -> Iterator[ReleaseServer]:
    """Serve on the loopback address, on a port of its own."""
    served = ReleaseServer()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, served)) as server:
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.cert, tls.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        served.url = f"http{'s' if tls is not None else ''}://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=partial(server.serve_forever, 0.01), daemon=True).start()
        try:
            yield served
        finally:
            server.shutdown()


def tar_gz(files: Mapping[str, bytes], *, links: Mapping[str, str] | None = None, level: int = 9) -> bytes:
    """An archive of files, and of symbolic links."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=level) as members:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            members.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            members.addfile(info)
    return packed.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    """The same as a `.zip`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as members:
        for name, content in files.items():
            members.writestr(name, content)
    return packed.getvalue()
