"""URLs of API servers and proxies: checked, without anything that must not be there. Errors never repeat a URL, which
may have a password in it.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit, urlunsplit

from wharfinger.errors import ConfigurationError
from wharfinger.objects.model.addresses import is_loopback


def checked_server(url: str, where: str) -> str:
    """The URL of an API server, without a slash at its end. `where`: the option or field it comes from.

    Raises `ConfigurationError`.
    """
    parts = _split(url, where, "https://HOST:PORT")
    if "@" in parts.netloc:
        raise ConfigurationError(f"{where}: has a user in the URL; use the fields username and password")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def checked_proxy(url: str, where: str) -> str:
    """The URL of a proxy, which may have user and password. Raises `ConfigurationError`."""
    if url.lower().startswith("socks"):
        raise ConfigurationError(f"{where}: SOCKS proxies are not supported; use an HTTP proxy (http:// or https://)")
    return urlunsplit(_split(url, where, "http://HOST:PORT"))


def is_plain_and_remote(server: str) -> bool:
    """Whether what is sent to a checked server can be read on the way: http to another machine."""
    parts = urlsplit(server)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def _split(url: str, where: str, example: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ConfigurationError(f"{where}: must be a URL with a host and a numeric port, like {example}") from None
    if parts.scheme not in {"http", "https"} or not named or any(char.isspace() for char in url):
        raise ConfigurationError(f"{where}: must be a URL of http or https, like {example}")
    return parts
