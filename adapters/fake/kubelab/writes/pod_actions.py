"""The subresources of a pod that are only created: its binding to a node, and its eviction."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from kubelab.model.calls import Reply, RequestTarget, WriteOptions
from kubelab.model.failure import ApiFailure, bad_request, internal, not_found, stale
from kubelab.model.records import Record, encode
from kubelab.storage.store import Store
from kubelab.writes.deletion import delete_options
from kubelab.writes.remover import Remover
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.meta import selects_labels
from purekube.apimachinery.timestamps import format_time

_BUDGETS: Final = ("policy", "poddisruptionbudgets")
_DONE: Final = Reply(
    201, encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
)


class PodActions:
    """The part of the in-memory API server that binds pods to nodes and evicts them.

    A scheduler binds, `kubectl drain` evicts. Every method may raise ApiFailure. The texts are those of kube-apiserver
    1.36.
    """

    def __init__(self, store: Store, remover: Remover, now: Callable[[], datetime]) -> None:
        self._store = store
        self._remover = remover
        self._now = now

    def perform(self, target: RequestTarget, body: Any, options: WriteOptions) -> Reply:
        """Carry out the POST of a Binding or an Eviction, `body`, and return its answer, a Status."""
        kind = target.subresource.title()
        given = body if isinstance(body, Mapping) else {}
        if given.get("kind", kind) != kind:
            version, internal_group = str(given.get("apiVersion")), "core" if kind == "Binding" else "policy"
            raise bad_request(
                f'{given["kind"]} in version "{version}" cannot be handled as a {kind}: converting '
                f"({version.rpartition('/')[2]}.{given['kind']}) to ({internal_group}.{kind}): unknown conversion"
            )
        if get_path(given, "metadata", "name") != target.name:
            raise bad_request(f"name in URL does not match name in {kind} object")
        record = self._store.get(target.resource.storage, target.key)
        if record is None:
            raise not_found("", target.resource.plural, target.name)
        (self._bind if kind == "Binding" else self._evict)(target, record, given, options)
        return _DONE

    def _bind(self, target: RequestTarget, record: Record, binding: Mapping[str, Any], options: WriteOptions) -> None:
        node, kind = (get_path(binding, "target", field) for field in ("name", "kind"))
        if kind not in (None, "", "Node"):
            raise internal(f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
        if not node:
            raise internal("target.name: Required value")
        pod = record.object()
        why = f'pod {target.name} is already assigned to node "{get_path(pod, "spec", "nodeName")}"'
        if record.deleting:
            why = f"pod {target.name} is being deleted, cannot be assigned to a host"
        if record.deleting or get_path(pod, "spec", "nodeName"):
            raise stale("", "pods/binding", target.name, why)
        meta = {**pod["metadata"]}
        for field in ("annotations", "labels"):
            if given := get_path(binding, "metadata", field):
                meta[field] = {**(meta.get(field) or {}), **given}
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(self._now())}
        spec, status = {**pod["spec"], "nodeName": node}, _with_condition(pod.get("status") or {}, scheduled)
        if not options.dry_run:
            # kubernetes: registry/core/pod/storage/storage.go, assignPod: no validation, generation or field manager.
            bound = {**pod, "metadata": meta, "spec": spec, "status": status}
            self._store.put(target.resource.storage, bound, schema=record.schema)

    def _evict(self, target: RequestTarget, record: Record, eviction: Mapping[str, Any], options: WriteOptions) -> None:
        how = delete_options(eviction.get("deleteOptions") or {})
        how = attrs.evolve(how, dry_run=how.dry_run or options.dry_run)
        pod = record.object()
        # kubernetes: registry/core/pod/storage/eviction.go, canIgnorePDB: such a pod serves no requests.
        if not record.deleting and get_path(pod, "status", "phase") not in ("Pending", "Succeeded", "Failed"):
            self._spend(target, pod, dry_run=how.dry_run)
        self._remover.delete(attrs.evolve(target, subresource=""), how)

    def _spend(self, target: RequestTarget, pod: Mapping[str, Any], *, dry_run: bool) -> None:
        """Take one disruption from the budget of the pod, if it has one and is healthy. Raises ApiFailure 429."""
        labels = get_path(pod, "metadata", "labels") or {}
        everywhere = (record.object() for record in self._store.scan(_BUDGETS, target.namespace))
        budgets = [each for each in everywhere if selects_labels(get_path(each, "spec", "selector") or {}, labels)]
        if len(budgets) > 1:
            raise internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        for budget in budgets:
            status, name = budget.get("status") or {}, budget["metadata"]["name"]
            is_ready = condition_of(pod, "Ready").get("status") == "True"
            if not is_ready and _spares_unready(budget, status):
                continue
            if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
                raise _refused(f"The disruption budget {name} is still being processed by the server.", seconds=10)
            if (left := status.get("disruptionsAllowed", 0)) <= 0:
                needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
                raise _refused(f"The disruption budget {name} needs {needs} healthy pods and has {has} currently")
            if not dry_run:
                self._store.put(_BUDGETS, {**budget, "status": self._spent(budget, target.name, left - 1)})

    def _spent(self, budget: Mapping[str, Any], pod: str, left: int) -> Mapping[str, Any]:
        """Return the budget's status after the eviction of `pod`, with `left` disruptions allowed."""
        status, now = budget["status"], format_time(self._now())
        status = {
            **status,
            "disruptionsAllowed": left,
            "disruptedPods": {**(status.get("disruptedPods") or {}), pod: now},
        }
        if left:
            return status
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": now,
            "reason": "InsufficientPods",
            "message": "",
        }
        return _with_condition(status, condition)


def _with_condition(status: Mapping[str, Any], condition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status with the condition, in place of another one of its type."""
    others = [each for each in status.get("conditions") or () if each.get("type") != condition["type"]]
    return {**status, "conditions": [*others, condition]}


def _spares_unready(budget: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Report whether the budget lets a pod go that is not ready, without counting it."""
    if get_path(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


def _refused(why: str, seconds: int = 0) -> ApiFailure:
    details = {"retryAfterSeconds": seconds} if seconds else {}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    cause = StatusCause(reason="DisruptionBudget", message=why, field="")
    return ApiFailure(429, "TooManyRequests", message, causes=(cause,), details=details)
