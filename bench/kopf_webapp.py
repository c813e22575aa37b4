"""The WebApp of `bench/webapp.yaml` with kopf: the same five objects, by hand, in the same three phases.

Written as kopf's documentation teaches: handlers for the object, event handlers for the children that gates depend on,
kopf's own finalizer and bookkeeping. It does less than a box: no conflicts, no drift, no pruning, no messages.

    kopf run --standalone --all-namespaces bench/kopf_webapp.py
"""

import logging
import os
from hashlib import sha256
from typing import Any

import kopf
from lightkube import AsyncClient
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Service, ServiceAccount
from lightkube.resources.networking_v1 import Ingress
from lightkube.types import PatchType

GROUP = "example.com"
WebApp: Any = create_namespaced_resource(GROUP, "v1", "WebApp", "webapps")


@kopf.on.startup()
async def configure(memo: kopf.Memo, **_: Any) -> None:
    memo.client = AsyncClient(field_manager="kopf-operator")
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line per request is no part of the work


def meta(app: str, suffix: str = "") -> dict[str, Any]:
    return {"name": app + suffix, "labels": {"app": app, "webapp": app}}


Child = tuple[Any, dict[str, Any]]
"""A class of lightkube, and a manifest of it."""


async def apply(client: Any, owner: Any, namespace: str | None, *children: Child) -> None:
    for resource, manifest in children:
        kopf.adopt(manifest, owner=owner)
        await client.apply(resource.from_dict(manifest), namespace=namespace)


def workload(name: str, spec: Any) -> list[Child]:
    account = (ServiceAccount, {"metadata": meta(name)})
    data = {"image": spec["image"], "replicas": str(spec["replicas"])}
    config = (ConfigMap, {"metadata": meta(name, "-config"), "data": data})
    container = {
        "name": "web",
        "image": spec["image"],
        "ports": [{"name": "http", "containerPort": 8080}],
        "envFrom": [{"configMapRef": {"name": f"{name}-config"}}],
    }
    template = {
        "metadata": {"labels": {"app": name}, "annotations": {"config": sha256(repr(data).encode()).hexdigest()}},
        "spec": {"serviceAccountName": name, "containers": [container]},
    }
    deployment = {"replicas": spec["replicas"], "selector": {"matchLabels": {"app": name}}, "template": template}
    if limit := os.environ.get("REVISION_HISTORY_LIMIT"):  # how the measurement changes the program
        deployment["revisionHistoryLimit"] = int(limit)
    return [account, config, (Deployment, {"metadata": meta(name), "spec": deployment})]


def network(name: str) -> Child:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    spec = {"type": "LoadBalancer", "selector": {"app": name}, "ports": ports}
    return Service, {"metadata": meta(name, "-svc"), "spec": spec}


def edge(name: str, host: str) -> Child:
    backend = {"service": {"name": f"{name}-svc", "port": {"name": "http"}}}
    rule = {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    return Ingress, {"metadata": meta(name, "-ingress"), "spec": {"rules": [rule]}}


@kopf.on.create(GROUP, "v1", "webapps")
@kopf.on.update(GROUP, "v1", "webapps", field="spec")
@kopf.on.resume(GROUP, "v1", "webapps")
async def phase_one(
    body: kopf.Body, name: str, namespace: str | None, spec: kopf.Spec, memo: kopf.Memo, **_: Any
) -> None:
    await apply(memo.client, body, namespace, *workload(name, spec))


@kopf.on.event("apps", "v1", "deployments", labels={"webapp": kopf.PRESENT})
async def phase_two(body: kopf.Body, namespace: str | None, labels: Any, memo: kopf.Memo, **_: Any) -> None:
    name, live = labels["webapp"], body.get("status", {})
    if live.get("readyReplicas") != body["spec"].get("replicas"):
        return
    owner = await memo.client.get(WebApp, name, namespace=namespace)
    await apply(memo.client, owner, namespace, network(name))
    await tell(memo.client, owner, {"readyReplicas": live["readyReplicas"]}, ready=False)


@kopf.on.event("", "v1", "services", labels={"webapp": kopf.PRESENT})
async def phase_three(body: kopf.Body, namespace: str | None, labels: Any, memo: kopf.Memo, **_: Any) -> None:
    name, addresses = labels["webapp"], body.get("status", {}).get("loadBalancer", {}).get("ingress")
    if not addresses:
        return
    owner = await memo.client.get(WebApp, name, namespace=namespace)
    await apply(memo.client, owner, namespace, edge(name, owner["spec"]["host"]))
    await tell(memo.client, owner, {"address": addresses[0]["ip"]}, ready=False)


@kopf.on.event("networking.k8s.io", "v1", "ingresses", labels={"webapp": kopf.PRESENT})
async def ready(body: kopf.Body, namespace: str | None, labels: Any, memo: kopf.Memo, **_: Any) -> None:
    if not body.get("status", {}).get("loadBalancer", {}).get("ingress"):
        return
    owner = await memo.client.get(WebApp, labels["webapp"], namespace=namespace)
    await tell(memo.client, owner, {}, ready=True)


async def tell(client: Any, owner: Any, fields: dict[str, Any], *, ready: bool) -> None:
    """Write the status if it has changed."""
    generation, before = owner.metadata.generation, owner.get("status") or {}
    condition = {"type": "Ready", "status": str(ready), "reason": "Ready" if ready else "Progressing", "message": ""}
    told = [{k: c.get(k) for k in condition} for c in before.get("conditions", [])]
    if all(before.get(key) == value for key, value in fields.items()) and told == [condition]:
        return
    stamped = {**condition, "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation}
    status = {**fields, "observedGeneration": generation, "conditions": [stamped]}
    await client.patch(
        WebApp.Status, owner.metadata.name, {"status": status}, namespace=owner.metadata.namespace,
        patch_type=PatchType.MERGE,
    )  # fmt: skip


@kopf.on.delete(GROUP, "v1", "webapps")
async def gone(**_: Any) -> None:
    """Leave the rest to the garbage collector; kopf's finalizer corresponds to a box's."""
