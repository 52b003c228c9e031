"""A PostgreSQL of a test's own, with the settings of docker-compose.production.yml."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests.conftest import free_port
from tests.patience import patient
from wharfinger.dev import processes
from wharfinger.process.children import lives

USER = "temporal"


def find(name: str) -> Path | None:
    """A program of PostgreSQL: on PATH, else the newest where Debian keeps its servers."""
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    installed = [path for path in Path("/usr/lib/postgresql").glob(f"*/bin/{name}") if path.parts[-3].isdigit()]
    return max(installed, key=lambda path: int(path.parts[-3]), default=None)


def missing() -> str:
    """Why no PostgreSQL can be started here; empty when it can."""
    if find("postgres") is None or find("initdb") is None:
        return "PostgreSQL is not installed (initdb and postgres, on PATH or in /usr/lib/postgresql)"
    if os.geteuid() == 0 and _somebody() is None:
        return "PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody"
    return ""


def _somebody() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


class PostgresProcess:
    """One server with a user `temporal` that asks for its password; on loopback only."""

    def __init__(self, options: Sequence[str] = (), *, fsync: bool = False) -> None:
        """`options`: words after `postgres`. Without `fsync` it survives its own death, not that of the machine."""
        # Not pytest's folder: another user has to get there.
        self.folder = Path(tempfile.mkdtemp(prefix="wharfinger-postgres-"))
        self.port = free_port()
        self.password = secrets.token_hex(12)
        self.password_file = self.folder / "password"
        self.password_file.write_text(self.password)
        self._data = self.folder / "data"
        self._options = [*options, "-c", f"fsync={'on' if fsync else 'off'}"]
        self._owner = _somebody() if os.geteuid() == 0 else None
        if self._owner is not None:
            for path in (self.folder, self.password_file):
                os.chown(path, self._owner.pw_uid, self._owner.pw_gid)
        self.process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Lay out the data folder."""
        options = [f"--username={USER}", f"--pwfile={self.password_file}", "--auth=scram-sha-256", "--data-checksums"]
        options += ["--encoding=UTF8", "--no-locale", "--no-sync"]
        with self._log() as log:
            done = self._start(["initdb", *options, f"--pgdata={self._data}"], log)
        assert done.wait(patient(60)) == 0, self.said

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        only_tcp = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-p", str(self.port)]
        with self._log() as log:
            self.process = self._start(["postgres", "-D", str(self._data), *only_tcp, *self._options], log)
        ready = [str(find("pg_isready")), "--host=127.0.0.1", f"--port={self.port}", "--timeout=1"]
        deadline = time.monotonic() + patient(60)
        while subprocess.run(ready, capture_output=True, check=False).returncode:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)

    def _log(self) -> IO[bytes]:
        return (self.folder / "log").open("ab")

    def _start(self, command: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        name, *arguments = command
        owner = self._owner
        who = {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        return subprocess.Popen(
            [str(find(name)), *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=processes.die_with_parent(),  # noqa: PLW1509 - one call into libc, loaded before
            **who,
        )

    @property
    def said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """Fast shutdown; the data stay."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(patient(60))
            self.process = None

    def kill(self) -> None:
        """SIGKILL; its sessions end by themselves, and it cannot start again before the last one has."""
        if self.process is not None:
            sessions = processes.children(self.process.pid)
            self.process.kill()
            self.process.wait()
            self.process = None
            deadline = time.monotonic() + patient(20)
            while any(lives.started(session) for session in sessions):
                assert time.monotonic() < deadline, "sessions of a killed PostgreSQL live on"
                time.sleep(0.02)

    def end(self) -> None:
        """Stop it and remove everything."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
