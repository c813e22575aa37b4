"""A shop: a kind with a pure reconciler, as a user writes one. What it depends on, waits for and fails of is data."""

from collections.abc import Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.reconcilers import Children, Desired, Fill, Node, Object, Read, Terminal, Until, pure_reconciler, resource


@attrs.frozen
class ShopSpec:
    """What a shop is to be. `fails` makes its reconciler fail in that way."""

    image: str = "r/x:1"
    replicas: int = 1
    parts: tuple[str, ...] = ()
    fails: str = ""
    banner: str | None = None


@attrs.frozen
class ShopStatus:
    """How a shop stands."""

    ready: int = 0
    parts: tuple[str, ...] = ()
    banner: str = ""


Shop = Object[ShopSpec, ShopStatus]
SHOP: Final = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)


def deployment(name: str, image: str, replicas: int) -> dict[str, Any]:
    """A workload."""
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod},
    }


def config(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def drain(shop: Shop, children: Children) -> Sequence[Node]:
    """A last thing to do."""
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "r/bye:1"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "bye"}, "spec": {"template": pod}}
    return [Node("bye", job)] if shop.spec.banner is not None else []


@pure_reconciler(
    SHOP,
    owns=["apps/v1/Deployment", "v1/ConfigMap", "v1/Secret", "batch/v1/Job"],
    reads=[
        Read("banner", CONFIG_MAP, lambda shop: shop.spec.banner),
        Read("given", SECRET, lambda shop: "given"),
    ],
    drain=drain,
)
def shop(self: Shop, children: Children) -> Desired[ShopStatus]:
    """A password, a workload that is rolled on its settings, a part each, and a last one behind all."""
    fail(self, children)
    password = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}}
    secret = Node("password", password, generate=[Fill(("data", "password"), base64=True)])
    settings = Node("settings", config("settings", image=self.spec.image), depends_on=[secret], until=Until.OBSERVED)
    web = Node("web", deployment("web", self.spec.image, self.spec.replicas), roll_on=[settings])
    parts = [Node(f"part-{part}", config(f"part-{part}"), depends_on=[web]) for part in self.spec.parts]
    banner = children.dig("banner", "data", "text")
    waits: list[Node | str] = [*parts, *(["banner"] if self.spec.banner is not None else [])]
    last = Node(
        "last",
        config("last", banner=banner or ""),
        depends_on=waits,
        when=children.is_ready(web) or "the workload is not ready yet",
    )
    ready = children.dig(web, "status", "readyReplicas") or 0
    made = tuple(part for part, node in zip(self.spec.parts, parts, strict=True) if children.get(node))
    return Desired([secret, settings, web, *parts, last], ShopStatus(ready, made, banner or ""))


def fail(self: Shop, children: Children) -> None:
    """In the way that is asked for."""
    match self.spec.fails:
        case "raises":
            raise RuntimeError(f"the shop is closed: {children.dig('given', 'data', 'key')}")
        case "terminal":
            raise Terminal("TooLarge", "at most one")
        case "exit":
            raise SystemExit(3)
        case "type":
            self.spec.fails.nothing  # type: ignore[attr-defined]  # noqa: B018
