"""Kinds of users are typed from end to end: mypy strict in their own code finds a field that is wrong (PH-7)."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOP = """
import attrs

from purekube.reconcilers import (
    Children, Desired, Node, Object, Reconciler, Request, Result, Terminal, Watcher, pure_reconciler, resource
)


@attrs.frozen
class ShopSpec:
    image: str
    replicas: int = 1


@attrs.frozen
class ShopStatus:
    ready: int = 0


SHOP = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)


def told(shop: Object[ShopSpec, ShopStatus]) -> str:
    return f"{shop.metadata.name}: {shop.status.ready} of {shop.spec.replicas}"


told(SHOP.read({}))


@pure_reconciler(SHOP, owns=["apps/v1/Deployment"])
def shop(self: Object[ShopSpec, ShopStatus], children: Children) -> Desired[ShopStatus]:
    web = Node("web", {"metadata": {"name": self.metadata.name}})
    return Desired([web], ShopStatus(ready=children.dig(web, "status", "readyReplicas") or 0))


print(shop(SHOP.new("mine", ShopSpec("r/x:1"))).status.ready)


@attrs.frozen
class Shops(Reconciler[Object[ShopSpec, ShopStatus], str]):
    limit: int
    kind = SHOP
    timeout = 5.0

    async def reconcile(self, request: Request[Object[ShopSpec, ShopStatus], str]) -> Result[str]:
        if request.object.spec.replicas > self.limit:
            raise Terminal("TooMany", "at most " + str(self.limit))
        return Result(ShopStatus(ready=1), requeue_after=600, state=(request.state or "") + "x")


class Audit(Watcher[Object[ShopSpec, ShopStatus]]):
    kind = SHOP

    async def on_update(self, old: Object[ShopSpec, ShopStatus], new: Object[ShopSpec, ShopStatus]) -> None:
        print(old.spec.image, new.spec.image)
"""
WRONG = {
    "a field of a status": "print(SHOP.read({}).status.redy)",
    "a field of a spec": "print(SHOP.read({}).spec.imagge)",
    "a value of a status": 'ShopStatus(ready="3")',
    "another kind's object": "told(OTHER.read({}))",
    "a status that is none of the kind's": "pure_reconciler(SHOP, owns=[])(lambda self, _: Desired([], ShopSpec('')))",
    "a function of another kind": "pure_reconciler(OTHER, owns=[])(shop.function)",
    "a node that is none": 'Desired([{"id": "web"}], ShopStatus())',
    "a state of another type": "again: Result[str] = Result(state=3)",
    "a request with another state": "async def a(q: Request[Object[ShopSpec, ShopStatus], int]) -> None: "
    "await Shops(3).reconcile(q)",
    "a watcher of another kind": "async def b(o: Object[ShopStatus, ShopStatus]) -> None: await Audit().on_add(o)",
    "a time that is none": "Result[str](requeue_after='soon')",
    "a field of what is desired": 'print(shop(SHOP.new("mine", ShopSpec("x"))).status.redy)',
}


@pytest.mark.slow
def test_what_is_wrong_is_a_type_error_in_the_users_code(tmp_path: Path) -> None:
    other = "\n\nOTHER = resource('example.com', 'v1', 'Other', ShopStatus, ShopStatus)\n"
    lines = (SHOP + other).splitlines()
    first = len(lines) + 1
    code = tmp_path / "shops.py"
    code.write_text("\n".join([*lines, *WRONG.values(), ""]))

    told = check(code)

    assert [int(line.split(":")[1]) for line in told] == list(range(first, first + len(WRONG))), told


def check(code: Path) -> list[str]:
    """What mypy finds, strict, as a user runs it."""
    paths = ":".join(str(ROOT / part) for part in ("core", "adapters/kube", "adapters/fake", "app"))
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            "--no-error-summary",
            "--hide-error-context",
            str(code),
        ],
        capture_output=True,
        text=True,
        cwd=code.parent,
        env={"MYPYPATH": paths, "PATH": "", "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache")},
        check=False,
    )
    assert not ended.stderr, ended.stderr
    return [line for line in ended.stdout.splitlines() if code.name in line and ": error:" in line]
