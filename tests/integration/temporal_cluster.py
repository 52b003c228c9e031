"""A full Temporal on PostgreSQL: made by the scripts and with the settings of docker-compose.production.yml.

`python -m tests.integration.temporal_cluster` starts one and waits, for measurements: it prints where it is and the
processes that it consists of, as options of benchmarks/throughput.py.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import free_port
from tests.integration import postgres_process
from tests.integration.postgres_process import PostgresProcess
from tests.patience import patient
from wharfinger.dev import binaries, processes
from wharfinger.dev.supervisor import clean_environment

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "deploy" / "temporal"
LISTENERS = (
    "FRONTEND_GRPC",
    "FRONTEND_HTTP",
    "FRONTEND_MEMBERSHIP",
    *(f"{service}_{kind}" for service in ("MATCHING", "HISTORY", "WORKER") for kind in ("GRPC", "MEMBERSHIP")),
)


def missing() -> str:
    """Why no cluster can be started here; empty when it can."""
    reason = postgres_process.missing()
    if reason:
        return reason
    lacking = [program.name for program in binaries.CLUSTER_PROGRAMS if _found(program) is None]
    return f"no {' and no '.join(lacking)}: `make cluster-server` builds both" if lacking else ""


def _found(program: binaries.Program) -> Path | None:
    return binaries.at_hand(program)


def compose() -> dict[str, Any]:
    """The services of the file for production."""
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.production.yml").read_text())["services"]
    return services


class TemporalCluster:
    """PostgreSQL, and one process with all of Temporal's services; no namespace of ours at first."""

    def __init__(self, folder: Path, *, fsync: bool = False, variables: Mapping[str, str] | None = None) -> None:
        """`variables`: of the server, above those of the compose file; may change between two starts."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.postgres = PostgresProcess(compose()["postgres"]["command"][1:], fsync=fsync)
        # Temporal keeps its members' ports as smallint: up to 32,767, below which all of ours are.
        self._ports = {f"{name}_PORT": str(free_port()) for name in LISTENERS}
        self.variables = dict(variables or {})
        self.client: dict[str, str] = {}
        """Variables that its clients need: of TLS, where the server asks for it."""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients and workers connect."""
        return f"127.0.0.1:{self._ports['FRONTEND_GRPC_PORT']}"

    def make(self) -> None:
        """Start PostgreSQL and make Temporal's databases there."""
        self.postgres.make()
        self.postgres.start()
        self.make_schema()

    def make_schema(self) -> str:
        """What the compose file's `temporal-schema` does; answers what it said."""
        return self._script(
            "schema.sh",
            SQL_HOST="127.0.0.1",
            SQL_PORT=str(self.postgres.port),
            SQL_USER=postgres_process.USER,
            SQL_PASSWORD_FILE=str(self.postgres.password_file),
        )

    def make_namespace(self, name: str) -> str:
        """What the compose file's `temporal-namespace` does; answers what it said."""
        return self._script("namespace.sh", TEMPORAL_ADDRESS=self.address, TEMPORAL_NAMESPACE=name, **self.client)

    def _script(self, name: str, **variables: str) -> str:
        programs = [_found(program) for program in (*binaries.CLUSTER_PROGRAMS, binaries.TEMPORAL)]
        path = os.pathsep.join([*(str(found.parent) for found in programs if found), os.environ["PATH"]])
        environment = clean_environment(PATH=path, **variables)
        command = ["/bin/sh", str(SCRIPTS / name)]
        limit = patient(60)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self) -> None:
        """Start the server, and wait until it serves."""
        given = {name: str(value) for name, value in compose()["temporal"]["environment"].items()}
        given |= {
            "POSTGRES_SEEDS": "127.0.0.1",
            "DB_PORT": str(self.postgres.port),
            "POSTGRES_PWD": self.postgres.password,
            "BIND_ON_IP": "127.0.0.1",
            "DYNAMIC_CONFIG_FILE_PATH": str(SCRIPTS / Path(given["DYNAMIC_CONFIG_FILE_PATH"]).name),
            "PROMETHEUS_ENDPOINT": f"127.0.0.1:{free_port()}",
            **self._ports,
            **self.variables,
        }
        with (self.folder / "temporal.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(_found(binaries.TEMPORAL_SERVER)), "start"],
                cwd=self.folder,
                env=clean_environment(**given),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=processes.die_with_parent(),  # noqa: PLW1509 - one call into libc, loaded before
            )
        deadline = time.monotonic() + patient(60)
        while not self._serves():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)

    def _serves(self) -> bool:
        health = [str(binaries.locate(binaries.TEMPORAL)), "operator", "cluster", "health", "--address", self.address]
        environment = clean_environment(**self.client)
        done = subprocess.run(health, env=environment, capture_output=True, timeout=patient(30), check=False)
        return done.returncode == 0

    @property
    def said(self) -> str:
        return (self.folder / "temporal.log").read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """SIGKILL to Temporal; PostgreSQL stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def end(self) -> None:
        """End both and remove the data."""
        try:
            self.kill()
        finally:
            self.postgres.end()


def main() -> None:
    """Start one, say where it is, and end it when told to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--namespace", default="default", help="made at once, with our search attributes (default)")
    parser.add_argument("--shards", default="", help="history shards, instead of the compose file's")
    parser.add_argument("--plugin", default="", help="postgres12 or postgres12_pgx, instead of the compose file's")
    parser.add_argument("--no-fsync", action="store_true", help="PostgreSQL does not wait for the disk")
    given = parser.parse_args()
    reason = missing()
    if reason:
        raise SystemExit(reason)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts what runs in the background deaf to SIGINT
        signal.signal(number, signal.default_int_handler)
    other = {"NUM_HISTORY_SHARDS": given.shards, "DB": given.plugin}
    variables = {name: value for name, value in other.items() if value}
    with tempfile.TemporaryDirectory(prefix="wharfinger-temporal-") as folder:
        cluster = TemporalCluster(Path(folder), fsync=not given.no_fsync, variables=variables)
        try:
            cluster.make()
            cluster.start()
            cluster.make_namespace(given.namespace)
            assert cluster.process is not None
            assert cluster.postgres.process is not None
            parts = {"temporal": cluster.process.pid, "postgres": cluster.postgres.process.pid}
            options = [f"--temporal={cluster.address}", *(f"--part={name}={pid}" for name, pid in parts.items())]
            print(*options, flush=True)
            signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            cluster.end()


if __name__ == "__main__":
    main()
