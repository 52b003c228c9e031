"""Credential plugins: commands that a kubeconfig names and that print a token or a certificate.

Versions v1 and v1beta1 of `client.authentication.k8s.io`, as client-go speaks them: the request is in the variable
KUBERNETES_EXEC_INFO, the answer is an ExecCredential on standard output. A command is run without a shell and without a
terminal, with a limit of time and of output. Neither the answer nor arguments nor environment appear in errors or log
lines.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from wharfinger.apiserver.credential_files import checked_token, quoted
from wharfinger.apiserver.credentials import ApiClocks, ApiIdentity, HeldIdentity
from wharfinger.apiserver.kubeconfig_entries import KubeconfigEntry
from wharfinger.apiserver.tls import check_pair, check_valid, timestamp
from wharfinger.errors import ConfigurationError, UpstreamDenied

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
INFO = "KUBERNETES_EXEC_INFO"
EARLY = 60.0
"""Seconds before the end of a credential at which it is renewed, so that no request waits for the plugin."""
EARLY_SHARE = 0.2
"""Share of a short credential's life instead, so that most of it is used."""
_MODES = ("Never", "IfAvailable")
RUN_LIMIT = 30.0
"""Seconds that a plugin may take."""
OUTPUT_LIMIT = 1024 * 1024
"""Bytes that it may print."""
_FAREWELL = 5.0
"""Seconds for what was killed to end. A child in a session of its own is not killed and may hold the output open."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A `Source` that runs a command."""

    title: str
    """File, user and command, for messages."""
    command: str
    """Absolute, or a name that is looked up in PATH."""
    arguments: tuple[str, ...] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    """All of the command's environment."""
    version: str
    """`apiVersion` of request and answer."""
    install_hint: str
    run: RunPlugin = field(repr=False)
    clocks: ApiClocks = field(repr=False)

    async def read(self) -> HeldIdentity:
        """Run the plugin. Raises `UpstreamDenied`."""
        try:
            program = await asyncio.to_thread(self._program)
            ran = await self.run(PluginCommand((program, *self.arguments), self.environment))
            if ran.failure:
                raise ConfigurationError(f"{ran.failure}; run the command yourself, as the same user, to see why")
            return await asyncio.to_thread(self._answer, ran.output)
        except ConfigurationError as error:
            raise UpstreamDenied(f"{self.title} {error}") from error

    def _program(self) -> str:
        program = shutil.which(self.command, path=self.environment.get("PATH", os.defpath))
        # Like client-go, take no program from a relative folder in PATH: it depends on where we were started.
        if program is not None and os.path.isabs(program):
            return program
        if os.path.isfile(self.command):
            raise ConfigurationError("may not be executed; make it executable: chmod +x")
        raise ConfigurationError(f"is not installed; {self.install_hint or 'install it, or name its full path'}")

    def _answer(self, output: bytes) -> HeldIdentity:
        """The identity that the plugin printed. Raises `ConfigurationError`, whose text follows the command."""
        document = _credential(output, self.version)
        status = document.get("status")
        if not isinstance(status, Mapping):
            raise ConfigurationError("printed an ExecCredential without a status; is it logged in?")
        token, certificate, key = (_text(status, name) for name in ("token", "clientCertificateData", "clientKeyData"))
        if not (token or certificate or key):
            raise ConfigurationError("printed neither a token nor a certificate; is it logged in?")
        if bool(certificate) != bool(key):
            raise ConfigurationError("printed a certificate without its key, or a key alone; update it")
        ends = [_expiry(_text(status, "expirationTimestamp"))]
        now = self.clocks.now()
        if certificate:
            ends.append(_certificate_end(certificate, key, now))
        expires = min(ends)
        if now >= expires:
            reason = f"printed a credential that expired on {timestamp(expires)}"
            raise ConfigurationError(f"{reason}; log in again, or check the clock")
        identity = ApiIdentity(token=_token(token), certificate=certificate.encode(), key=key.encode())
        early = min(EARLY, (expires - now) * EARLY_SHARE) if expires < math.inf else 0.0
        return HeldIdentity(identity, renew_at=expires - early, expires_at=expires)


def plugin_of(
    entry: KubeconfigEntry,
    cluster: Mapping[str, Any],
    environment: Mapping[str, str],
    run: RunPlugin,
    clocks: ApiClocks,
) -> ExecPlugin:
    """The plugin that the `exec` of a user names.

    `cluster`: what plugins with `provideClusterInfo` get of it. `environment`: ours. Raises `ConfigurationError`.
    """
    if not (command := entry.text("command")):
        raise entry.error("command", "is missing; name the program that prints the credentials")
    version = entry.text("apiVersion")
    if version not in VERSIONS:
        raise entry.error("apiVersion", f"must be {' or '.join(VERSIONS)}; update the plugin and the kubeconfig")
    _check_mode(entry, version)
    spec: dict[str, Any] = {"interactive": False}
    if entry.flag("provideClusterInfo"):
        spec["cluster"] = dict(cluster)
    variables = {**environment, **_variables(entry)}
    variables[INFO] = _request(entry, {"apiVersion": version, "kind": "ExecCredential", "spec": spec})
    # As in client-go, a command without a slash is looked up in PATH.
    path = str(entry.path("command")) if "/" in command else command
    hint = " ".join(entry.text("installHint").split())
    return ExecPlugin(
        title=f"{entry.place('command')}: {quoted(path)}",
        command=path,
        arguments=entry.texts("args"),
        environment=variables,
        version=version,
        install_hint="".join(char for char in hint if char.isprintable()),
        run=run,
        clocks=clocks,
    )


def _check_mode(entry: KubeconfigEntry, version: str) -> None:
    mode = entry.text("interactiveMode")
    if mode == "Always":
        advice = "wharfinger has no terminal; use a plugin that works with interactiveMode Never"
        raise entry.error("interactiveMode", f"is Always, but {advice}")
    if not mode and version == VERSIONS[0]:
        raise entry.error("interactiveMode", f"is missing; {' or '.join(_MODES)} is needed with {version}")
    if mode and mode not in _MODES:
        raise entry.error("interactiveMode", f"must be {' or '.join(_MODES)}")


def _variables(entry: KubeconfigEntry) -> dict[str, str]:
    found = {}
    for part in entry.parts("env"):
        if not (name := part.text("name")):
            raise part.error("name", "is missing; each variable needs a name")
        found[name] = part.text("value")
    return found


def _request(entry: KubeconfigEntry, document: Mapping[str, Any]) -> str:
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        reason = f"the cluster's extension {GROUP}/exec cannot be written as JSON; use plain values in it"
        raise entry.error("provideClusterInfo", reason) from None


def _credential(output: bytes, version: str) -> Mapping[str, Any]:
    try:
        document = json.loads(output)
    except (ValueError, RecursionError):
        raise ConfigurationError("printed no JSON; it must print an ExecCredential and nothing else") from None
    if not isinstance(document, Mapping) or document.get("kind") != "ExecCredential":
        raise ConfigurationError("printed no ExecCredential; is it a credential plugin?")
    if document.get("apiVersion") != version:
        raise ConfigurationError(f"printed another apiVersion than {version}; set the one that it speaks")
    return document


def _text(status: Mapping[str, Any], name: str) -> str:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"printed a {name} that is no string; update it")
    return value or ""


def _token(text: str) -> str:
    try:
        return checked_token(text)
    except ConfigurationError:
        raise ConfigurationError("printed a token with spaces or control characters in it; update it") from None


def _expiry(text: str) -> float:
    if not text:
        return math.inf
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigurationError("printed an expirationTimestamp that is no RFC 3339 time; update it")
    return moment.timestamp()


def _certificate_end(certificate: str, key: str, now: float) -> float:
    try:
        until = check_pair(certificate.encode(), key.encode())
        check_valid(until, now)
    except ConfigurationError as error:
        raise ConfigurationError(f"printed a certificate that cannot be used: it {error}") from error
    return until


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """What is run."""

    arguments: Sequence[str] = field(repr=False)
    """The program's path first."""
    environment: Mapping[str, str] = field(repr=False)
    """All of it."""


@dataclass(frozen=True, slots=True)
class PluginRun:
    """How a run ended."""

    output: bytes = field(default=b"", repr=False)
    """What it printed, if it succeeded."""
    failure: str = ""
    """Why there is no output to be used, for people: follows the name of the command. Empty = it succeeded."""


RunPlugin = Callable[[PluginCommand], Awaitable[PluginRun]]
"""Runs a command until it ends. Does not raise for anything that a command can do."""


async def run_plugin(command: PluginCommand, *, seconds: float = RUN_LIMIT, limit: int = OUTPUT_LIMIT) -> PluginRun:
    """Run a command and read what it prints. It is killed, with its children, at either limit, or when cancelled."""
    try:
        # A session of its own, so that its children can be killed with it, and a terminal's Ctrl-C does not reach it.
        process = await asyncio.create_subprocess_exec(
            *command.arguments,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            env=dict(command.environment),
            start_new_session=True,
        )
    except OSError as error:
        return PluginRun(failure=f"cannot be started: {error.strerror}")
    except ValueError:
        return PluginRun(failure="cannot be started: there is a NUL character in its arguments or environment")
    ended = False
    try:
        async with asyncio.timeout(seconds):
            output = await _output(process, limit)
            if output is None:
                return PluginRun(failure=f"printed more than {limit} bytes")
            code = await process.wait()
            ended = True
            if code:
                how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
                return PluginRun(failure=how)
            return PluginRun(output)
    except TimeoutError:
        return PluginRun(failure=f"did not end within {seconds:g} s")
    finally:
        if not ended:
            await _kill(process)


async def _output(process: Process, limit: int) -> bytes | None:
    """All that is printed until the output is closed; None if that is more than the limit."""
    if process.stdout is None:
        raise RuntimeError("the process was started without a pipe")
    parts: list[bytes] = []
    size = 0
    while part := await process.stdout.read(64 * 1024):
        parts.append(part)
        size += len(part)
        if size > limit:
            return None
    return b"".join(parts)


async def _kill(process: Process) -> None:
    """End the command and its children. They may outlive it, and hold its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL):
            # asyncio reports an end only after the output was read to its end.
            while process.stdout is not None and await process.stdout.read(64 * 1024):
                pass
            await process.wait()
