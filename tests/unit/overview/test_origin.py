"""The origin of an object: the same for `status`, with all field managers, and the page, with those of caches."""

from datetime import UTC, datetime
from typing import Any

import pytest

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.timestamps import format_time
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import IDEMPOTENCY_KEY
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.overview.object_graph import graph_of_tree
from vworkspace_core.overview.origin import applied_at, origin_data, origin_of, with_writer
from vworkspace_core.overview.summary import summary_of
from vworkspace_core.overview.tree import Branch

KUSTOMIZED = {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
RELEASED = {"helm.toolkit.fluxcd.io/name": "all", "helm.toolkit.fluxcd.io/namespace": "apps"}
HELM = {"meta.helm.sh/release-name": "all", "meta.helm.sh/release-namespace": "apps"}


def written(manager: str, field: str = "f:chart", **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {field: {}}}, **more}


def an_object(*managed_fields: dict[str, Any], **meta: Any) -> Manifest:
    whole = {"name": "a", "namespace": "n", "managedFields": list(managed_fields), **meta}
    return {**APPLICATION_INSTANCE.manifest("a", "n"), "metadata": whole}


CLI = written("vworkspace-operator-cli", "f:suspend")
OBJECTS: dict[str, tuple[Manifest, str, dict[str, str]]] = {
    "a Kustomization of Flux": (
        an_object(written("kustomize-controller"), labels=KUSTOMIZED),
        "GitOps, by the Kustomization flux-system/apps",
        {"manager": "kustomize-controller", "tool": "Kustomization flux-system/apps"},
    ),
    "a Kustomization of Flux, and then our command line": (
        an_object(written("kustomize-controller"), CLI, labels=KUSTOMIZED),
        "GitOps, by the Kustomization flux-system/apps",
        {"manager": "kustomize-controller", "tool": "Kustomization flux-system/apps"},
    ),
    "a HelmRelease of Flux": (
        an_object(written("helm-controller"), labels=RELEASED, annotations=HELM),
        "GitOps, by the HelmRelease apps/all",
        {"manager": "helm-controller", "tool": "HelmRelease apps/all"},
    ),
    "Helm": (
        an_object(written("helm"), annotations=HELM),
        "the Helm release apps/all",
        {"manager": "helm", "tool": "Helm release apps/all"},
    ),
    "Argo CD": (
        an_object(written("argocd-controller"), annotations={"argocd.argoproj.io/tracking-id": "apps:x/y:n/a"}),
        "GitOps, by the Application of Argo CD apps",
        {"manager": "argocd-controller", "tool": "Application of Argo CD apps"},
    ),
    "a person, who set a common label": (
        an_object(written("kubectl-client-side-apply"), labels={"app.kubernetes.io/instance": "a"}),
        "applied directly (kubectl-client-side-apply)",
        {"manager": "kubectl-client-side-apply"},
    ),
    "a person, and then our command line": (
        an_object(written("kubectl"), CLI, written("scaler", subresource="scale")),
        "applied directly (kubectl)",
        {"manager": "kubectl"},
    ),
    "our command line alone": (
        an_object(CLI),
        "applied directly (vworkspace-operator-cli)",
        {"manager": "vworkspace-operator-cli"},
    ),
    "a job": (
        an_object(CLI, labels=KUSTOMIZED, annotations={IDEMPOTENCY_KEY: "jobs/j-7"}),
        "control plane (job jobs/j-7)",
        {"job": "jobs/j-7"},
    ),
    "nobody known": (an_object(), "applied directly (writer unknown)", {"manager": ""}),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_status_and_page_name_the_same_source_SEE_1_SEE_3(name: str) -> None:
    live, text, data = OBJECTS[name]
    origin = origin_of(live)
    assert (str(origin), origin_data(origin)) == (text, data)
    cached = with_writer(OWN_STATUS.with_holders(live), live)
    assert origin_of(cached) == origin
    asked = graph_of_tree(Branch(summary_of(APPLICATION_INSTANCE, live)), origin_of(cached)).nodes[0]
    assert asked.name in text


NEVER = datetime.min.replace(tzinfo=UTC)
EARLY, LATE, LATER = (f"2026-06-01T1{hour}:00:00Z" for hour in (0, 1, 2))
SPEC: dict[str, Any] = {"f:spec": {}}


@pytest.mark.parametrize(
    ("entries", "writer", "time"),
    [
        ([], "", None),
        ([written("a", time=EARLY)], "a", EARLY),
        ([written("a", time=LATE), written("a", time=EARLY)], "a", LATE),
        ([written("a", time=EARLY), written("b", time=LATE), written("a", time=LATER)], "a", LATER),
        ([written("a", time=LATER), written("b", time=EARLY)], "b", EARLY),
        ([written("a", time=EARLY), written("vworkspace-operator-cli", time=LATER)], "a", EARLY),
        ([written("vworkspace-operator-cli", time=EARLY)], "vworkspace-operator-cli", EARLY),
        ([written("a"), written("a", time=EARLY)], "a", EARLY),
        ([written("a")], "a", None),
        ([written("a", time="soon")], "a", None),
        ([written("a", time=EARLY), written("b", subresource="scale", time=LATE)], "a", EARLY),
        ([written("a", time=EARLY), {"manager": "b", "fieldsV1": {"f:metadata": {}}, "time": LATE}], "a", EARLY),
        ([{"manager": "b", "fieldsV1": {"f:metadata": {}}, "time": LATE}], "", None),
        ([written("a", time=EARLY), {"manager": "b"}, {"manager": "c", "fieldsV1": {"f:spec": None}}], "a", EARLY),
    ],
)
def test_the_writer_of_a_spec_is_the_last_but_our_command_line_with_its_latest_time(
    entries: list[dict[str, Any]], writer: str, time: str | None
) -> None:
    live = an_object(*entries)
    known = {"manager": "x", "subresource": "status"}
    cached = an_object(known)
    found = with_writer(cached, live)

    assert (applied_at(live) and format_time(applied_at(live) or NEVER)) == time
    assert origin_of(live).manager == writer
    if not writer:
        assert found is cached
        return
    told = {"manager": writer, **({"time": time} if time else {}), "fieldsV1": SPEC}
    assert found == {**cached, "metadata": {**cached["metadata"], "managedFields": [known, told]}}
    assert (applied_at(found), origin_of(found).manager) == (applied_at(live), writer)
    bare = {**cached, "metadata": {"name": "a"}}
    assert with_writer(bare, live)["metadata"] == {"name": "a", "managedFields": [told]}
