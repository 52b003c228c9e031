"""Ways in which a kubeconfig is wrong, and what must be said about each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import yaml
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.apiserver.kubeconfigs import SECRET, KubeconfigFolder

PEM = b"-----BEGIN NAME-----\nAAAA\n-----END NAME-----\n"
"""Nothing, in the form of a certificate or a key."""

Change = Callable[[KubeconfigFolder], object]


@dataclass(frozen=True)
class Wrong:
    """One way in which a kubeconfig is wrong, and what its error has to have."""

    what: str
    change: Change
    field: str
    reason: str
    of_file: bool = True
    """Whether the error names the kubeconfig."""


def cluster(**fields: object) -> Change:
    return lambda home: home.cluster.update({name.replace("_", "-"): value for name, value in fields.items()})


def user(**fields: object) -> Change:
    def change(home: KubeconfigFolder) -> None:
        home.user = {name.replace("_", "-"): value for name, value in fields.items()}

    return change


def top(**fields: object) -> Change:
    return lambda home: home.top.update({name.replace("_", "-"): value for name, value in fields.items()})


def text(content: str | bytes) -> Change:
    return lambda home: setattr(home, "text", content)


def plugin(**fields: object) -> Change:
    return lambda home: home.with_exec(**fields)


def options(**fields: object) -> Change:
    return lambda home: home.options.update(fields)


def both(*changes: Change) -> Change:
    return lambda home: [change(home) for change in changes]


def named(name: str, content: bytes | None = None) -> Change:
    """A file in the folder; without content, a folder of that name."""
    return lambda home: (home.folder / name).mkdir() if content is None else (home.folder / name).write_bytes(content)


def certificate(home: KubeconfigFolder) -> None:
    home.with_certificate()


def encrypted_key(home: KubeconfigFolder) -> None:
    key = load_pem_private_key(home.alice.key.read_bytes(), None)
    passphrase = BestAvailableEncryption(SECRET.encode())
    home.alice.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, passphrase))


WRONG = [
    Wrong("no file", lambda home: home.path.symlink_to("nowhere"), "config", "does not exist"),
    Wrong("folder", named("config"), "config", "is a directory; name a file"),
    Wrong("endless link", lambda home: home.path.symlink_to("config"), "config", "cannot be read"),
    Wrong("too large", text(b"#" * 1024 * 1025), "config", "is larger than 1048576 bytes; is it the right file?"),
    Wrong("binary", text(b"\x7fELF\xff\x00"), "config", "is no UTF-8 text"),
    Wrong(
        "not YAML", text(f"users: [\ntoken: {SECRET}: }}"), "config", "is not one YAML document: cannot be parsed at"
    ),
    Wrong("control characters", text(f"{SECRET}\x00"), "config", "is not one YAML document"),
    Wrong("two documents", text("a: 1\n---\nb: 1\n"), "config", "is not one YAML document"),
    Wrong("undefined alias", text(f"a: *{SECRET}\n"), "config", "is not one YAML document"),
    Wrong("object of Python", text("a: !!python/name:os.system\n"), "config", "is not one YAML document"),
    Wrong("list", text(f"- {SECRET}\n"), "config", "must be a mapping, not a list"),
    Wrong("text", text(SECRET), "config", "must be a mapping, not a string"),
    Wrong("too deep", text('{"a":' * 100_000), "config", "is nested too deeply"),
    Wrong("alias of itself", text("a: &a [*a]\n"), "config", "has more than 100000 values"),
    Wrong("manifest", top(kind="Pod"), "kind", "must be Config; is this file a manifest?"),
    Wrong("other version", top(apiVersion="v2"), "apiVersion", "must be v1"),
    Wrong("users are a mapping", top(users={"alice": SECRET}), "users", "must be a list, not a mapping"),
    Wrong("user is a text", top(users=[SECRET]), "users[0]", "must be a mapping, not a string"),
    Wrong("user's fields are a text", top(users=[{"name": "a", "user": SECRET}]), "user", "must be a mapping"),
    Wrong(
        "name is a number", top(users=[{"name": 1}]), "name", "must be a string, not a number; put the value in quotes"
    ),
    Wrong(
        "two of one name", top(users=[{"name": "a"}, {"name": "a"}]), "users", 'two entries of the name "a"; remove one'
    ),
    Wrong("empty file", text(""), "current-context", "set it, or choose a context (it has none)"),
    Wrong("no current context", top(current_context=""), "current-context", 'choose a context (it has "main")'),
    Wrong("no such context", top(current_context="gone"), '"gone"', 'choose one that it has (it has "main")'),
    Wrong("no such chosen context", options(context="a\nb"), r'"a\nb"', "has no context"),
    Wrong("no such cluster", top(clusters=[]), "cluster", 'there is no cluster "prod"; name one that there is'),
    Wrong("no such user", top(users=[]), "user", 'there is no user "alice"; name one that there is (it has none)'),
    Wrong("no cluster named", lambda home: home.context.pop("cluster"), "cluster", "is missing; name a cluster"),
    Wrong("no server", cluster(server=""), "server", "is missing; write the URL"),
    Wrong("no scheme", cluster(server="10.0.0.1:6443"), "server", "must be a URL of http or https"),
    Wrong("other scheme", cluster(server="ftp://10.0.0.1"), "server", "must be a URL of http or https"),
    Wrong("no port number", cluster(server="https://10.0.0.1:x"), "server", "a numeric port, like https://HOST:PORT"),
    Wrong("space in the URL", cluster(server="https://10.0.0 .1"), "server", "must be a URL of http or https"),
    Wrong("user in the URL", cluster(server=f"https://a:{SECRET}@10.0.0.1"), "server", "use the fields username and"),
    Wrong(
        "plain http", cluster(server="http://10.0.0.1"), "server", "plain http; use https, or accept that by --allow"
    ),
    Wrong("wrong master", options(master="k8s"), "--master", "must be a URL of http or https", of_file=False),
    Wrong("plain master", options(master="http://k8s"), "--master", "would be sent over plain http", of_file=False),
    Wrong(
        "no check", cluster(insecure_skip_tls_verify=True), "insecure-skip-tls-verify", "by --allow-insecure-upstream"
    ),
    Wrong(
        "no check beside an authority",
        both(cluster(insecure_skip_tls_verify=True), options(allow_insecure=True)),
        "insecure-skip-tls-verify",
        "is there beside a certificate-authority; remove one",
    ),
    Wrong("no boolean", cluster(insecure_skip_tls_verify="yes"), "insecure-skip-tls-verify", "must be true or false"),
    Wrong("no such authority", cluster(certificate_authority="gone.pem"), "certificate-authority", "does not exist"),
    Wrong("authority is a folder", both(named("d"), cluster(certificate_authority="d")), "authority", "is a directory"),
    Wrong(
        "authority is no PEM",
        both(named("der", b"\x30\x82"), cluster(certificate_authority="der")),
        "certificate-authority",
        "has no PEM certificate; it must begin with -----BEGIN CERTIFICATE-----",
    ),
    Wrong(
        "damaged authority",
        both(
            named("bad", PEM.replace(b"NAME", b"CERTIFICATE")),
            cluster(certificate_authority="bad"),
        ),
        "certificate-authority",
        "has a damaged certificate",
    ),
    Wrong("no base64", cluster(certificate_authority_data="%"), "certificate-authority-data", "is no base64; encode"),
    Wrong(
        "SOCKS",
        cluster(proxy_url=f"socks5://a:{SECRET}@p:1"),
        "proxy-url",
        "SOCKS proxies are not supported; use an HTTP",
    ),
    Wrong(
        "password to a plain proxy",
        cluster(proxy_url=f"http://a:{SECRET}@proxy.example.com:1"),
        "proxy-url",
        "credentials would be sent over plain http; use https",
    ),
    Wrong(
        "plain server by a plain proxy",
        both(cluster(server="http://127.0.0.1:1", proxy_url="http://proxy.example.com:1"), user(token=SECRET)),
        "proxy-url",
        "credentials would be sent over plain http; use https",
    ),
    Wrong("other proxy", cluster(proxy_url="p:3128"), "proxy-url", "must be a URL of http or https"),
    Wrong("token is a number", user(token=12345), "token", "must be a string, not a number; put the value in quotes"),
    Wrong("token of two lines", user(token=f"{SECRET}\nx"), "token", "has no bearer token"),
    Wrong("no such token file", user(tokenFile="gone"), "tokenFile", "does not exist"),
    Wrong("empty token file", both(named("e", b"\n"), user(tokenFile="e")), "tokenFile", "is empty; whoever writes"),
    Wrong("binary token file", both(named("b", b"\xff"), user(tokenFile="b")), "tokenFile", "it is no ASCII text"),
    Wrong("token file of two words", both(named("b", b"a b"), user(tokenFile="b")), "tokenFile", "has no bearer token"),
    Wrong("token and password", user(token=SECRET, password=SECRET), "token", "is there beside username or password"),
    Wrong("colon in user", user(username="a:b"), "username", "has a colon"),
    Wrong("certificate without key", user(client_certificate="alice.crt"), "client-certificate", "name its key, too"),
    Wrong("key without certificate", user(client_key="alice.key"), "client-key", "name its certificate, too"),
    Wrong("no such key", user(client_certificate="alice.crt", client_key="gone"), "client-key", "does not exist"),
    Wrong(
        "key of another",
        both(lambda home: home.authority.sign("bob"), user(client_certificate="alice.crt", client_key="bob.key")),
        "client-certificate",
        "does not fit its key; both must come from the same request",
    ),
    Wrong(
        "key in place of the certificate",
        user(client_certificate="alice.key", client_key="alice.key"),
        "client-certificate",
        "has no PEM certificate",
    ),
    Wrong(
        "certificate in place of the key",
        user(client_certificate="alice.crt", client_key="alice.crt"),
        "client-certificate",
        "comes with a key that is no PEM",
    ),
    Wrong(
        "damaged key",
        both(
            named("bad", PEM.replace(b"NAME", b"PRIVATE KEY")), user(client_certificate="alice.crt", client_key="bad")
        ),
        "client-certificate",
        "or its key is damaged",
    ),
    Wrong(
        "damaged certificate",
        both(
            named("bad", PEM.replace(b"NAME", b"CERTIFICATE")), user(client_certificate="bad", client_key="alice.key")
        ),
        "client-certificate",
        "has a damaged certificate; copy the file again",
    ),
    Wrong("key with a passphrase", both(encrypted_key, certificate), "client-certificate", "write the key without"),
    Wrong(
        "expired certificate",
        both(certificate, lambda home: home.now.advance(7200)),
        "client-certificate",
        "have a new certificate signed, or check the clock",
    ),
    *(
        Wrong(
            f"impersonation: {name}",
            user(token=SECRET, **{name: value}),
            name.replace("_", "-"),
            "is not supported; use",
        )
        for name, value in (("as", "root"), ("as_uid", "1"), ("as_groups", ["a"]), ("as_user_extra", {"a": ["b"]}))
    ),
    Wrong("auth-provider", user(auth_provider={"name": "gcp"}), "auth-provider", "use the provider's exec plugin"),
    Wrong("exec is a text", user(exec=SECRET), "exec", "must be a mapping, not a string"),
    Wrong("no command", plugin(command=None), "command", "is missing; name the program"),
    Wrong(
        "old plugin", plugin(apiVersion="client.authentication.k8s.io/v1alpha1"), "apiVersion", "must be client.auth"
    ),
    Wrong("no mode", plugin(interactiveMode=None), "interactiveMode", "is missing; Never or IfAvailable is needed"),
    Wrong(
        "plugin with terminal", plugin(interactiveMode="Always"), "interactiveMode", "wharfinger has no terminal; use"
    ),
    Wrong("other mode", plugin(interactiveMode="Maybe"), "interactiveMode", "must be Never or IfAvailable"),
    Wrong("arguments are a text", plugin(args=SECRET), "args", "must be a list, not a string"),
    Wrong("argument is a number", plugin(args=[1]), "args", "must have only strings; put each value in quotes"),
    Wrong("variable without name", plugin(env=[{"value": SECRET}]), "env[0], name", "is missing; each variable needs"),
    Wrong(
        "extension that is no JSON",
        both(
            plugin(provideClusterInfo=True),
            lambda home: home.cluster.update(
                extensions=[{"name": "client.authentication.k8s.io/exec", "extension": "INF"}]
            ),
            lambda home: setattr(home, "text", yaml.safe_dump(home.document()).replace("INF", ".inf")),
        ),
        "provideClusterInfo",
        "cannot be written as JSON",
    ),
]
