"""A cluster in a test: virtual time, simulated workloads, faults, and what a failure shows (PH-7)."""

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from purekube.ports import Forbidden, Invalid, NotFound
from purekube.reconcilers import Children, Desired, Node, Object, Reconciler, Request, Result, pure_reconciler, resource
from purekube.versions import Conversion, Converter
from purekube_kit import FakeCluster, NotReached, laws
from tests.support.box_site import example


def app(name: str = "shop", **spec: Any) -> dict[str, Any]:
    """A WebApp of the example."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "WebApp",
        "metadata": {"name": name},
        "spec": {"image": "r/x:1", **spec},
    }


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """With the operator of the example at work."""
    with FakeCluster() as cluster:
        cluster.run(example("webapp"))
        yield cluster


def test_kit_runs_a_box_until_it_is_ready_and_writes_nothing_more(cluster: FakeCluster) -> None:
    shop = cluster.until(cluster.create(app(replicas=3)), within=60)

    assert shop["status"]["readyReplicas"] == 3
    assert 0 < cluster.seconds < 60
    written = len(cluster.writes)
    cluster.restart()
    cluster.after(3600)
    assert cluster.writes[written:] == []
    assert [event.reason for event in cluster.events if event.type == "Warning"] == []


@attrs.frozen
class RecordSpec:
    """A record, whose fields have the names of arguments."""

    name: str
    what: str = ""
    patch: str = ""


@attrs.frozen
class RecordStatus:
    """Nothing except the conditions."""


def test_kit_sets_fields_that_have_the_names_of_its_arguments() -> None:
    records = resource("tests.example", "v1", "Record", RecordSpec, RecordStatus)
    with FakeCluster(records) as cluster:
        made = cluster.create(records, "a", name="a.example.com", what="A")
        changed = cluster.change(made, name="b.example.com", what="B", patch="C")

    assert (made.metadata.name, made.spec) == ("a", RecordSpec("a.example.com", "A"))
    assert changed.spec == RecordSpec("b.example.com", "B", "C")


def test_kit_deletes_with_all_that_was_made(cluster: FakeCluster) -> None:
    shop = cluster.until(cluster.create(app()))

    cluster.delete(shop)
    cluster.until_gone(shop)

    assert not cluster.exists("deployments", "shop")
    assert cluster.list("services") == []
    with pytest.raises(NotFound):
        cluster.get("webapps", "shop")


def test_kit_shows_what_there_is_to_see_where_something_does_not_come_about(cluster: FakeCluster) -> None:
    with cluster.fault("deployments/shop", never_ready=True):
        shop = cluster.create(app())
        with pytest.raises(NotReached) as failed:
            cluster.until(shop, "Ready", within=30)

    told = str(failed.value)
    assert told.startswith("WebApp default/shop is not Ready within 30 s")
    for part in (
        "Ready=False ResourceNotReady: Deployment default/shop: ",
        "not ready:\n  Deployment default/shop: ",
        "apply Deployment default/shop",
        "from now on: never_ready of deployments/shop",
        "somebody creates WebApp default/shop",
    ):
        assert part in told
    cluster.until(shop)


def test_kit_refuses_what_a_real_server_refuses(cluster: FakeCluster) -> None:
    with pytest.raises(Invalid, match=r"spec\.replicas"):
        cluster.create(app(replicas="three"))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_kit_kills_the_process_around_a_write_and_it_goes_on(cluster: FakeCluster, moment: Any) -> None:
    cluster.fault("deployments", kill=moment, verb="apply", times=1)

    cluster.until(cluster.create(app()))

    applied = [write for write in cluster.writes if str(write.ref) == "Deployment default/shop"]
    assert len(applied) == 1
    assert sum("the process is killed" in line for line in cluster.timeline) == 1


def test_kit_refuses_calls_as_told_and_no_others(cluster: FakeCluster) -> None:
    refused = cluster.fault("services", verb="patch", refuse=Forbidden("services are forbidden"))
    shop = cluster.create(app())
    cluster.after(30)

    assert cluster.exists("deployments", "shop")
    assert not cluster.exists("services", "shop-svc")
    assert "forbidden" in str(cluster.get(shop)["status"]["conditions"])
    refused.heal()
    cluster.until(shop, within=600)


def test_kit_holds_back_what_controllers_watch(cluster: FakeCluster) -> None:
    behind = cluster.fault("webapps", stale=True)
    shop = cluster.create(app())
    cluster.after(30)
    assert cluster.writes == []

    behind.heal()
    cluster.until(shop)


def test_kit_loses_events_and_controllers_list_again(cluster: FakeCluster) -> None:
    with cluster.fault("webapps", lose_events=True):
        shop = cluster.create(app())
        cluster.change(shop, replicas=3)
        cluster.after(30)
        assert not cluster.exists("deployments", "shop")

    assert cluster.until(shop)["status"]["readyReplicas"] == 3


def test_kit_tells_the_same_story_each_time() -> None:
    def story() -> list[str]:
        with FakeCluster() as cluster:
            cluster.run(example("webapp"))
            shop = cluster.create(app())
            cluster.fault(unanswered="after", times=2)
            cluster.until(shop)
            cluster.change(shop, image="r/x:2")
            cluster.until(shop, lambda shop: shop["status"]["observedGeneration"] == 2)
            return cluster.timeline

    assert story() == story()


LABELS = {"app": "site"}


@attrs.frozen
class SiteSpec:
    """A site."""

    image: str
    replicas: int = 1


@attrs.frozen
class SiteStatus:
    """How many pods are there."""

    ready: int = 0


SITE = resource("example.com", "v1", "Site", SiteSpec, SiteStatus)


@pure_reconciler(SITE, owns=["apps/v1/Deployment"])
def site(self: Object[SiteSpec, SiteStatus], children: Children) -> Desired[SiteStatus]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "web", "image": self.spec.image}]}}
    spec = {"replicas": self.spec.replicas, "selector": {"matchLabels": LABELS}, "template": template}
    meta = {"name": self.metadata.name}
    web = Node("web", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    return Desired([web], SiteStatus(children.dig(web, "status", "readyReplicas") or 0))


@pytest.mark.slow
def test_kit_runs_pure_reconcilers_and_boxes_side_by_side() -> None:
    with FakeCluster() as cluster:
        cluster.run(site, example("webapp"))
        shop = cluster.create(app("shop"))
        one = cluster.until(cluster.create(SITE, "one", image="r/x:1", replicas=2))
        cluster.until(shop)

        assert one.status == SiteStatus(ready=2)
        assert [one.metadata.name for one in cluster.list(SITE)] == ["one"]
        one = cluster.until(cluster.change(one, replicas=3), lambda one: one.status.ready == 3)
        assert one.spec == SiteSpec("r/x:1", 3)
    laws.hold(site, SITE.new("one", SiteSpec("r/x:1")))


@pytest.mark.slow
def test_kit_holds_laws_of_what_the_api_server_refuses() -> None:
    laws.hold(site, SITE.new("one", SiteSpec("r/x:1", replicas=2**40)))


def test_kit_serves_several_versions_of_a_kind() -> None:
    crd = SITE.crd()
    stored = crd["spec"]["versions"][0]
    old = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    further = {**stored, "name": "v1alpha1", "storage": False, "schema": {"openAPIV3Schema": old}}
    webhook = {"clientConfig": {"url": "https://example.com/convert"}, "conversionReviewVersions": ["v1"]}
    crd["spec"] |= {"versions": [stored, further], "conversion": {"strategy": "Webhook", "webhook": webhook}}
    conversion = Conversion(
        "v1alpha1",
        lambda old: {**old, "spec": {"image": old["spec"]["picture"]}},
        lambda new: {**new, "spec": {"picture": new["spec"]["image"]}},
    )
    with FakeCluster(crd, converters=[Converter.of("example.com", "Site", "v1", conversion)]) as cluster:
        cluster.run(site)
        meta = {"name": "one"}
        spec = {"picture": "r/x:1"}
        cluster.create({"apiVersion": "example.com/v1alpha1", "kind": "Site", "metadata": meta, "spec": spec})

        one = cluster.until(cluster.get(SITE, "one"))
        assert one.spec.image == "r/x:1"
        assert cluster.get(attrs.evolve(SITE.kind, version="v1alpha1"), "one")["spec"] == spec


def test_kit_makes_a_controller_of_a_class_that_needs_the_api_alone() -> None:
    class Copies(Reconciler[Object[SiteSpec, SiteStatus], None]):
        kind = SITE

        async def reconcile(self, request: Request[Object[SiteSpec, SiteStatus], None]) -> Result[None]:
            return Result(SiteStatus(request.object.spec.replicas))

    with FakeCluster() as cluster:
        cluster.run(Copies)
        assert cluster.until(cluster.create(SITE, "one", image="r/x:1", replicas=4)).status.ready == 4


def test_kit_kills_once_unless_it_is_told_how_often(cluster: FakeCluster) -> None:
    cluster.fault(kill="before")

    cluster.until(cluster.create(app()))

    assert sum("the process is killed" in line for line in cluster.timeline) == 1


def test_kit_says_what_is_wrong_with_a_fault_and_a_name(cluster: FakeCluster) -> None:
    with pytest.raises(ValueError, match="exactly one of never_ready"):
        cluster.fault("deployments", stale=True, fails=True)
    with pytest.raises(ValueError, match="verb is one of"):
        cluster.fault(verb="put", unanswered="before")
    with pytest.raises(ValueError, match="gadgets: no such kind"):
        cluster.get("gadgets", "shop")
    with pytest.raises(ValueError, match="events is not clear: events or events"):
        cluster.list("events")
