"""Who may read which page, asked over HTTP and HTTPS."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.etcd.certificates import Authority
from tests.serving.serving import Hand, Reviews, bearer, content, get, serving, trusting
from wharfinger.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    ServingOptions,
    TlsOptions,
    of_process,
)

HEALTH = ("/healthz", "/livez", "/readyz")
OTHERS = ("/metrics", "/metrics/slis", "/configz", "/flagz", "/statusz")
TOKEN = "s3cret-token-that-no-log-may-have"
SERVES_ALL = {"configuration": dict, "flags": lambda: {"v": "2"}, "versions": {"Binary version": "1"}}


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.csv"
    path.write_text(f'{TOKEN},prometheus,u1,"monitoring,reading"\n')
    return path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "clients")


async def test_loopback_is_open_and_plain() -> None:
    async with serving(of_process("127.0.0.1", 0), content(**SERVES_ALL)) as server:
        assert server.url.startswith("http://")
        for path in HEALTH + OTHERS:
            assert (await get(server, path))[0] == 200


@pytest.fixture
def off_loopback() -> ServingOptions:
    """As a process on all addresses is served, but where a test may listen."""
    options = of_process("0.0.0.0", 0)
    return ServingOptions(open=options.open, tls=options.tls, authorization=options.authorization)


async def test_off_loopback_only_health_is_served(off_loopback: ServingOptions) -> None:
    async with serving(off_loopback, content(**SERVES_ALL)) as server:
        for path in HEALTH:
            assert (await get(server, path))[0] == 200
        for path in OTHERS:
            code, text = await get(server, path, headers=bearer(TOKEN))
            assert code == 403
            assert "--metrics-open" in text


async def test_metrics_open_serves_everything_off_loopback() -> None:
    assert of_process("0.0.0.0", 0, metrics_open=True).open


async def test_static_token_opens_all_pages(tokens: Path) -> None:
    options = of_process("127.0.0.1", 0, static_token_file=tokens)
    async with serving(options, content(**SERVES_ALL)) as server:
        assert server.url.startswith("https://")
        for path in HEALTH:
            assert (await get(server, path, tls=trusting()))[0] == 200
        for path in OTHERS:
            assert (await get(server, path, tls=trusting()))[0] == 401
            assert (await get(server, path, tls=trusting(), headers=bearer("wrong")))[0] == 401
            assert (await get(server, path, tls=trusting(), headers=bearer(TOKEN)))[0] == 200


async def test_refusals_are_statuses_of_kubernetes(tokens: Path) -> None:
    options = of_process("127.0.0.1", 0, static_token_file=tokens)
    async with (
        serving(options) as server,
        aiohttp.ClientSession() as http,
        http.get(f"{server.url}/metrics", ssl=trusting()) as answer,
    ):
        body = await answer.json()

    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "Server" not in answer.headers
    assert (body["kind"], body["reason"], body["code"]) == ("Status", "Unauthorized", 401)


async def test_wrong_token_does_not_close_health(tokens: Path) -> None:
    async with serving(of_process("127.0.0.1", 0, static_token_file=tokens)) as server:
        assert (await get(server, "/livez", tls=trusting(), headers=bearer("wrong")))[0] == 200


async def test_client_certificate_suffices_for_a_plain_process(authority: Authority) -> None:
    options = of_process("127.0.0.1", 0, client_ca_file=authority.pem)
    async with serving(options) as server:
        shown = trusting(showing=authority.sign("prometheus"))
        assert (await get(server, "/metrics", tls=shown))[0] == 200
        assert (await get(server, "/metrics", tls=trusting()))[0] == 401
        assert (await get(server, "/livez", tls=trusting()))[0] == 200


async def test_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "strangers").sign("prometheus")
    async with serving(of_process("127.0.0.1", 0, client_ca_file=authority.pem)) as server:
        with pytest.raises(aiohttp.ClientError):
            await get(server, "/metrics", tls=trusting(showing=stranger))


def secure(authority: Authority | None = None, tokens: Path | None = None, **fields: object) -> ServingOptions:
    """As kube-scheduler serves."""
    return ServingOptions(
        tls=TlsOptions(),
        kubernetes=True,
        authentication=AuthenticationOptions(authority.pem if authority is not None else None, tokens),
        authorization=AuthorizationOptions(**fields),  # type: ignore[arg-type]
    )


async def test_masters_may_read_without_a_review(authority: Authority) -> None:
    reviews = Reviews()
    master = authority.sign("admin", organizations=["system:masters"])
    async with serving(secure(authority), apiserver=reviews.apiserver) as server:
        assert (await get(server, "/metrics", tls=trusting(showing=master)))[0] == 200

    assert reviews.asked == []


async def test_other_certificates_are_reviewed_for_access(authority: Authority) -> None:
    reviews = Reviews()
    reviews.allowed.add(("scraper", "/metrics", "get"))
    shown = trusting(showing=authority.sign("scraper", organizations=["a", "b"]))
    async with serving(secure(authority), apiserver=reviews.apiserver) as server:
        assert (await get(server, "/metrics", tls=shown))[0] == 200
        code, text = await get(server, "/metrics/slis", tls=shown)

    assert code == 403
    assert 'User \\"scraper\\" cannot get path \\"/metrics/slis\\"' in text
    spec = reviews.asked[0]["spec"]
    assert (spec["user"], spec["groups"]) == ("scraper", ["a", "b", "system:authenticated"])


async def test_reviewed_token_may_read_what_the_cluster_allows() -> None:
    reviews = Reviews()
    account = {"username": "system:serviceaccount:monitoring:p", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}}
    reviews.users[TOKEN] = account
    reviews.allowed.add((str(account["username"]), "/metrics", "get"))
    async with serving(secure(), apiserver=reviews.apiserver) as server:
        assert (await get(server, "/metrics", tls=trusting(), headers=bearer(TOKEN)))[0] == 200
        assert (await get(server, "/metrics", tls=trusting(), headers=bearer(TOKEN), method="HEAD"))[0] == 403

    access = reviews.asked[1]["spec"]
    assert access == {
        "user": account["username"],
        "uid": "u",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_anonymous_callers_are_reviewed_for_access() -> None:
    reviews = Reviews()
    async with serving(secure(), apiserver=reviews.apiserver) as server:
        assert (await get(server, "/metrics", tls=trusting()))[0] == 403
        reviews.allowed.add(("system:anonymous", "/metrics/slis", "get"))
        assert (await get(server, "/metrics/slis", tls=trusting()))[0] == 200


async def test_reviews_are_kept_for_ten_seconds() -> None:
    reviews, clock = Reviews(), Hand()
    reviews.users[TOKEN] = {"username": "p"}
    reviews.allowed.add(("p", "/metrics", "get"))
    async with serving(secure(), apiserver=reviews.apiserver, clock=clock) as server:
        for moment in (0.0, 9.9, 10.1):
            clock.seconds = 1000.0 + moment
            assert (await get(server, "/metrics", tls=trusting(), headers=bearer(TOKEN)))[0] == 200

    assert reviews.kinds() == ["TokenReview", "SubjectAccessReview"] * 2


async def test_denials_are_kept_for_ten_seconds() -> None:
    reviews, clock = Reviews(), Hand()
    async with serving(secure(), apiserver=reviews.apiserver, clock=clock) as server:
        for moment in (0.0, 9.9, 10.1):
            clock.seconds = 1000.0 + moment
            assert (await get(server, "/metrics", tls=trusting(), headers=bearer(TOKEN)))[0] == 401

    assert reviews.kinds() == ["TokenReview"] * 2


@pytest.mark.parametrize("known", [False, True], ids=["token review fails", "access review fails"])
async def test_nothing_is_served_without_a_review(known: bool) -> None:
    reviews, clock = Reviews(), Hand()
    reviews.users[TOKEN] = {"username": "p"}
    reviews.allowed.add(("p", "/metrics/slis", "get"))
    async with serving(secure(), apiserver=reviews.apiserver, clock=clock) as server:
        if known:
            await get(server, "/metrics/slis", tls=trusting(), headers=bearer(TOKEN))
        reviews.away = True
        code, _ = await get(server, "/metrics", tls=trusting(), headers=bearer(TOKEN))
        assert code == 503
        assert (await get(server, "/livez", tls=trusting(), headers=bearer(TOKEN)))[0] == 200
        reviews.away, reviews.code = False, 403
        assert (await get(server, "/metrics", tls=trusting(), headers=bearer(TOKEN)))[0] == 503


async def test_paths_are_open_that_the_options_name() -> None:
    options = secure(always_allow_paths=("/metrics", "readyz*"))
    async with serving(options, apiserver=Reviews().apiserver) as server:
        assert (await get(server, "/metrics", tls=trusting()))[0] == 200
        assert (await get(server, "/readyz/etcd", tls=trusting()))[0] == 200
        assert (await get(server, "/livez", tls=trusting()))[0] == 403


async def test_details_of_a_check_need_credentials_in_kubernetes() -> None:
    async with serving(secure(), apiserver=Reviews().apiserver) as server:
        assert (await get(server, "/readyz", tls=trusting()))[0] == 200
        assert (await get(server, "/readyz/etcd", tls=trusting()))[0] == 403


async def test_without_a_cluster_a_reviewed_token_is_unknown() -> None:
    async with serving(secure()) as server:
        assert (await get(server, "/metrics", tls=trusting(), headers=bearer(TOKEN)))[0] == 401


async def test_no_log_line_has_a_token_that_an_error_repeats(caplog: pytest.LogCaptureFixture) -> None:
    token = "a-token-of-some-length-" + "x" * 900
    reviews = Reviews()
    reviews.away = True
    reviews.away_because = f"POST /tokenreviews: code 502: cannot pass on {token[:200]} ..."

    async with serving(secure(), apiserver=reviews.apiserver) as server:
        assert (await get(server, "/metrics", tls=trusting(), headers=bearer(token)))[0] == 503

    assert "token_review_failed" in caplog.text
    assert "a-token-of-some" not in caplog.text


async def test_no_log_line_has_a_token(tokens: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    reviews = Reviews()
    async with serving(secure(tokens=tokens), apiserver=reviews.apiserver) as server:
        for headers in (bearer(TOKEN), bearer(TOKEN + "x"), bearer(TOKEN + "x" * 9000), {"Authorization": TOKEN}):
            await get(server, "/metrics", tls=trusting(), headers=headers)
        reviews.code = 403
        await get(server, "/metrics", tls=trusting(), headers=bearer(TOKEN + "y"))
        reviews.away = True
        await get(server, "/metrics", tls=trusting(), headers=bearer(TOKEN + "z"))

    assert "token_review_failed" in caplog.text
    assert TOKEN not in caplog.text
