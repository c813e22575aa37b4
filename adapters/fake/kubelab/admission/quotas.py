"""ResourceQuotas: what an object uses of them, and which writes exceed one.

A quota counts as soon as a controller has written its `status.hard` and `status.used`; until then it limits nothing,
on a kube-apiserver as here.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from kubelab.admission.amounts import ONE, Amount, Amounts, add, amount_of, amounts_in, amounts_of, total_of
from kubelab.model.failure import ApiFailure, forbidden
from kubelab.model.records import GroupResource
from kubelab.storage.store import Store
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.meta import selects_labels

QUOTAS: Final[GroupResource] = ("", "resourcequotas")
_PODS: Final = ("", "pods")
_CLAIMS: Final = ("", "persistentvolumeclaims")
_SERVICES: Final = ("", "services")
# kubernetes: quota/v1/evaluator/core/registry.go, legacyObjectCountAliases.
_ALIASES: Final = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_REQUIRED: Final = {f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in ("cpu", "memory")}

Fields = Mapping[str, Any]


def usage_of(where: GroupResource, manifest: Manifest) -> Amounts:
    """Return what an object of the resource `where` uses, by the names that quotas have for it."""
    group, plural = where
    used = {f"count/{plural}.{group}" if group else f"count/{plural}": ONE}
    if not group and plural in _ALIASES:
        used[plural] = ONE
    if where == _PODS:
        used |= _of_pod(manifest)
    elif where == _CLAIMS:
        used |= _of_claim(manifest)
    elif where == _SERVICES:
        used |= _of_service(manifest["spec"])
    return used


def _of_pod(pod: Manifest) -> Amounts:
    # kubernetes: quota/v1/evaluator/core/pods.go, PodUsageFunc: a pod that has ended uses nothing but its count.
    if get_path(pod, "status", "phase") in ("Succeeded", "Failed"):
        return {}
    requests, limits = (total_of(pod["spec"], key) for key in ("requests", "limits"))
    overhead = amounts_of(pod["spec"].get("overhead"))
    add(requests, overhead)
    # component-helpers: resource/helpers.go, PodLimits: what has no limit has none with its overhead either.
    add(limits, {name: amount for name, amount in overhead.items() if name in limits and limits[name].number})
    return {"pods": ONE, **_computed(requests, limits)}


def _computed(requests: Amounts, limits: Amounts) -> Amounts:
    out = {f"requests.{name}": amount for name, amount in requests.items()}
    out |= {name: amount for name, amount in requests.items() if name in _COMPUTE or name.startswith("hugepages-")}
    return out | {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}


def _of_claim(claim: Manifest) -> Amounts:
    used = {"persistentvolumeclaims": ONE}
    if storage := get_path(claim, "spec", "resources", "requests", "storage"):
        used["requests.storage"] = amount_of(storage)
    if kind := get_path(claim, "spec", "storageClassName"):
        prefix = f"{kind}.storageclass.storage.k8s.io/"
        used |= {f"{prefix}{name}": amount for name, amount in used.items()}
    return used


def _of_service(spec: Fields) -> Amounts:
    nodes = sum(1 for port in spec.get("ports") or () if port.get("nodePort"))
    balanced = spec.get("type") == "LoadBalancer"
    if spec.get("type") in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts") is not False:
        nodes = max(nodes, len(spec.get("ports") or ()))
    counts = {"services": 1, "services.nodeports": nodes, "services.loadbalancers": balanced}
    return {name: Amount(Decimal(count)) for name, count in counts.items()}


# --- scopes ----------------------------------------------------------------------------------------------------------


def _matches(quota: Fields, where: GroupResource, manifest: Manifest) -> bool:
    spec = quota.get("spec") or {}
    selectors = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    selectors += get_path(spec, "scopeSelector", "matchExpressions") or ()
    return all(where == _PODS and _in_scope(manifest, selector) for selector in selectors)


def _in_scope(pod: Manifest, selector: Fields) -> bool:
    spec = pod["spec"]
    match selector["scopeName"]:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return bool(get_path(pod, "status", "qosClass") == "BestEffort")
        case "NotBestEffort":
            return bool(get_path(pod, "status", "qosClass") != "BestEffort")
        case "PriorityClass":
            name = spec.get("priorityClassName")
            return selects_labels({"matchExpressions": [{**selector, "key": "name"}]}, {"name": name} if name else {})
        case _:
            return False


# --- the decision ----------------------------------------------------------------------------------------------------


def charged(
    quotas: Iterable[Fields], where: GroupResource, manifest: Manifest, before: Manifest | None = None
) -> Iterator[tuple[Fields, dict[str, str]]]:
    """Yield each of `quotas` that a write uses more of, with its new `status.used`.

    `before` is the object before an update, None for a create. Raises ApiFailure 403 if the write exceeds a quota.
    """
    used, name = usage_of(where, manifest), manifest["metadata"].get("name", "")
    was = {} if before is None else usage_of(where, before)
    more = {key: amount - was.get(key, Amount()) for key, amount in used.items()}
    more = {key: amount for key, amount in more.items() if amount.number > 0}
    for quota in quotas:
        status = quota.get("status") or {}
        hard, counted = status.get("hard") or {}, status.get("used") or {}
        # kubernetes: quota/v1/evaluator/core/pods.go, Handles: a pod is charged when it is created.
        if (where == _PODS and before is not None) or not _matches(quota, where, manifest):
            continue
        if where == _PODS and (missing := _missing(manifest, hard)):
            raise _refused(where, name, f"failed quota: {quota['metadata']['name']}: must specify {missing}")
        asked = {key: amount for key, amount in more.items() if key in hard}
        if unknown := sorted(asked.keys() - counted.keys()):
            why = f"status unknown for quota: {quota['metadata']['name']}, resources: {','.join(unknown)}"
            raise _refused(where, name, why)
        new = {key: amount_of(counted[key]) + amount for key, amount in asked.items()}
        if exceeded := sorted(key for key, amount in new.items() if amount.number > amount_of(hard[key]).number):
            raise _refused(where, name, _exceeded(quota, {key: asked[key] for key in exceeded}))
        if new:
            yield quota, {**counted, **{key: str(amount) for key, amount in new.items()}}


def _missing(pod: Manifest, hard: Fields) -> str:
    """Return which containers of a pod lack the amounts of compute resources that a quota limits; empty if none do."""
    if pod["spec"].get("resources"):
        return ""
    wanted = _REQUIRED & hard.keys()
    lacking: dict[str, set[str]] = {}
    for container in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
        present = _computed(amounts_in(container, "requests"), amounts_in(container, "limits"))
        for key in wanted - present.keys():
            lacking.setdefault(key, set()).add(container.get("name", ""))
    return "; ".join(f"{key} for: {','.join(sorted(lacking[key]))}" for key in sorted(lacking))


def _exceeded(quota: Fields, requested: Amounts) -> str:
    status = quota["status"]
    asked, used, limited = (
        ",".join(f"{key}={amounts[key]}" for key in requested)
        for amounts in (requested, status["used"], status["hard"])
    )
    return f"exceeded quota: {quota['metadata']['name']}, requested: {asked}, used: {used}, limited: {limited}"


def _refused(where: GroupResource, name: str, why: str) -> ApiFailure:
    return forbidden(*where, name, why)


class QuotaAdmission:
    """The part of the in-memory API server that charges writes to the quotas of their namespaces."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def charge(
        self, where: GroupResource, manifest: Manifest, before: Manifest | None, *, dry_run: bool = False
    ) -> None:
        """Charge a write to the quotas of its namespace. Raises ApiFailure 403 if it exceeds one of them.

        `before` is the object before an update, None for a create. A `dry_run` changes no quota.
        """
        namespace = manifest["metadata"].get("namespace")
        if not namespace:
            return
        records = {record.key[1]: record for record in self._store.scan(QUOTAS, namespace)}
        quotas = [record.shared() for record in records.values()]
        for quota, used in list(charged(quotas, where, manifest, before)):
            if not dry_run:
                changed = {**quota, "status": {**quota["status"], "used": used}}
                self._store.put(QUOTAS, changed, schema=records[quota["metadata"]["name"]].schema)
