"""`wharfinger kubernetes certificates`: an authority of the installation, and Secrets with certificates of its parts.

Names and addresses are those of the objects for cert-manager, `deploy/kubernetes/cert-manager`.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from wharfinger.cli.options import configured, namespace_option
from wharfinger.errors import UsageError
from wharfinger.kubernetes.cli.install_files import Manifest, objects_with
from wharfinger.objects.model.names import is_dns_label

LIFE_OF_THE_AUTHORITY = datetime.timedelta(days=3650)


@configured
def certificates(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the authority is kept: ca.crt and ca.key.")],
    *,
    namespace: Annotated[str, namespace_option("Namespace of the installation.")] = "wharfinger",
    days: Annotated[int, typer.Option(help="How long the certificates are valid.", metavar="N", min=1, max=3650)] = 365,
) -> None:
    """Print Secrets with certificates by which the parts of an installation know each other.

    The output is for `kubectl apply -f -`. The authority that signs them is made by the first call, in DIR; who has
    its key can join the installation. A later call renews the certificates: restart the schedulers, hubs and members
    then. etcd and Temporal read theirs again by themselves.
    """
    from wharfinger.objects.documents.yaml_text import to_yaml

    if not is_dns_label(namespace):
        raise UsageError(f"--namespace: {namespace!r} is no name: lower case letters, digits and dashes")
    now = datetime.datetime.now(datetime.UTC)
    secrets = list(secrets_of(folder, namespace, now, datetime.timedelta(days=days)))
    typer.echo("".join(f"---\n{to_yaml(secret)}" for secret in secrets), nl=False)


def secrets_of(folder: Path, namespace: str, now: datetime.datetime, life: datetime.timedelta) -> Iterator[Manifest]:
    """A Secret for each part, with `tls.crt`, `tls.key` and `ca.crt`. Raises `UsageError`."""
    from wharfinger.serving.certificates import MaySignNothing, Pem, kept_in, self_signed, signed_by

    there = [name for name in ("ca.crt", "ca.key") if (folder / name).is_file()]
    if len(there) == 1:  # a new authority would cut the parts of an installation off from each other
        raise UsageError(f"{folder} has {there[0]} alone: put the other file of the authority beside it")
    if not there:
        typer.echo(f"a new authority is made in {folder.resolve()}: parts trust it once all have its ca.crt", err=True)
    made = self_signed("wharfinger-ca", (), now, also_client=True, life=LIFE_OF_THE_AUTHORITY)
    cert, key = kept_in(folder, "ca", made, option=str(folder))
    authority = Pem(cert.read_bytes(), key.read_bytes())
    for wanted in objects_with(["cert-manager/certificates.yaml"], {"namespace": namespace}):
        spec = wanted["spec"]
        if wanted["kind"] != "Certificate" or spec.get("isCA"):
            continue
        hosts = [*spec.get("dnsNames", ()), *spec.get("ipAddresses", ())]
        try:
            pair = signed_by(authority, spec["commonName"], hosts, now, life)
        except MaySignNothing as error:
            raise UsageError(f"{folder / 'ca.crt'}: {error}") from error
        except (ValueError, TypeError) as error:  # TypeError: the key has a passphrase
            raise UsageError(
                f"{folder}: ca.crt and ca.key are no certificate and its key, without passphrase"
            ) from error
        content = {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": authority.cert}
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {**wanted["metadata"], "name": spec["secretName"]},
            "data": {name: base64.b64encode(text).decode() for name, text in content.items()},
        }
