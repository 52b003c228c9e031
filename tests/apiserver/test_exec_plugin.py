"""Credential plugins: what they are given, how their answers are taken, and what is said when they fail."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.kubeconfigs import SECRET, V1, KubeconfigFolder, encoded, kubeconfig_folder, printed
from wharfinger.apiserver.credentials import RETRY_AFTER
from wharfinger.apiserver.exec_plugin import EARLY, INFO, PluginCommand, PluginRun, run_plugin
from wharfinger.errors import UpstreamDenied

V1BETA1 = "client.authentication.k8s.io/v1beta1"


@dataclass
class FakePlugin:
    """Answers in the order given, the last one again and again; keeps what it was called with."""

    answers: list[PluginRun]
    calls: list[PluginCommand] = field(default_factory=list)

    async def __call__(self, command: PluginCommand) -> PluginRun:
        self.calls.append(command)
        return self.answers[min(len(self.calls), len(self.answers)) - 1]

    @property
    def request(self) -> Any:
        return json.loads(self.calls[-1].environment[INFO])


@pytest.fixture
def home(tmp_path: Path) -> KubeconfigFolder:
    made = kubeconfig_folder(tmp_path)
    made.environment = {"PATH": str(tmp_path / "bin"), "HOME": "/home/alice"}
    (tmp_path / "bin").mkdir()
    made.script("exit 0", "bin/login")
    made.with_exec(command="login")
    return made


def answering(home: KubeconfigFolder, *answers: bytes | str) -> FakePlugin:
    """A plugin that prints the bytes, or fails for the reason."""
    plugin = FakePlugin([PluginRun(each) if isinstance(each, bytes) else PluginRun(failure=each) for each in answers])
    home.run = plugin
    return plugin


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


async def test_token_is_read_at_the_first_use(home: KubeconfigFolder) -> None:
    plugin = answering(home, printed({"token": f"{SECRET}\n"}))
    credentials = home.read().credentials
    assert plugin.calls == []

    assert (await credentials.current()).token == SECRET
    assert (await credentials.current()).token == SECRET
    assert len(plugin.calls) == 1


async def test_certificate_is_read(home: KubeconfigFolder) -> None:
    pair = {"clientCertificateData": home.alice.cert.read_text(), "clientKeyData": home.alice.key.read_text()}
    answering(home, printed(pair))

    identity = await home.read().credentials.current()

    assert (identity.certificate, identity.key) == (home.alice.cert.read_bytes(), home.alice.key.read_bytes())


async def test_plugin_gets_arguments_and_environment(home: KubeconfigFolder) -> None:
    plugin = answering(home, printed({"token": "a"}))
    home.with_exec(command="login", args=["get", "token"], env=[{"name": "HOME", "value": "/x"}, {"name": "EMPTY"}])

    await home.read().credentials.current()

    call = plugin.calls[0]
    assert call.arguments == (str(home.folder / "bin" / "login"), "get", "token")
    assert {name: call.environment[name] for name in ("HOME", "EMPTY")} == {"HOME": "/x", "EMPTY": ""}
    assert plugin.request == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_plugin_gets_the_cluster_where_it_asks_for_it(home: KubeconfigFolder) -> None:
    plugin = answering(home, printed({"token": "a"}))
    home.with_exec(command="login", provideClusterInfo=True)
    home.cluster |= {"tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128", "disable-compression": True}
    home.cluster["extensions"] = [
        {"name": "other", "extension": 1},
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
    ]

    await home.read().credentials.current()

    assert plugin.request["spec"]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "tls-server-name": "kubernetes",
        "certificate-authority-data": encoded(home.authority.pem),
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
        "config": {"audience": "a"},
    }


async def test_relative_command_lies_beside_the_kubeconfig(home: KubeconfigFolder) -> None:
    plugin = answering(home, printed({"token": "a"}))
    home.script("exit 0", "plugin")
    home.with_exec(command="./plugin")

    await home.read().credentials.current()

    assert plugin.calls[0].arguments == (str(home.folder / "plugin"),)


@pytest.mark.parametrize("mode", [None, "Never", "IfAvailable"])
async def test_old_version_needs_no_mode(home: KubeconfigFolder, mode: str | None) -> None:
    plugin = answering(home, printed({"token": "a"}, V1BETA1))
    home.with_exec(command="login", apiVersion=V1BETA1, interactiveMode=mode)

    assert (await home.read().credentials.current()).token == "a"
    assert plugin.request["apiVersion"] == V1BETA1


TWO = (("a", 3600), ("b", 7200))
"""Tokens, and for how many seconds from now they are valid."""


async def test_credential_is_renewed_before_it_expires(home: KubeconfigFolder) -> None:
    now = home.now.now
    plugin = answering(home, *(printed({"token": t, "expirationTimestamp": at(now + s)}) for t, s in TWO))
    credentials = home.read().credentials
    await credentials.current()

    home.now.advance(3600 - EARLY - 1)
    await credentials.current()
    assert len(plugin.calls) == 1
    home.now.advance(2)
    assert (await credentials.current()).token == "a"  # the plugin is started, and not waited for
    home.now.advance(EARLY)

    assert (await credentials.current()).token == "b"
    assert len(plugin.calls) == 2


async def test_short_credential_is_used_most_of_its_life(home: KubeconfigFolder) -> None:
    now = home.now.now
    plugin = answering(home, printed({"token": "a", "expirationTimestamp": at(now + 10)}))
    credentials = home.read().credentials
    await credentials.current()

    home.now.advance(7.9)
    await credentials.current()

    assert len(plugin.calls) == 1


async def test_certificate_limits_the_credential(home: KubeconfigFolder) -> None:
    """A plugin may leave out the date: the certificate has one, too."""
    pair = {"clientCertificateData": home.alice.cert.read_text(), "clientKeyData": home.alice.key.read_text()}
    answering(home, printed(pair))
    credentials = home.read().credentials
    await credentials.current()

    home.now.advance(7200)

    with pytest.raises(UpstreamDenied, match="printed a certificate that cannot be used: it expired on"):
        await credentials.current()


async def test_plugin_is_run_again_after_a_refusal(home: KubeconfigFolder) -> None:
    answering(home, printed({"token": "a"}), printed({"token": "b"}))
    credentials = home.read().credentials
    await credentials.current()

    credentials.refused()

    assert (await credentials.current()).token == "b"


async def test_failing_plugin_is_not_run_for_each_request(home: KubeconfigFolder) -> None:
    plugin = answering(home, "ended with exit code 1", printed({"token": "a"}))
    credentials = home.read().credentials

    for _ in range(3):
        with pytest.raises(UpstreamDenied, match="ended with exit code 1; run the command yourself"):
            await credentials.current()
    assert len(plugin.calls) == 1
    home.clock.advance(RETRY_AFTER)

    assert (await credentials.current()).token == "a"


def certificate(**changes: str) -> dict[str, str]:
    return {"clientCertificateData": "certificate", "clientKeyData": SECRET, **changes}


WRONG_ANSWERS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "printed no JSON; it must print an ExecCredential and nothing else"),
    "a line of log": (f"token is {SECRET}\n".encode(), "printed no JSON"),
    "binary": (b"\xff\xfe", "printed no JSON"),
    "too deep": (b"[" * 100_000, "printed no JSON"),
    "a list": (f'["{SECRET}"]'.encode(), "printed no ExecCredential; is it a credential plugin?"),
    "another kind": (json.dumps({"kind": SECRET}).encode(), "printed no ExecCredential"),
    "another version": (printed({"token": SECRET}, V1BETA1), f"printed another apiVersion than {V1}; set the one"),
    "no status": (printed(None), "printed an ExecCredential without a status; is it logged in?"),
    "empty status": (printed({}), "printed neither a token nor a certificate; is it logged in?"),
    "number": (printed({"token": 1}), "printed a token that is no string"),
    "spaces": (printed({"token": f"{SECRET} a"}), "printed a token with spaces or control characters"),
    "no key": (printed(certificate(clientKeyData="")), "printed a certificate without its key"),
    "no certificate": (printed(certificate(clientCertificateData="")), "or a key alone"),
    "no PEM": (printed(certificate()), "printed a certificate that cannot be used: it has no PEM certificate"),
    "no date": (
        printed({"token": SECRET, "expirationTimestamp": "soon"}),
        "an expirationTimestamp that is no RFC 3339",
    ),
    "no zone": (
        printed({"token": SECRET, "expirationTimestamp": "2999-01-01T00:00:00"}),
        "an expirationTimestamp that is no RFC 3339",
    ),
    "expired": (
        printed({"token": SECRET, "expirationTimestamp": "2020-01-01T00:00:00Z"}),
        "printed a credential that expired on 2020-01-01T00:00:00Z; log in again, or check the clock",
    ),
}


@pytest.mark.parametrize("what", WRONG_ANSWERS)
async def test_wrong_answer_gives_one_line_without_it(
    home: KubeconfigFolder, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    output, says = WRONG_ANSWERS[what]
    answering(home, output)

    with pytest.raises(UpstreamDenied) as caught:
        await home.read().credentials.current()

    line = str(caught.value)
    assert line.startswith(f'kubeconfig {home.path}, user "alice", exec, command: "login" printed')
    assert says in line
    assert line.isprintable()
    assert SECRET not in line + caplog.text


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (f"echo {SECRET}; echo {SECRET} >&2; exit 3", "ended with exit code 3; run the command yourself, as the same"),
        ("kill -9 $$", "was ended by signal 9"),
        (f"echo {SECRET}", "printed no JSON"),
    ],
    ids=["fails", "killed", "nonsense"],
)
async def test_failing_script_gives_one_line_without_its_output(
    home: KubeconfigFolder, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], script: str, says: str
) -> None:
    home.run = run_plugin
    home.with_exec(command=str(home.script(script)), args=[SECRET], env=[{"name": "A", "value": SECRET}])

    with pytest.raises(UpstreamDenied) as caught:
        await home.read().credentials.current()

    assert f'command: "{home.folder}/login" {says}' in str(caught.value)
    assert SECRET not in str(caught.value) + caplog.text + "".join(capfd.readouterr())


async def test_script_answers_what_it_was_asked(home: KubeconfigFolder) -> None:
    """The whole way: the script finds the request, its argument and no input, and its answer is used."""
    home.run = run_plugin
    answer = '{"apiVersion":"%s","kind":"ExecCredential","status":{"token":"%s"}}'
    script = f"""read line && exit 1
    case $KUBERNETES_EXEC_INFO in *'"interactive":false'*) printf '{answer}' '{V1}' "$1" ;; esac"""
    home.with_exec(command=str(home.script(script)), args=["from-argument"])

    assert (await home.read().credentials.current()).token == "from-argument"


@pytest.mark.parametrize("hint", ["", "install it:\n  brew install\tlogin\x1b[1m"], ids=["no hint", "hint"])
async def test_missing_command_shows_the_install_hint(home: KubeconfigFolder, hint: str) -> None:
    answering(home, printed({"token": "a"}))
    home.with_exec(command="absent", installHint=hint)

    with pytest.raises(UpstreamDenied) as caught:
        await home.read().credentials.current()

    advice = "install it: brew install login[1m" if hint else "install it, or name its full path"
    assert str(caught.value).endswith(f'command: "absent" is not installed; {advice}')


async def test_command_that_is_no_program_is_named(home: KubeconfigFolder) -> None:
    home.script("exit 0", "plain").chmod(0o600)
    home.with_exec(command="./plain")

    with pytest.raises(UpstreamDenied, match=r'plain" may not be executed; make it executable: chmod \+x'):
        await home.read().credentials.current()


async def test_relative_folders_in_path_are_not_searched(
    home: KubeconfigFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.folder)
    home.environment["PATH"] = "bin"

    with pytest.raises(UpstreamDenied, match="is not installed"):
        await home.read().credentials.current()


def test_nothing_secret_is_in_a_repr(home: KubeconfigFolder) -> None:
    command = PluginCommand([SECRET], {"A": SECRET})
    home.with_exec(command="login", args=[SECRET], env=[{"name": "A", "value": SECRET}])

    assert SECRET not in repr((command, PluginRun(SECRET.encode()), home.read()))
