"""What an instance is started with: a command line, an environment, and files that other users cannot read.

::

    revision's template ──► executable (--install)      NAME -> PATH; the empty name is the agent's own
                            configuration               config.json in the instance's folder
                            secrets                     <folder>/secrets/<name>, mode 0400; never environment, arguments
                            environment                 only what --allow-env names

Where the instance finds etcd and Temporal, and how it behaves otherwise, is the agent's to say.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from temporalio.exceptions import ApplicationError

from wharfinger.fleet.contracts.fleet_records import RevisionRecord
from wharfinger.fleet.contracts.fleets import FleetFailure
from wharfinger.fleet.model.fleet import Grant
from wharfinger.fleet.spec.agent_settings import AgentSettings
from wharfinger.fleet.spec.fleet_fields import TemplateFields
from wharfinger.framework.config.validation import understood
from wharfinger.process.children.ports import is_free
from wharfinger.process.children.runtime import Command, InstanceId
from wharfinger.settings import EtcdSettings

SECRET_LIMIT = 1024 * 1024
"""Bytes of a secret."""
PRIVATE = 0o400
ALLOW_INSECURE = "WHARFINGER_ALLOW_INSECURE_ETCD"
"""The option's variable: a template may name an earlier release, which refuses the option and ignores the variable."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def compose(
    instance: InstanceId,
    grant: Grant,
    revision: RevisionRecord,
    *,
    settings: AgentSettings,
    folder: Path,
    lock: Path,
    environ: Mapping[str, str],
    taken: Iterable[int] = (),
) -> Command:
    """Write the instance's files and answer its command; `taken`: ports that others were told.

    Raises `ApplicationError`: `UnknownVersion`, `SecretMissing`, `CannotStart`; `OSError`.
    """
    template, problems = understood(revision.template, TemplateFields)
    if problems:
        path, why = problems[0]
        raise _failed(FleetFailure.CANNOT_START, f"revision {grant.revision} cannot be understood here: {path} {why}")
    executable, before = _executable(template.version, settings)
    names = {secret.name: secret.version for secret in template.secrets}
    secrets = {name: _secret(name, version, settings.secrets_dir, folder) for name, version in names.items()}
    arguments = (
        *before,
        "worker",
        f"--instance={instance}",
        f"--instance-revision={grant.revision}",
        f"--instance-lock={lock}",
        *_configuration(template.scheduler_configuration, settings.config, folder),
        f"--bind-address={settings.bind_address}",
        f"--health-port={_health_port(instance.slot, settings, frozenset(taken))}",
        *_connection(settings, secrets),
        f"--lease-ttl={settings.lease.ttl:g}",
        *settings.worker_options,
    )
    environment = {name: value for name, value in environ.items() if name in settings.allow_env}
    environment |= {name: value for name, value in template.environment.items() if name in settings.allow_env}
    if (settings.instance_etcd or settings.etcd).allow_insecure:
        environment[ALLOW_INSECURE] = "true"
    if before and "PYTHONPATH" in environ:  # our own interpreter finds us as we were found
        environment.setdefault("PYTHONPATH", environ["PYTHONPATH"])
    return Command(executable, arguments, environment, memory=template.resources.memory, cpu=template.resources.cpu)


def ignored_variables(revision: RevisionRecord, allowed: frozenset[str]) -> list[str]:
    """Variables of the template that do not pass here."""
    environment = revision.template.get("environment")
    return sorted(set(environment) - allowed) if isinstance(environment, dict) else []


def _executable(version: str, settings: AgentSettings) -> tuple[Path, tuple[str, ...]]:
    if not version:
        return Path(sys.executable), ("-m", "wharfinger")
    path = dict(settings.installs).get(version)
    if path is None:
        raise _failed(FleetFailure.UNKNOWN_VERSION, f"host {settings.host} has no version {version!r}: see --install")
    return path, ()


def _configuration(written: Mapping[str, object], default: Path | None, folder: Path) -> list[str]:
    if written:
        content = json.dumps(written, indent=2).encode() + b"\n"
    elif default is not None:
        content = default.read_bytes()  # a copy: what an instance began with does not change under it
    else:
        return []
    return [f"--config={_write(folder / 'config.yaml', content)}"]


def _secret(name: str, version: str, secrets: Path | None, folder: Path) -> Path:
    """Copy a secret into the instance's folder."""
    if not _NAME.fullmatch(name) or not _NAME.fullmatch(version):
        raise _failed(FleetFailure.SECRET_MISSING, "a secret's name and version are names of files, no paths")
    missing = f"secret {name} of version {version} cannot be read here"
    if secrets is None:
        raise _failed(FleetFailure.SECRET_MISSING, f"{missing}: this agent has no --secrets-dir")
    try:
        with (secrets / name / version).open("rb") as opened:
            content = opened.read(SECRET_LIMIT + 1)
    except OSError as error:
        raise _failed(FleetFailure.SECRET_MISSING, f"{missing}: {error.strerror}") from None
    if len(content) > SECRET_LIMIT:
        raise _failed(FleetFailure.SECRET_MISSING, f"{missing}: it is larger than {SECRET_LIMIT} bytes")
    kept = folder / "secrets"
    kept.mkdir(mode=0o700, exist_ok=True)
    return _write(kept / name, content)


def _write(path: Path, content: bytes) -> Path:
    """A file that only its owner can read, never seen half written; an earlier try's is replaced."""
    beside = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        beside.unlink()
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
    beside.replace(path)
    return path


def _health_port(slot: int, settings: AgentSettings, taken: frozenset[int]) -> int:
    """The slot's own port if it is free, else any: a predecessor may still be there. 0 = the instance finds one."""
    first = settings.instance_health_port
    port = first + slot
    if not first or port > 65535 or port in taken or not is_free(port, settings.bind_address):
        return 0
    return port


USUAL = EtcdSettings()
"""What an instance assumes of etcd where its command says nothing."""


def _connection(settings: AgentSettings, secrets: Mapping[str, Path]) -> list[str]:
    etcd, temporal = settings.instance_etcd or settings.etcd, settings.temporal
    files = {
        "etcd-password-file": secrets.get("etcd-password", etcd.password_file),
        "etcd-ca": secrets.get("etcd-ca", etcd.ca),
        "etcd-cert": secrets.get("etcd-cert", etcd.cert),
        "etcd-key": secrets.get("etcd-key", etcd.key),
    }
    said = [f"--cluster={settings.cluster}", *(f"--etcd={endpoint}" for endpoint in etcd.endpoints)]
    if etcd.protocol != USUAL.protocol:
        said.append(f"--etcd-protocol={etcd.protocol}")
    if etcd.user and files["etcd-password-file"] is not None:
        said.append(f"--etcd-user={etcd.user}")
    said += [f"--{option}={Path(path).resolve()}" for option, path in files.items() if path is not None]
    if temporal.address is not None:
        said.append(f"--temporal={temporal.address}")
    if temporal.namespace is not None:
        said.append(f"--temporal-namespace={temporal.namespace}")
    said += [f"--temporal-plugin={plugin}" for plugin in temporal.plugins]
    if etcd.max_txn_ops != USUAL.max_txn_ops:
        said.append(f"--max-txn-ops={etcd.max_txn_ops}")
    return said


def told_port(command: Command) -> int:
    """The health port in a command; 0 = the instance chooses."""
    return next((int(said[14:]) for said in command.arguments if said.startswith("--health-port=")), 0)


def _failed(kind: FleetFailure, message: str) -> ApplicationError:
    return ApplicationError(message, type=kind, non_retryable=True)
