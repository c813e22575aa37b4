"""`kubectl get`, `-o wide`, `status` and the page show the same of an object, and the truth (SEE-1, SEE-3, RES-1, U9).

Worlds are drawn: what is wanted, what Flux reports, what is in the way. The API server makes the tables of `kubectl`
from the JSONPaths of the definitions.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from html import unescape
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.http.tables.render import table
from kubelab.model.calls import RequestTarget
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.meta import Condition, condition_json
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from tests.support.flux_reports import helm_reports, source_reports
from tests.support.instance_worlds import (
    CONTEXT,
    NAMESPACE,
    NOW,
    RELEASE,
    SOURCE,
    applied,
    decide,
    deployed,
    fetched,
    history,
    instance_manifest,
    written,
)
from tests.support.strategies import conditions
from vworkspace_app.commands.status import list_text
from vworkspace_app.overview.reading import OwnObjects
from vworkspace_app.page.operator_screens import list_screen
from vworkspace_app.page.rendering import Renderer
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.reasons import headline
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.overview.object_list import ListQuery, list_view, row_of
from vworkspace_core.overview.summary import summary_of

Cells = Mapping[str, str]


@cache
def server() -> ApiServer:
    """With our definitions."""
    made = ApiServer(now=lambda: NOW)
    for crd in crd_manifests():
        made.create(RequestTarget(made.resource(CUSTOM_RESOURCE_DEFINITION), None, crd["metadata"]["name"]), crd)
    return made


def of_kubectl(kind: Kind, manifest: Manifest) -> Cells:
    """What `kubectl get -o wide` prints, by column."""
    answer = table(server().resource(kind), [manifest], {}, "", NOW)
    names = [column["name"] for column in answer["columnDefinitions"]]
    return {name: cell or "" for name, cell in zip(names, answer["rows"][0]["cells"], strict=True)}


def of_status(kind: Kind, manifest: Manifest) -> Cells:
    """What `status` prints, by column: from one head to the next."""
    head, row, *_ = list_text(OwnObjects(((kind, manifest),)), None, NOW).splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", head)]
    ends = [*starts[1:], None]
    return {head[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}


def of_page(kind: Kind, manifest: Manifest) -> Cells:
    """What a row of the page shows, by the class of the cell."""
    screen = list_screen(list_view([row_of(kind, manifest)], ListQuery()))
    html = Renderer("page", ()).screen(screen, "/").parts["rows"].html
    cells = dict(re.findall(r'<td class="(\w+)">(.*?)</td>', html, re.DOTALL))
    reason = re.search(r"<b>(.*?)</b>", cells["why"])
    texts = {**cells, "reason": reason.group(1) if reason else ""}
    return {name: unescape(re.sub(r"<[^>]*>", "", text)).strip() for name, text in texts.items()}


# --- worlds --------------------------------------------------------------------------------------------------------


@attrs.frozen
class World:
    """An instance as it stands after a decision on what Flux reports."""

    manifest: Manifest
    release: Manifest | None


def world(release: dict[str, Any], source: dict[str, Any], version: str, block: str, *, suspended: bool) -> World:
    """Everything is applied as it was first wanted; then `version` is wanted, and `block` is in the way."""
    manifest, objects = instance_manifest(), applied(instance_manifest())
    objects[RELEASE]["status"], objects[SOURCE]["status"] = release, source
    objects[RELEASE]["spec"]["suspend"] = suspended
    first = written(manifest, decide(manifest, InstanceObserved(NAMESPACE, objects)))
    spec = {**first["spec"], "chart": {**first["spec"]["chart"], "version": version}}
    changed = {**first, "metadata": {**first["metadata"], "generation": 2}, "spec": spec}
    namespace, context = NAMESPACE, CONTEXT
    match block:
        case "gate":
            namespace = {**NAMESPACE, "metadata": {"name": "org-myteam"}}
        case "policy":
            policy = attrs.evolve(context.settings.policy, forbidden_versions=(version,))
            context = attrs.evolve(context, settings=attrs.evolve(context.settings, policy=policy))
        case _:
            pass
    after = written(changed, decide(changed, InstanceObserved(namespace, objects), context))
    return World(after, objects[RELEASE])


worlds = st.builds(
    world,
    helm_reports(),
    source_reports(),
    st.sampled_from(["6.6.0", "6.7.0", "7.0.0-rc.1+a"]),
    st.sampled_from(["", "gate", "policy"]),
    suspended=st.booleans(),
)
UPGRADE_FAILED = deployed(history=[history("6.7.0", status="failed"), history("6.6.0")])


def helm_runs(release: Manifest | None) -> str:
    """The version that Helm calls deployed, without the digest that Flux adds."""
    entries = get_path(release, "status", "history") or ()
    running = [entry["chartVersion"] for entry in entries if entry["status"] == "deployed"]
    return re.sub(r"\+[0-9a-f]{12}$", "", running[0]) if running else ""


@pytest.mark.slow
@given(worlds)
@example(world(deployed(), fetched(), "6.7.0", "", suspended=False))
@example(world(deployed(), fetched(), "6.7.0", "gate", suspended=False))
@example(world(deployed(), fetched(), "6.6.0", "", suspended=True))
@example(world(deployed(), fetched(), "6.7.0", "policy", suspended=True))
@example(world(UPGRADE_FAILED, fetched(), "6.7.0", "", suspended=False))
def test_every_table_shows_the_same_of_an_instance_and_it_is_the_case(drawn: World) -> None:
    kubectl, status, page = (look(APPLICATION_INSTANCE, drawn.manifest) for look in (of_kubectl, of_status, of_page))
    spec = drawn.manifest["spec"]
    assert kubectl["Wanted"] == status["WANTED"] == page["wanted"] == spec["chart"]["version"]
    assert kubectl["Deployed"] == status["DEPLOYED"] == page["deployed"] == helm_runs(drawn.release)
    assert kubectl["Reason"] == status["REASON"] == page["reason"] != ""
    is_suspended = kubectl["Suspended"] == "True"
    assert is_suspended is ("uspended" in status["STATE"]) is ("uspended" in page["state"])
    assert page["state"].endswith(status["STATE"])
    assert kubectl["Message"] == summary_of(APPLICATION_INSTANCE, drawn.manifest).message
    if status["STATE"] == "Ready":
        assert kubectl["Ready"] == "True"


def as_operator_writes(kind: Kind, found: tuple[Condition, ...]) -> Manifest:
    """An object with these conditions and what is told of them."""
    manifest = instance_manifest() if kind == APPLICATION_INSTANCE else OPERATION.manifest("run", "org-myteam")
    manifest["metadata"] = {**manifest["metadata"], "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    told = [json.loads(json.dumps(condition_json(each), default=str)) for each in found]
    status = {"observedGeneration": 1, "conditions": told, **headline(kind, found)}
    return {"spec": {}, **manifest, "status": status}


@pytest.mark.slow
@given(st.sampled_from([APPLICATION_INSTANCE, OPERATION]), st.data())
def test_every_table_has_the_same_reason_whatever_conditions_stand_there(kind: Kind, data: st.DataObject) -> None:
    manifest = as_operator_writes(kind, data.draw(conditions(kind.kind)))
    kubectl, status, page = (look(kind, manifest) for look in (of_kubectl, of_status, of_page))

    assert kubectl["Reason"] == status["REASON"] == page["reason"]
    assert kubectl["Message"] == summary_of(kind, manifest).message


@pytest.mark.slow
@given(conditions("ApplicationInstance"))
def test_while_a_new_generation_is_not_observed_no_table_calls_it_ready(found: tuple[Condition, ...]) -> None:
    """`kubectl` cannot compare two fields: it shows what is wanted beside what is deployed; the others say so."""
    manifest = as_operator_writes(APPLICATION_INSTANCE, found)
    manifest["metadata"]["generation"] = 2
    manifest["spec"]["chart"] = {**manifest["spec"]["chart"], "version": "9.9.9"}
    manifest["status"]["deployedChart"] = {"name": "nextcloud", "version": "6.6.0"}
    kubectl, status = of_kubectl(APPLICATION_INSTANCE, manifest), of_status(APPLICATION_INSTANCE, manifest)

    assert (kubectl["Wanted"], kubectl["Deployed"]) == ("9.9.9", "6.6.0")
    assert status["STATE"] not in ("Ready", "Suspended")


def test_the_default_table_fits_a_terminal() -> None:
    """A hundred columns, with names and versions as they are: what is wider comes with `-o wide`."""
    manifest = world(deployed(), fetched(), "6.6.0", "", suspended=True).manifest
    answer = table(server().resource(APPLICATION_INSTANCE), [manifest], {}, "", NOW)
    shown = [
        max(len(column["name"]), len(str(cell or "")))
        for column, cell in zip(answer["columnDefinitions"], answer["rows"][0]["cells"], strict=True)
        if not column["priority"]
    ]
    assert sum(shown) + 3 * len(shown) <= 100
