"""SEE-3: the page over HTTP, as a program sees it: what it says, what it never says, and who may ask."""

import base64
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import anyio
import attrs
import pytest

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, POD
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.controller.shard import Shard
from purekube.ports import KubeApi, ListPage
from purekube.reconcilers import Reconciler, Request, Result
from tests.support.box_site import applied_example, example
from tests.support.builders import operation_manifest
from tests.support.controller_site import SHOP
from tests.support.page_site import (
    CLUSTER,
    NS,
    TOKEN,
    Follower,
    PageSite,
    condition,
    degraded,
    instance,
    instance_ref,
    operation,
    page_site,
    ready,
)
from tests.support.page_text import addresses, elements, main_of, rows
from tests.support.patience import PATIENCE
from vworkspace_app.page.access import PATH, VERDICT_SECONDS, PasswordAccess, TokenAccess
from vworkspace_app.page.jobs_page import JobsPage
from vworkspace_app.page.rendering import ASSETS
from vworkspace_app.page.site import HEADERS, MOST_FOLLOWERS, KnownHosts
from vworkspace_app.page.surroundings import PodReader
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import IDEMPOTENCY_KEY

INSTANCES = "applicationinstances.apps.vworkspace.io"
OBJECT = f"/object/{INSTANCES}/{NS}"
HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\n\ndata: {}\n\nevent: gone {{ 7777*7 }} \u202e"


@pytest.fixture
def site() -> Iterator[PageSite]:
    with page_site() as page_sites:
        yield page_sites


def eventually(site: PageSite, path: str, text: str) -> str:
    """The page at `path` once it says `text`: its caches are a moment behind."""
    limit = time.monotonic() + PATIENCE
    while text not in (found := site.get(path).text):
        assert time.monotonic() < limit, f"{text!r} is not on {path}: {found}"
        time.sleep(0.01)
    return found


@pytest.mark.slow
def test_what_the_page_lists_is_what_the_api_server_holds_SEE_3(site: PageSite) -> None:
    site.create(APPLICATION_INSTANCE, instance("well"), ready())
    site.create(APPLICATION_INSTANCE, instance("broken"), degraded("upgrade failed: no such image"))
    site.create(OPERATION, operation_manifest("backup-1", NS, target="well"))
    found = rows(eventually(site, "/", "backup-1"))
    assert list(found) == [
        f"{INSTANCES}:{NS}:broken",
        f"{INSTANCES}:{NS}:well",
        f"operations.ops.vworkspace.io:{NS}:backup-1",
    ], "what wants help comes first"
    assert "Degraded" in found[f"{INSTANCES}:{NS}:broken"]
    assert "HelmReleaseFailed upgrade failed: no such image" in found[f"{INSTANCES}:{NS}:broken"]

    assert list(rows(site.get("/?state=Ready").text)) == [f"{INSTANCES}:{NS}:well"]
    assert list(rows(site.get("/?q=NO+SUCH").text)) == [f"{INSTANCES}:{NS}:broken"]
    assert list(rows(site.get(f"/?kind=Operation&namespace={NS}").text)) == [
        f"operations.ops.vworkspace.io:{NS}:backup-1"
    ]
    assert not rows(site.get("/?namespace=elsewhere").text)

    page = site.get(f"{OBJECT}/well")
    assert page.status == 200
    assert "backup-1" in page.text, "an Operation on it stands in its graph"
    site.do(lambda api: api.delete(instance_ref("broken")))
    assert "broken" not in "".join(rows(eventually(site, "/", "2 objects")))
    assert site.get(f"{OBJECT}/broken").status == 404


@pytest.mark.slow
def test_the_first_line_says_what_needs_a_person_and_how_to_help_SEE_3(site: PageSite) -> None:
    def first_line() -> str:
        return next(element.text for element in elements(site.get("/").text) if element.tag == "h1")

    assert first_line() == "Nothing is here yet"
    site.create(APPLICATION_INSTANCE, instance("well"), ready())
    eventually(site, "/", "1 object")
    assert first_line() == "Nothing needs you: 1 object"
    assert "<title>● Nothing needs you: 1 object · vworkspace-operator</title>" in site.get("/").text
    gate = condition("Blocked", "True", "NamespaceNotGated", "To fix: kubectl label namespace x managed-by=vworkspace")
    site.create(APPLICATION_INSTANCE, instance("gated"), {"conditions": [gate]})
    site.create(APPLICATION_INSTANCE, instance("broken"), degraded("no such image"))
    page = eventually(site, "/", "3 objects")
    assert first_line() == "2 of 3 objects need you"
    found = {element.attributes["id"]: element for element in elements(page) if "id" in element.attributes}
    assert found["icon"].attributes["href"].startswith("./assets/icon-bad.svg")
    assert "Waiting gated NamespaceNotGated" in found["headline"].text
    assert "kubectl label namespace x managed-by=vworkspace" in found["headline"].text
    assert "no such image" in found["headline"].text, "without a command the message says what is wrong"
    assert list(rows(site.get("/?needs=you").text)) == [f"{INSTANCES}:{NS}:{name}" for name in ("broken", "gated")]


@pytest.mark.slow
def test_a_command_that_only_prints_has_what_to_do_with_it_above_it_SEE_3(site: PageSite) -> None:
    lead = "in your GitOps repository, the Kustomization ops/vwo, add what this prints:"
    gate = condition("Blocked", "True", "Forbidden", f"To fix: {lead} vworkspace-operator manifests --rbac-only")
    site.create(APPLICATION_INSTANCE, instance("lacking"), {"conditions": [gate]})
    eventually(site, "/", "1 object")
    for path in ("/", f"/object/{INSTANCES}/{NS}/lacking"):
        text = site.get(path).text
        assert text.index(f'<p class="message">{lead}</p><p class="command"><code>vworkspace-operator manifests') > 0


@pytest.mark.slow
def test_every_view_says_that_it_shows_the_whole_cluster_whoever_looks_SEE_3(site: PageSite) -> None:
    for path in ("/", "/?dense=1", "/timeline", "/operator", "/nothing"):
        footer = next(element.text for element in elements(site.get(path).text) if element.tag == "footer")
        assert "shows the whole cluster, every namespace, to everyone who may open it" in footer, path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shard", "works", "shown"),
    [
        (
            Shard(1, 3),
            False,
            "only shard 1/3, its share of the namespaces (each of the 3 shards has a page of its own)",
        ),
        (
            Shard(0, 3),
            True,
            "Clusters of every namespace, and what was made of them in shard 0/3 (each of the 3 shards",
        ),
    ],
)
def test_the_page_of_a_shard_says_which_part_it_shows_SEE_3(shard: Shard, works: bool, shown: str) -> None:
    with page_site(works=works, shard=shard) as site:
        for path in ("/", "/nothing"):
            found = {element.tag: element.text for element in elements(site.get(path).text)}
            assert shown in found["footer"], path
            assert "whole cluster" not in found["footer"], path
            assert f"shard {shard}" in found["header"], "also at the top, where the counts are read"


@pytest.mark.slow
def test_filters_are_links_that_keep_the_others_SEE_3(site: PageSite) -> None:
    site.create(APPLICATION_INSTANCE, instance("well"), ready())
    site.create(OPERATION, operation_manifest("backup-1", NS, target="well"))
    chips = {
        element.text: element.attributes
        for element in elements(eventually(site, "/?q=e", "backup-1"))
        if element.attributes.get("class") == "chip"
    }
    assert chips["Operation 1"]["href"] == "./?kind=Operation&q=e"
    assert chips["dense"]["href"] == "./?q=e&dense=1"
    dense = site.get("/?kind=Operation&dense=1").text
    listed = {
        element.attributes["id"]: element
        for element in elements(dense)
        if element.tag == "li" and "id" in element.attributes
    }
    assert list(listed) == [f"row:operations.ops.vworkspace.io:{NS}:backup-1"]
    chosen = [
        element.attributes["href"] for element in elements(dense) if element.attributes.get("aria-current") == "true"
    ]
    assert chosen == ["./?dense=1", "./?kind=Operation"], "what is chosen leads back"


@pytest.mark.slow
def test_every_view_is_sound_html_that_loads_nothing_from_elsewhere_SEE_3(site: PageSite) -> None:
    site.create(APPLICATION_INSTANCE, instance("well"), ready())
    eventually(site, "/", "well")
    for path in ("/", "/timeline", "/operator", f"{OBJECT}/well", "/nothing", "/?page=9&state=x&kind=%22%3E&q=%22%3E"):
        answer = site.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert answer.headers["cache-control"] == "no-store"
        found = elements(answer.text)
        ids = [element.attributes["id"] for element in found if "id" in element.attributes]
        assert len(ids) == len(set(ids)), path
        for element in found:
            assert element.tag != "style", path
            assert not any(name == "style" or name.startswith("on") for name in element.attributes), path
            assert element.tag != "script" or (element.attributes.get("src") and not element.text), path
        for address in addresses(answer.text):
            assert address.startswith(("./", "../", "#", "?")), f"{path}: {address}"
    for name in ASSETS:
        asset = site.get(f"/assets/{name}")
        assert asset.status == 200
        assert "immutable" in asset.headers["cache-control"]
        loaded = asset.text.replace("http://www.w3.org/2000/svg", "")
        assert "//" not in loaded.replace("// ", ""), f"{name} loads from elsewhere"
    assert sum(len(site.get(f"/assets/{name}").text.encode()) for name in ASSETS if name.endswith(".js")) < 30_000
    for name in ("", "..%2fsite.py", "%2e%2e/site.py", "nothing"):
        assert site.get(f"/assets/{name}").status == 404


@pytest.mark.slow
def test_the_page_only_answers_get_and_head_SEE_3(site: PageSite) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        assert {site.get(path, method).status for path in ("/", "/events", "/assets/page.css")} == {405}
    assert (site.get("/", "HEAD").status, site.get("/", "HEAD").text) == (200, "")
    assert site.get("/events", "HEAD").headers["content-type"].startswith("text/event-stream")
    assert site.get("/?q=" + "x" * 5000).status == 414


@pytest.mark.slow
def test_hostile_names_and_messages_are_text_SEE_3(site: PageSite) -> None:
    site.create(APPLICATION_INSTANCE, instance("odd"))
    scripts = [element.tag for element in elements(eventually(site, "/", "odd"))].count("script")
    with Follower(site.url, "/") as follower:
        follower.next()
        site.tell(instance_ref("odd"), {"conditions": [condition("Ready", "False", "Odd", HOSTILE)]})
        event = follower.until(lambda one: "Odd" in str(one.data))
        assert event.name == "parts", "no text ends an event, or begins one"
        assert "<script" not in str(event.data)
    name = quote(HOSTILE.replace("\n", ""), safe="")
    for path in ("/", f"{OBJECT}/odd", "/timeline", f"/?q={quote(HOSTILE)}", f"/object/{INSTANCES}/{NS}/{name}"):
        text = site.get(path).text
        found = elements(text)
        assert [element.tag for element in found].count("script") == scripts, path
        assert [element.tag for element in found].count("img") == 1, path
        assert not any(name.startswith("on") for element in found for name in element.attributes), path
        assert "54439" not in main_of(text).text, "no text is a template"


@pytest.mark.slow
def test_a_follower_is_sent_what_changed_and_nothing_else_SEE_3(site: PageSite) -> None:
    for name in ("one", "two", "three"):
        site.create(APPLICATION_INSTANCE, instance(name), ready())
    page = eventually(site, "/", "<strong>3</strong>")
    assert site.site is not None
    with Follower(site.url, "/", main_of(page).attributes["data-have"]) as follower:
        assert follower.answer.getheader("content-type") == "text/event-stream; charset=utf-8"
        assert follower.next().name == "beat", "who has it all is sent nothing"
        site.tell(instance_ref("two"), ready(message="once more"))
        event = follower.until(lambda one: "once more" in str(one.data))
        assert list(event.data["parts"]) == [f"row:{INSTANCES}:{NS}:two"]
        site.tell(instance_ref("two"), degraded("gone wrong"))
        event = follower.until(lambda one: "gone wrong" in str(one.data))
        assert set(event.data["parts"]) == {"headline", "states", "filters", "rows"}, (
            "its place changed, and the counts"
        )
        assert event.data["title"] == "▲ 1 of 3 objects needs you · vworkspace-operator"
        assert event.data["icon"].startswith("./assets/icon-bad.svg?")
        assert main_of(site.get("/").text).attributes["data-have"] == event.data["have"]
    with Follower(site.url, f"{OBJECT}/one") as follower:
        first = follower.next()
        assert "head" in first.data["parts"], "who has nothing is sent all"
        site.do(lambda api: api.delete(instance_ref("one")))
        assert follower.until(lambda one: one.name != "parts").name == "gone"


@pytest.mark.slow
def test_followers_are_bounded_and_an_idle_page_keeps_nothing_SEE_3(site: PageSite) -> None:
    site.create(APPLICATION_INSTANCE, instance("one"), ready())
    assert site.page._heard == [], "nobody follows: nobody is told"
    assert site.page._attached is not None
    index = site.page._attached.index
    assert index._rows is None, "nobody has looked: no row is kept"
    eventually(site, "/", "one")
    assert index._rows is not None
    followers = [Follower(site.url, "/") for _ in range(MOST_FOLLOWERS)]
    assert {follower.next().name for follower in followers} == {"parts"}
    too_many = site.get("/events?view=/")
    assert (too_many.status, too_many.headers["retry-after"]) == (503, "30")
    assert len(site.page._heard) == 1, "however many follow"
    for follower in followers:
        follower.close()
    assert site.site is not None
    limit = time.monotonic() + PATIENCE
    while len(site.site.followers) or site.page._heard:
        assert time.monotonic() < limit
        site.tell(instance_ref("one"), ready(message=str(time.monotonic())))
        time.sleep(0.02)
    site.portal.call(index._fall_asleep)
    assert index._rows is None


@attrs.define
class Shops(Reconciler[Any, None]):
    """Makes a ConfigMap of each shop."""

    kind = SHOP
    owns = (CONFIG_MAP,)
    api: KubeApi

    async def reconcile(self, request: Request[Any, None]) -> Result[None]:
        meta = request.object.metadata
        owner = {"apiVersion": SHOP.kind.api_version, "kind": "Shop", "name": meta.name, "uid": meta.uid}
        manifest = {**CONFIG_MAP.manifest(meta.name, meta.namespace), "data": {"x": "canary"}}
        manifest["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        await self.api.apply(manifest, kind=CONFIG_MAP, field_manager="shops", force=True)
        return Result()


@pytest.mark.slow
def test_objects_of_a_reconciler_in_python_have_rows_and_graphs_SEE_3() -> None:
    with page_site(works=True, controllers=[Shops], crds=[SHOP.crd()]) as site:
        site.create(SHOP.kind, {**SHOP.kind.manifest("corner", NS), "spec": {}})
        eventually(site, "/?state=Ready", "corner")
        assert list(rows(site.get("/?kind=Shop").text)) == [f"{SHOP.kind.crd_name}:{NS}:corner"]
        page = eventually(site, f"/object/{SHOP.kind.crd_name}/{NS}/corner", "ConfigMap")
        assert "canary" not in page


@pytest.mark.slow
def test_an_applied_box_has_a_row_and_a_page_SEE_3() -> None:
    with page_site(works=True, applied_boxes=True, crds=[applied_box_definition()]) as site:
        site.create(OPERATOR_BOX, {**OPERATOR_BOX.manifest("shops"), "spec": {"crd": {"name": "shops.example.com"}}})
        eventually(site, "/?state=Stalled", "shops")
        (row,) = rows(site.get("/?kind=OperatorBox").text)
        assert row.startswith(f"{OPERATOR_BOX.crd_name}:")
        eventually(site, f"/object/{OPERATOR_BOX.crd_name}/-/shops", "Invalid")
        assert site.get(f"/object/{OPERATOR_BOX.crd_name}/-/another").status == 404


@pytest.mark.slow
def test_objects_of_an_applied_box_are_listed_while_it_is_served_SEE_3() -> None:
    webapp = example("webapp")
    box = {**OPERATOR_BOX.manifest("webapp"), "spec": applied_example("webapp")["spec"]}
    with page_site(works=True, applied_boxes=True, crds=[applied_box_definition()]) as site:
        eventually(site, "/", "Nothing is here yet")
        site.create(OPERATOR_BOX, box)
        eventually(site, "/?state=Ready", "webapp")
        site.create(webapp.kind, {**webapp.kind.manifest("web", NS), "spec": {"image": "registry.example.com/shop:1"}})
        eventually(site, "/?kind=WebApp", f"{webapp.kind.crd_name}:{NS}:web")
        assert "Deployment" in eventually(site, f"/object/{webapp.kind.crd_name}/{NS}/web", "Deployment")
        site.do(lambda api: api.delete(ObjectRef(webapp.kind, NS, "web")))
        site.do(lambda api: api.delete(ObjectRef(OPERATOR_BOX, None, "webapp")))
        eventually(site, "/", "Nothing is here yet")


@pytest.mark.slow
def test_a_secret_is_in_no_page_and_in_no_event_SEE_3() -> None:
    """Canaries in values, statuses, messages, annotations, payloads of jobs, ConfigMaps, and what the process holds."""

    def jobs(site: PageSite) -> list[JobsPage]:
        async def made() -> JobsPage:
            entries = [job.as_json() for job in site.control.jobs]
            return JobsPage(lambda: entries, lambda: site.control.events_of(CLUSTER), "/jobs")

        return [site.portal.call(made)]

    box = example("webapp")
    with page_site(boxes=[box], further=jobs) as site:
        site.mask.add("held-canary-token")
        leak = "password=canary-1 https://user:canary-2@host/ Authorization: Bearer canary-3 held-canary-token"
        marks = {"apps.vworkspace.io/idempotency-key": "token=canary-4", "note": "canary-5", IDEMPOTENCY_KEY: leak}
        odd = instance("odd", values={"source": "inline", "inline": {"note": "canary-6", "env": {"PLAIN": "canary-7"}}})
        odd["metadata"]["annotations"] = marks
        conditions = [
            condition(type_, "True", "Odd", leak) for type_ in ("Ready", "Degraded", "Reconciling", "Stalled")
        ]
        site.create(APPLICATION_INSTANCE, odd, {"conditions": conditions})
        run = operation("run", "odd", parameters={"note": "canary-8"})
        site.create(OPERATION, run, {"phase": "Failed", "message": leak, "outputs": {"key": "canary-9"},
                                     "conditions": [condition("Failed", "True", "Odd", leak)]})  # fmt: skip
        parent = {**box.kind.manifest("shop", NS), "spec": {"image": "registry.example/canary-10:1", "replicas": 1}}
        site.create(box.kind, parent, {"conditions": [condition("Ready", "False", "Odd", leak)]})
        site.create(CONFIG_MAP, {**CONFIG_MAP.manifest("c", NS), "data": {"x": "canary-11"}})
        payload = {**instance("odd"), "spec": {"note": "canary-12", "x": leak}}
        job = site.control.enqueue(CLUSTER, kind="apply", payload=payload, idempotency_key=f"A/{leak}@1")
        site.control.enqueue(CLUSTER, kind="apply", payload="eyJhbGciOiJkaXIifQ.canary-13.c.d", idempotency_key="k")
        site.control.poll(TOKEN, CLUSTER)
        site.control.ack(TOKEN, job.id)
        site.control.result(TOKEN, job.id, {"outcome": "failed", "error": leak, "timestamp": "2026-01-01T00:00:00Z"})
        site.restart()  # with these jobs
        eventually(site, "/", "3 objects")
        paths = ["/", "/timeline", "/operator", "/jobs", f"{OBJECT}/odd"]
        paths += [f"/object/operations.ops.vworkspace.io/{NS}/run", f"/object/{box.kind.crd_name}/{NS}/shop"]
        for path in paths:
            page = site.get(path)
            assert (page.status, "***" in page.text or path == "/operator") == (200, True), path
            assert "canary" not in page.text, path
            with Follower(site.url, path) as follower:
                assert "canary" not in str(follower.next().data), path


def pod_of(release: str, name: str, **status: Any) -> Manifest:
    manifest = POD.manifest(name, NS)
    manifest["metadata"]["labels"] = {"app.kubernetes.io/instance": release}
    return {**manifest, "spec": {"containers": [{"name": "web", "image": "canary"}]}, "status": status}


@pytest.mark.slow
def test_the_graph_of_an_instance_goes_down_to_its_pods_SEE_3() -> None:
    asked: list[dict[str, Any]] = []
    with page_site(works=True) as site:
        site.create(APPLICATION_INSTANCE, instance("shop"))
        waiting = {"name": "web", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "token=canary"}}}
        for name, status in (("shop-1", {"phase": "Running", "containerStatuses": [waiting]}), ("shop-2", {})):
            site.create(POD, pod_of("shop", name), status)
        site.create(POD, pod_of("another", "other-1"))
        page = eventually(site, f"{OBJECT}/shop", "CrashLoopBackOff")
        graph = next(element.text for element in elements(page) if element.attributes.get("id") == "graph")
        assert [name in graph for name in ("shop-1", "shop-2", "other-1")] == [True, True, False]
        assert "canary" not in page
        assert site.page._attached is not None
        reader = site.page._attached.pods
        assert reader is not None
        listed = reader._api.list

        async def counted(kind: Kind, **fields: Any) -> Any:
            asked.extend([fields] if kind == POD else [])
            return await listed(kind, **fields)

        reader._api.list = counted  # type: ignore[method-assign]
        for _ in range(20):
            site.get(f"{OBJECT}/shop")
        assert len(asked) <= 1, "twenty viewers are one request in ten seconds"


def test_what_the_api_server_does_not_say_of_pods_is_said_SEE_3() -> None:
    class Refusing:
        async def list(self, kind: Kind, **fields: Any) -> ListPage:
            if fields["namespace"] == "slow":
                await anyio.sleep(60)
            if fields["namespace"] == NS:
                raise Forbidden("pods is forbidden")
            return ListPage((), "1")

    async def said(namespace: str) -> str:
        live = HELM_RELEASE.manifest("shop", namespace)
        reader = PodReader(Refusing(), lambda: 0.0, patience=0.01)  # type: ignore[arg-type]  # what it asks for
        return (await reader.below({ref_of(live, HELM_RELEASE): live}))[1]

    assert anyio.run(said, NS) == f"the operator may not list pods in namespace {NS}"
    assert anyio.run(said, "empty") == "no pod has the label app.kubernetes.io/instance=shop"
    assert anyio.run(said, "slow") == "the API server has not answered"


@pytest.mark.slow
def test_the_result_of_a_job_leads_to_the_page_of_its_object_SEE_3() -> None:
    base = "https://ops.example.com"
    with page_site(works=True, page_url=base) as site:
        job = site.control.enqueue(CLUSTER, kind="apply", payload=instance("shop"), idempotency_key="A/x/shop@1")
        limit = time.monotonic() + PATIENCE
        while job.result is None:
            assert time.monotonic() < limit, job
            time.sleep(0.02)
        assert (job.result["outcome"], job.result["pageUrl"]) == ("succeeded", f"{base}{OBJECT}/shop")
        assert "HelmReleaseReady" in eventually(site, job.result["pageUrl"].removeprefix(base), "Ready")


# --- who may look ----------------------------------------------------------------------------------------------------


class Cluster:
    """An API server that knows two users; `friend` may look."""

    def __init__(self, friend: str = "jane") -> None:
        self.asked: list[Manifest] = []
        self.friend = friend

    async def review(self, manifest: Manifest, *, kind: Kind) -> Manifest:
        self.asked.append(manifest)
        if kind.kind == "TokenReview":
            user = {"good": "jane", "plain": "joe"}.get(manifest["spec"]["token"])
            return {"status": {"authenticated": user is not None, "user": {"username": user, "groups": ["people"]}}}
        assert manifest["spec"]["nonResourceAttributes"] == {"path": PATH, "verb": "get"}
        return {"status": {"allowed": manifest["spec"]["user"] == self.friend}}


def basic(password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()}


@pytest.mark.slow
def test_with_token_review_the_api_server_says_who_may_look_SEE_3() -> None:
    access, cluster = TokenAccess(), Cluster()
    with page_site(access=access) as site:
        assert site.get("/", headers=basic("good")).status == 503, "nobody can be asked yet"
        site.portal.call(access.attach, cluster)
        for path in ("/", "/events", "/assets/page.js", "/operator"):
            answer = site.get(path)
            assert answer.status == 401
            assert answer.headers["www-authenticate"].startswith("Basic ")
        assert site.get("/", headers=basic("nobody's")).status == 401
        assert site.get("/", headers=basic("plain")).status == 403
        assert site.get("/", headers=basic("good")).status == 200
        assert site.get("/", headers={"authorization": "Bearer good"}).status == 200
        asked = len(cluster.asked)
        assert site.get("/operator", headers=basic("good")).status == 200
        assert len(cluster.asked) == asked, "who was let in is not asked about for a moment"
        for odd in ("", "Basic", "Basic ===", "Basic /w==", "Digest x", "Bearer " + "x" * 20_000):
            assert site.get("/", headers={"authorization": odd}).status == 401


@pytest.mark.slow
def test_a_right_that_is_revoked_or_given_counts_within_ten_seconds_SEE_3() -> None:
    now = [1_000.0]
    access, cluster = TokenAccess(monotonic=lambda: now[0]), Cluster()
    with page_site(access=access) as site:
        site.portal.call(access.attach, cluster)

        def statuses() -> list[int]:
            return [site.get("/", headers=basic(token)).status for token in ("good", "plain", "nobody's")]

        assert statuses() == [200, 403, 401]
        cluster.friend = "joe"
        now[0] += VERDICT_SECONDS - 0.001
        assert statuses() == [200, 403, 401], "what the API server said counts for ten seconds"
        now[0] += 0.001
        assert statuses() == [403, 200, 401]
        assert VERDICT_SECONDS <= 10


@pytest.mark.slow
def test_a_follower_goes_with_the_right_to_look_SEE_3() -> None:
    access, cluster = TokenAccess(seconds=0.0), Cluster()
    with page_site(access=access) as site:
        site.portal.call(access.attach, cluster)
        site.create(APPLICATION_INSTANCE, instance("one"), ready())
        with Follower(site.url, "/", headers={"authorization": "Bearer good"}) as follower:
            assert follower.next().name == "parts"
            cluster.friend = "joe"
            site.tell(instance_ref("one"), degraded("gone wrong"))
            assert follower.answer.read() == b"", "it ends, and nothing more is told"


@pytest.mark.slow
def test_a_password_and_the_names_of_this_machine_SEE_3() -> None:
    with page_site(access=PasswordAccess("s3cret-admin")) as site:
        assert site.get("/", headers=basic("s3cret-admin")).status == 200
        assert {site.get("/", headers=basic(other)).status for other in ("", "s3cret", "ü")} == {401}
    with page_site(access=KnownHosts()) as site:
        assert site.get("/").status == 200
        assert site.get("/", headers={"host": "localhost:80"}).status == 200
        assert site.get("/", headers={"host": "evil.example"}).status == 421
