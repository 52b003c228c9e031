"""Files from a web server: resumed, limited in time and size, and checked before anything reads them.

A broken download leaves its part of the file, and the next one goes on from there. Proxies are those of the usual
variables (`HTTPS_PROXY`, `NO_PROXY`), authorities those of OpenSSL (`SSL_CERT_FILE`).
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener
from zlib import error as BadlyCompressed  # noqa: N812 - the module's name for an exception is a bare `error`

from wharfinger.dev.progress import ProgressListener

_PIECE = 1 << 18
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """What a download may take."""

    silence: float = 15.0
    """Seconds without a byte."""
    whole: float = 600.0
    """Seconds from the beginning to the end, all tries together."""
    bytes: int = 512 * _MIB
    """Of a file, and of a program in it."""
    tries: int = 5
    """Connections; another one is made only if the last one brought bytes."""


LIMITS = DownloadLimits()


class NotDownloaded(Exception):
    """The file could not be had; the message says why."""


class _Interrupted(Exception):
    """The file did not come to its end."""


def text_of(url: str, limits: DownloadLimits = LIMITS) -> str:
    """A small text file (1 MiB at most). Raises `NotDownloaded`."""
    try:
        with _opened(Request(url), limits) as response:  # noqa: S310 - callers allow http and https only
            content = b"".join(_pieces(response, 0, _MIB, _deadline(limits)))
            return content.decode()
    except (OSError, HTTPException, ValueError, _Interrupted) as error:  # ValueError: an address or text that is none
        raise NotDownloaded(f"{name_of(url)}: {_why(error)}") from error


def fetch(
    url: str,
    file: Path,
    digest: str,
    progress: ProgressListener,
    limits: DownloadLimits = LIMITS,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Download a file whose SHA-256 is known; bytes that are in `file` already are not asked for again.

    Raises `NotDownloaded`. Then `file` has the beginning, if a later call can go on from there, or does not exist.
    """
    name, late = name_of(url), _deadline(limits, clock)
    for left in reversed(range(limits.tries)):
        begun = _size(file)
        if not (begun and sha256_of(file) == digest):
            try:
                _go_on(url, file, progress, limits, late)
            except (OSError, HTTPException, ValueError, _Interrupted) as error:
                if left and _size(file) > begun and not isinstance(error, HTTPError):
                    continue
                if _size(file) > limits.bytes:
                    file.unlink()
                raise NotDownloaded(f"{name}: {_why(error)}") from error
        found = sha256_of(file)
        if found == digest:
            return
        file.unlink()
        if not begun:  # else the beginning may be that of another file
            raise NotDownloaded(f"{name} has the SHA-256 {found}, expected {digest}")
    raise NotDownloaded(f"{name}: other bytes came at each of {limits.tries} tries")


def _go_on(url: str, file: Path, progress: ProgressListener, limits: DownloadLimits, late: Callable[[], bool]) -> None:
    """Ask for what is lacking behind the bytes that are in the file, and add it."""
    begun = _size(file)
    request = Request(url, headers={"Range": f"bytes={begun}-"} if begun else {})  # noqa: S310 - as above
    try:
        response = _opened(request, limits)
    except HTTPError as error:
        if error.code != 416:  # Range Not Satisfiable: these are not the bytes of the file, which ends before
            raise
        file.write_bytes(b"")
        return
    with response:
        resumed = response.status == 206 and (response.headers["Content-Range"] or "").startswith(f"bytes {begun}-")
        if response.status != (206 if resumed else 200):
            raise _Interrupted(f"the server answered {response.status} to a request for bytes {begun} and later")
        before = begun if resumed else 0
        text = f"downloading {name_of(url)}" + (f" from {before // _MIB} MiB on" if before else "")
        with (
            file.open("ab" if before else "wb") as target,
            progress.counting(text, (before + (response.length or 0)) // _MIB, "MiB") as report,
        ):
            for piece in _pieces(response, before, limits.bytes, late):
                target.write(piece)
                report(target.tell() // _MIB)


def _pieces(response: HTTPResponse, before: int, most: int, late: Callable[[], bool]) -> Iterator[bytes]:
    """What follows the first `before` bytes of a file, as it comes.

    Raises `_Interrupted` if the connection or the time ends before the file does, and beyond `most` bytes.
    """
    size = before
    whole = None if response.length is None else before + response.length
    while True:
        if max(size, whole or 0) > most:
            raise _Interrupted(f"more than {most // _MIB} MiB are not taken")
        if late():
            raise _Interrupted("not done in time")
        piece = response.read1(_PIECE)
        if not piece:
            break
        size += len(piece)
        yield piece
    if whole is not None and size < whole:
        raise _Interrupted(f"the connection ended after {size} of {whole} bytes")


def _deadline(limits: DownloadLimits, clock: Callable[[], float] = time.monotonic) -> Callable[[], bool]:
    """Whether the time for the whole is over, from now on."""
    ends = clock() + limits.whole
    return lambda: clock() > ends


class _Redirects(HTTPRedirectHandler):
    """Follows redirects, but none away from TLS."""

    def redirect_request(  # noqa: PLR0917 - of the base class
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if req.type == "https" and not newurl.startswith("https:"):
            raise URLError("redirected to an address without TLS")
        if not newurl.startswith(("http:", "https:")):
            raise URLError("redirected to an address of another kind")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(request: Request, limits: DownloadLimits) -> HTTPResponse:
    response = build_opener(_Redirects).open(request, timeout=limits.silence)
    assert isinstance(response, HTTPResponse), "callers allow http and https only"
    return response


def name_of(url: str) -> str:
    """The file's name."""
    return url.rpartition("/")[2]


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) and not isinstance(error, HTTPError) else error
    return str(reason) or type(reason).__name__


def sums_in(text: str) -> dict[str, str]:
    """SHA-256 by the file's name, of lines as `sha256sum` prints them; `#` begins a comment.

    Raises `ValueError`, which names the line.
    """
    sums = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"([0-9a-fA-F]{64})\s+\*?(\S+)", line.strip())
        if found is None:
            raise ValueError(f"line {number} is no SHA-256 and a file's name")
        sums[name_of(found[2])] = found[1].lower()
    return sums


def unpack(archive: Path, member: str, target: Path, limits: DownloadLimits = LIMITS) -> None:
    """Write one regular file of a `.zip` or `.tar.gz` to the file `target`, as a program. Raises `NotDownloaded`."""
    try:
        with _packed(archive, member, limits.bytes) as packed, target.open("wb") as program:
            shutil.copyfileobj(packed, program)
    except (OSError, EOFError, RuntimeError, tarfile.TarError, zipfile.BadZipFile, BadlyCompressed) as error:
        raise NotDownloaded(f"{archive.name} cannot be unpacked: {error}") from error
    target.chmod(0o755)


@contextmanager
def _packed(archive: Path, member: str, most: int) -> Iterator[IO[bytes]]:
    lacking = NotDownloaded(f"{archive.name} has no file {member} of at most {most // _MIB} MiB")
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as files:
            if member not in files.namelist() or files.getinfo(member).file_size > most:
                raise lacking
            with files.open(member) as content:
                yield content
        return
    with tarfile.open(archive, mode="r:gz") as files:
        for info in files:
            if info.name == member and info.isreg() and info.size <= most:
                packed = files.extractfile(info)
                assert packed is not None, "it is a regular file"
                yield packed
                return
    raise lacking
