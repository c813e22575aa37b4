"""The same path with kopf: an ApplicationInstance becomes a source and a HelmRelease, whose report becomes Ready.

The measurements compare the operator with it. It is written as kopf's documentation teaches: handlers for the instance,
an event handler for the release, kopf's own finalizer and bookkeeping, and `kopf.event` for one Event per condition
transition (REC-1; with BENCH_EVENTS=0 none, as kopf itself writes none). It does less than the operator: no conflicts,
no drift, no values, no attempts of another request.

    kopf run --standalone --all-namespaces bench/kopf_operator.py
"""

import os
from typing import Any

import kopf
from lightkube import AsyncClient
from lightkube.generic_resource import create_namespaced_resource
from lightkube.types import PatchType

APPS, HELM, SOURCE = "apps.vworkspace.io", "helm.toolkit.fluxcd.io", "source.toolkit.fluxcd.io"
MANAGER = "kopf-operator"
EVENTS = os.environ.get("BENCH_EVENTS", "1") != "0"
GENERATION = "bench.vworkspace.io/generation"
Instance: Any = create_namespaced_resource(APPS, "v1alpha1", "ApplicationInstance", "applicationinstances")
Release: Any = create_namespaced_resource(HELM, "v2", "HelmRelease", "helmreleases")
Repository: Any = create_namespaced_resource(SOURCE, "v1", "OCIRepository", "ocirepositories")


@kopf.on.startup()
async def configure(memo: kopf.Memo, **_: Any) -> None:
    memo.client = AsyncClient(field_manager=MANAGER)


@kopf.on.create(APPS, "v1alpha1", "applicationinstances")
@kopf.on.update(APPS, "v1alpha1", "applicationinstances", field="spec")
@kopf.on.resume(APPS, "v1alpha1", "applicationinstances")
async def release_it(
    body: kopf.Body, name: str, namespace: str | None, spec: kopf.Spec, memo: kopf.Memo, **_: Any
) -> None:
    chart = spec["chart"]
    source = Repository.from_dict(
        {
            "apiVersion": f"{SOURCE}/v1",
            "kind": "OCIRepository",
            "metadata": {"name": spec["release"]["name"]},
            "spec": {
                "interval": "5m",
                "url": f"{chart['url'].rstrip('/')}/{chart['name']}",
                "ref": {"tag": chart["version"]},
                "layerSelector": {
                    "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
                    "operation": "copy",
                },
            },
        }
    )
    release = Release.from_dict(
        {
            "apiVersion": f"{HELM}/v2",
            "kind": "HelmRelease",
            "metadata": {
                "name": spec["release"]["name"],
                "labels": {"instance": name},
                "annotations": {GENERATION: str(body["metadata"]["generation"])},
            },
            "spec": {
                "interval": "5m",
                "chartRef": {"kind": "OCIRepository", "name": spec["release"]["name"]},
                "releaseName": spec["release"]["name"],
                "values": (spec.get("values") or {}).get("inline") or {},
            },
        }
    )
    kopf.adopt([source, release], owner=body)
    for child in (source, release):
        await memo.client.apply(child, namespace=namespace)


@kopf.on.delete(APPS, "v1alpha1", "applicationinstances")
async def remove_it(spec: kopf.Spec, namespace: str | None, memo: kopf.Memo, **_: Any) -> None:
    await memo.client.delete(Release, spec["release"]["name"], namespace=namespace)


@kopf.on.event(HELM, "v2", "helmreleases")
async def report_it(body: kopf.Body, namespace: str | None, memo: kopf.Memo, **_: Any) -> None:
    status, meta = body.get("status") or {}, body["metadata"]
    ready = next((condition for condition in status.get("conditions") or () if condition["type"] == "Ready"), None)
    owner = next(
        (
            owner_reference
            for owner_reference in meta.get("ownerReferences") or ()
            if owner_reference["kind"] == "ApplicationInstance"
        ),
        None,
    )
    if ready is None or owner is None or meta.get("deletionTimestamp"):
        return
    settled = ready["status"] == "True" and status.get("observedGeneration") == meta["generation"]
    generation = int(meta.get("annotations", {}).get(GENERATION, 0))
    known, news = memo.setdefault("told", {}), (settled, generation)
    if known.get(owner["uid"]) == news:
        return
    known[owner["uid"]] = news
    conditions = [
        {
            "type": kind,
            "status": str(true),
            "reason": reason,
            "message": ready.get("message", ""),
            "lastTransitionTime": ready["lastTransitionTime"],
            "observedGeneration": generation,
        }
        for kind, true, reason in (
            ("Ready", settled, "HelmReleaseReady" if settled else "Installing"),
            ("Reconciling", not settled, "Stable" if settled else "HelmReleaseInstalling"),
        )
    ]
    patch = {"status": {"observedGeneration": generation, "conditions": conditions}}
    await memo.client.patch(
        Instance.Status, owner["name"], patch, namespace=namespace, patch_type=PatchType.MERGE, field_manager=MANAGER
    )
    if EVENTS:
        about = {**owner, "metadata": {"name": owner["name"], "namespace": namespace, "uid": owner["uid"]}}
        for condition in conditions:
            note = f"{condition['type']} is {condition['status']}: {condition['message']}"
            kopf.event(about, type="Normal", reason=condition["reason"], message=note)
