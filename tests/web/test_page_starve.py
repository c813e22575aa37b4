"""RUN-11, SEE-3: nobody can starve the page: neither by tokens that nobody knows nor by following it."""

import base64
from collections import Counter

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from purekube.apimachinery.manifest import Kind, Manifest
from tests.support.run_by import run_by
from vworkspace_app.page.access import BURST, LONGEST, REFILL_SECONDS, Allowances, TokenAccess, may_be_token
from vworkspace_app.page.rendering import Renderer
from vworkspace_app.page.screens import PageContent
from vworkspace_app.page.site import Followers, is_known_host

NOW = 1_800_000_000.0


def jwt(**claims: object) -> str:
    parts = (b'{"alg":"RS256"}', msgspec.json.encode(claims), b"signature")
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("opaque-token", True),
        ("07401b.f395accd246ae52d", True),
        ("dG9rZW4=", True),
        (jwt(sub="system:serviceaccount:a:b", exp=int(NOW) + 60), True),
        (jwt(sub="system:serviceaccount:a:b"), True),
        (jwt(exp=int(NOW) - 1), False),
        ("a.b.c", True),
        ("", False),
        ("two words", False),
        ("line\n", False),
        ("ünicode", False),
        ("x" * (LONGEST + 1), False),
    ],
)
def test_the_api_server_is_asked_only_about_what_can_be_a_token_RUN_11(text: str, may: bool) -> None:
    assert may_be_token(text, NOW) is may


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 3)), max_size=80))
def test_an_address_shows_as_many_unknown_tokens_as_its_allowance_RUN_11(shown: list[tuple[str, float]]) -> None:
    allowances, now, taken = Allowances(), 0.0, Counter[str]()
    for address, pause in shown:
        now += pause
        taken[address] += allowances.take(address, now)
        assert taken[address] <= BURST + now / REFILL_SECONDS


class Cluster:
    """An API server that knows one token."""

    def __init__(self) -> None:
        self.asked = 0

    async def review(self, manifest: Manifest, *, kind: Kind) -> Manifest:
        self.asked += 1
        is_known = manifest["spec"].get("token", "good") == "good"
        return {"status": {"authenticated": is_known, "allowed": True, "user": {"username": "jane"}}}


def shown(token: str, address: str) -> Request:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers, "client": (address, 1)})


@run_by(anyio.run)
async def test_garbage_tokens_starve_nobody_and_cost_few_reviews_RUN_11() -> None:
    """A thousand of them from one address; who is known comes in from the same address and from another."""
    access, cluster = TokenAccess(), Cluster()
    access.attach(cluster)
    assert await access.refusal(shown("good", "10.0.0.1")) is None
    asked, answers = cluster.asked, Counter[int]()
    for number in range(1_000):
        refusal = await access.refusal(shown(f"garbage-{number}", "10.0.0.1"))
        assert refusal is not None
        answers[refusal.status_code] += 1
    assert set(answers) == {401, 429}
    assert cluster.asked - asked == answers[401] <= BURST + 2
    for address in ("10.0.0.1", "10.0.0.2"):
        assert await access.refusal(shown("good", address)) is None


class Still:
    """A page on which nothing happens."""

    tabs = ()

    async def screen(self, path: str, query: object) -> PageContent:
        return PageContent("Still", "", ())

    def subscribe(self, heard: object) -> object:
        return lambda: None


@pytest.mark.slow
@run_by(anyio.run)
async def test_followers_of_one_address_starve_no_other_SEE_3() -> None:
    source = Still()
    followers = Followers(source, Renderer("test", ()), most=4)  # type: ignore[arg-type]  # what it needs of one
    left: list[str] = []

    async def follow(address: str) -> None:
        async for _ in followers.follow("/", {}, "/", "", address):
            pass
        left.append(address)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(follow, "hostile")
        await anyio.wait_all_tasks_blocked()
        assert not followers.has_room("hostile"), "nobody pushes out those of the same address"
        for honest in ("a", "b", "c"):
            assert followers.has_room(honest)
            group.start_soon(follow, honest)
            await anyio.wait_all_tasks_blocked()
            assert len(followers) == 4
        while len(left) < 3:
            await anyio.sleep(0.05)
        assert left == ["hostile"] * 3
        assert not followers.has_room("d"), "nobody has two more than a newcomer would"
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:8080", True),
        ("localhost:8080", True),
        ("[::1]:8080", True),
        ("10.0.0.7", True),
        ("vworkspace-operator:8080", True),
        ("vworkspace-operator.vworkspace-system.svc:8080", True),
        ("vworkspace-operator.vworkspace-system.svc.cluster.local", True),
        ("page.example.com", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("x.svc.evil.example", False),
        ("localhost.evil.example:8080", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_a_name_that_a_stranger_can_make_lead_here_is_not_served_SEE_3(host: str, known: bool) -> None:
    assert is_known_host(host, {"page.example.com"}) is known


def test_a_host_name_is_known_however_it_was_written_SEE_3() -> None:
    """Browsers send host names in lower case, and a name may end in the dot of the root."""
    for written in ("Page.Example.COM", "page.example.com"):
        assert is_known_host("page.example.com:443", {written})
        assert is_known_host("PAGE.example.com.", {written})
    assert not is_known_host("evil.example.", {"Page.Example.COM"})
    assert not is_known_host(".", {"Page.Example.COM"})
