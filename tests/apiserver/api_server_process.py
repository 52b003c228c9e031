"""A real Kubernetes API server on an etcd of its own, for tests that read, write, kill and stop it.

The server and its command line are those of `wharfinger dev`. Requests are made with the standard library, so that
tests of our own client are judged by something else.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import free_port
from tests.etcd.etcd_process import EtcdProcess, progress_option
from tests.patience import patient
from wharfinger.dev import binaries, processes
from wharfinger.dev.kube_apiserver import STOP_WITHIN, ApiserverFiles, ApiserverUser, KubeApiserver
from wharfinger.dev.supervisor import clean_environment

UP_WITHIN = 60.0
"""Seconds on a machine of its own; two or three are usual."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GO = {"GOMAXPROCS": "2", "GOGC": "300"}
"""Garbage is collected: without that (tests/conftest.py) a server grows from 260 to 450 MiB as it starts. But seldom:
with the usual 100, that is a quarter of what a start costs."""

Rule = Mapping[str, Sequence[str]]
"""As in a Role: `{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}`."""


def missing() -> str:
    """Why no API server can be started here; empty when one can."""
    if binaries.at_hand(binaries.KUBE_APISERVER) is None:
        return "no kube-apiserver: `make kubernetes-servers` builds it, where Go is installed"
    return ""


class Response(NamedTuple):
    """What the server answered."""

    code: int
    body: Any
    """The JSON; text where it is none."""


@dataclass(frozen=True)
class LimitedUser:
    """A service account with the permissions that a test gave it."""

    name: str
    """As the server spells it: `system:serviceaccount:<namespace>:<account>`."""
    token: str
    kubeconfig: Path


class ApiServerProcess:
    """One API server, and its etcd; each may be killed, stopped and started again on what it has kept."""

    def __init__(
        self, folder: Path, *, users: Sequence[ApiserverUser] = (), options: Sequence[str] = (), port: int | None = None
    ) -> None:
        """`users` have tokens of a file, beside the admin; `options` are more of the server's command line."""
        self.folder = folder
        # It has 70 watches in etcd; a notice of each one, three times a second, would be most of what both do at rest.
        self.etcd = EtcdProcess(folder / "etcd", options=[f"{progress_option()}=5s"])
        executable = binaries.at_hand(binaries.KUBE_APISERVER)
        assert executable is not None, missing()
        files = ApiserverFiles(folder / "kube-apiserver")
        self.server = KubeApiserver(
            executable, files, self.etcd.url, port or free_port(), users=tuple(users), options=tuple(options)
        )
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def kubeconfig(self) -> Path:
        """The admin's."""
        return self.server.files.kubeconfig

    @property
    def log(self) -> Path:
        return self.folder / "kube-apiserver.log"

    def start(self, *, wait: bool = True) -> ApiServerProcess:
        """Start it, and its etcd unless that runs."""
        if self.etcd.process is None:
            self.etcd.start()
        self.server.prepare()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.server.command(),
                stdout=log,
                stderr=log,
                env=clean_environment(**GO),
                preexec_fn=processes.die_with_parent(),  # noqa: PLW1509 - one call into libc, loaded before
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds: float = UP_WITHIN) -> None:
        assert self.process is not None
        deadline = time.monotonic() + patient(seconds)
        while not self.server.is_up():
            assert self.process.poll() is None, self._end_of_log()
            assert time.monotonic() < deadline, f"not up after {patient(seconds):.0f} s: {self._end_of_log()}"
            time.sleep(0.05)

    def pause(self) -> None:
        """Stop all threads of it (SIGSTOP), and see that they are."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """End it as an operator would (SIGTERM); the exit code."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(patient(STOP_WITHIN))
        self.process = None
        return code

    def kill(self) -> None:
        """SIGKILL; its etcd goes on."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def kill_all(self) -> None:
        """SIGKILL to it and to its etcd."""
        self.kill()
        self.etcd.kill()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
    ) -> Response:
        """One request, as the admin; with another token as its user, with an empty one as nobody."""
        try:
            with self.open(method, path, body, token=token, content_type=content_type) as answer:
                return Response(answer.status, _content(answer.read()))
        except urllib.error.HTTPError as error:
            return Response(error.code, _content(error.read()))

    def open(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
    ) -> HTTPResponse:
        """The same, for a watch: the response when it begins, which the caller reads and closes."""
        token = self.server.files.token() if token is None else token
        headers = {"Content-Type": content_type, **({"Authorization": f"Bearer {token}"} if token else {})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        response: HTTPResponse = self._opener().open(request, timeout=patient(10))
        return response

    def create(self, path: str, body: object) -> Any:
        """POST an object as the admin; the object as the server stored it."""
        answer = self.request("POST", path, body)
        assert answer.code == 201, answer
        return answer.body

    def user(
        self,
        name: str,
        rules: Sequence[Rule] = (),
        *,
        namespaced: Mapping[str, Sequence[Rule]] | None = None,
        namespace: str = "default",
    ) -> LimitedUser:
        """A new service account with a ClusterRole of the `rules`, and a Role in each namespace of `namespaced`.

        Returns when the server has taken the rules up. Its token lasts an hour.
        """
        self.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        bound = {"subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]}
        given = [("ClusterRole", RBAC, "", rules)] if rules else []
        for where, some in (namespaced or {}).items():
            given.append(("Role", f"{RBAC}/namespaces/{where}", where, some))
        user = f"system:serviceaccount:{namespace}:{name}"
        for kind, path, where, some in given:
            plural = kind.lower() + "s"
            self.create(f"{path}/{plural}", {"metadata": {"name": name}, "rules": list(some)})
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
            binding = {"metadata": {"name": name}, "roleRef": reference, **bound}
            self.create(f"{path}/{plural.removesuffix('s')}bindings", binding)
            self._wait_allowed(user, where, some[0])
        return self.user_of(namespace, name)

    def user_of(self, namespace: str, name: str) -> LimitedUser:
        """A service account that exists, with a token."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token = self.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
        return self._limited(f"system:serviceaccount:{namespace}:{name}", token)

    def user_from_file(self, name: str) -> LimitedUser:
        """One of the `users` that it was started with."""
        return self._limited(name, self.server.files.token(name))

    def _limited(self, name: str, token: str) -> LimitedUser:
        path = self.folder / f"{name.rpartition(':')[2]}.kubeconfig"
        return LimitedUser(name, token, self.server.files.write_kubeconfig(self.url, user=name, token=token, path=path))

    def _wait_allowed(self, user: str, namespace: str, rule: Rule) -> None:
        """RBAC reads rules from a watch: a moment after they were written."""
        asked = {
            "group": rule["apiGroups"][0],
            "resource": rule["resources"][0].partition("/")[0],
            "subresource": rule["resources"][0].partition("/")[2],
            "verb": rule["verbs"][0],
            "namespace": namespace,
            "name": next(iter(rule.get("resourceNames", ())), ""),
        }
        spec = {"user": user, "groups": ["system:serviceaccounts"], "resourceAttributes": asked}
        deadline = time.monotonic() + patient(10)
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        while not self.create(path, {"spec": spec})["status"]["allowed"]:
            assert time.monotonic() < deadline, f"{user} may not: {rule}"
            time.sleep(0.01)

    def _opener(self) -> urllib.request.OpenerDirector:
        context = ssl.create_default_context(cafile=self.server.files.certificate)
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


def _content(answered: bytes) -> Any:
    try:
        return json.loads(answered)
    except ValueError:
        return answered.decode()
