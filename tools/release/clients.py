"""Runs the clients of examples/clients on real servers: each places a pod, waits for its node and explains it.

A step of `make release-check`. A client whose language is not at hand is left out, and that is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wharfinger.dev.progress import progress_for
from wharfinger.dev.settings import DevSettings, Servers, prepare
from wharfinger.dev.supervisor import python_command
from wharfinger.dev.tree import running
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.process.children.ports import free_port
from wharfinger.settings import EtcdSettings
from wharfinger.testing import node_manifest, pod_manifest

EXAMPLES = Path(__file__).parents[2] / "examples/clients"
WITHIN = 60.0
"""Seconds for a client to be served."""


def say(text: str) -> None:
    """To the person who runs it."""
    print(text, file=sys.stderr, flush=True)


def built(folder: Path) -> Iterator[tuple[str, list[str], Path]]:
    """(name, command, working directory) of each client whose language is here."""
    for language, needs in ("go", "go"), ("typescript", "npm"):
        program = shutil.which(needs)
        if program is None:
            say(f"{language}: left out, because {needs} is not on PATH")
            continue
        there = folder / language
        shutil.copytree(EXAMPLES / language, there)
        if language == "go":
            subprocess.run([program, "build", "-o", "start", "."], cwd=there, check=True)  # noqa: S603 - named above
            yield language, ["./start"], there
        else:
            options = ("--no-package-lock", "--no-audit", "--no-fund", "--silent")
            subprocess.run([program, "install", *options], cwd=there, check=True)  # noqa: S603 - named above
            yield language, ["node_modules/.bin/tsx", "start.ts"], there


async def run(servers: Servers, folder: Path) -> bool:
    """Whether every client that could be built says what it should."""
    clients = list(built(folder))
    settings = DevSettings(folder / "data", 1, *(free_port() for _ in range(4)), etcd_open=True)
    token = folder / "tokens"
    token.touch(mode=0o600)
    token.write_text("an-example,reader,1\n")
    async with running(settings, servers, say=say) as tree, EtcdStore(EtcdSettings((tree.etcd.url,))) as store:
        await store.put(keys.node("node-1"), json.dumps(node_manifest("node-1")).encode())
        port = free_port()
        named = (f"--etcd={tree.etcd.url}", f"--temporal={tree.temporal.address}", f"--static-token-file={token}")
        page = await asyncio.create_subprocess_exec(*python_command("ui", f"--port={port}", *named))
        environment = {
            "TEMPORAL_ADDRESS": tree.temporal.address,
            "PAGE": f"http://127.0.0.1:{port}",
            "TOKEN": "an-example",
        }
        try:
            await _answers(port)
            return all([await _served(store, one, environment) for one in clients])
        finally:
            page.terminate()
            await page.wait()


async def _answers(port: int) -> None:
    async with asyncio.timeout(WITHIN):
        while True:
            with contextlib.suppress(ConnectionError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)


async def _served(store: EtcdStore, client: tuple[str, list[str], Path], environment: dict[str, str]) -> bool:
    language, command, folder = client
    pod = pod_manifest(language)
    pod["metadata"]["uid"] = f"uid-{language}"
    await store.put(keys.pod("default", language), json.dumps(pod).encode())
    async with asyncio.timeout(WITHIN):
        process = await asyncio.create_subprocess_exec(
            "env",
            *(f"{name}={value}" for name, value in environment.items()),
            *command,
            "default",
            language,
            f"uid-{language}",
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
    *_, said, explained = ("", "", *out.decode().splitlines())  # Go's SDK says something first
    good = said == "bound node-1" and json.loads(explained)["attempts"][-1]["node"] == "node-1"
    say(f"{language}: {said}" if good else f"{language}: unexpected: {out.decode()!r}")
    return good


def main() -> int:
    """The exit code."""
    with tempfile.TemporaryDirectory(prefix="wharfinger-clients-") as folder:
        return 0 if asyncio.run(run(prepare(progress_for(sys.stderr)), Path(folder))) else 1


if __name__ == "__main__":
    sys.exit(main())
