"""What must hold around every pass over an ApplicationInstance, judged from the objects alone.

Nothing here asks the code under test what it meant: what is wanted is computed anew from the spec, and compared with
what stands on the API server and in Helm's storage.
"""

import json
from collections.abc import Iterator, Mapping, Set
from typing import Any

import attrs

from kubelab.flux.storage import HelmReleaseStatus, StoredRelease, release_from_secret
from purekube.apimachinery.manifest import Manifest, ObjectRef, content_hash, get_path
from purekube.apimachinery.resources import SECRET
from tests.support.instance_turmoil import CHART, DOWNSTREAM, LEAK, MARKER, Turmoil
from tests.support.instance_worlds import CLUSTER
from tests.support.simulation import HELM, INSTANCE, NS
from tests.support.source_names import fragment_name, source_ref
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import (
    APPLICATION_INSTANCE as APPLICATION_INSTANCE_LABEL,
)
from vworkspace_core.api.labels import (
    CLUSTER_ID,
    FIELD_MANAGER,
    FINALIZER,
    INSTANCE_UID,
    MANAGED_BY,
    MANAGED_BY_VALUE,
)
from vworkspace_core.api.vocabulary import is_admitted, owned_types

Snapshot = Mapping[ObjectRef, Manifest]
LONGEST = 1024
OWN = frozenset(owned_types("ApplicationInstance"))


def take(world: Turmoil) -> Snapshot:
    """Everything that a pass could touch."""
    return world.everything(*DOWNSTREAM, SECRET, APPLICATION_INSTANCE)


def conditions_of(manifest: Manifest | None) -> dict[str, Mapping[str, Any]]:
    """The conditions by type."""
    return {condition["type"]: condition for condition in get_path(manifest, "status", "conditions") or ()}


def is_true(manifest: Manifest | None, *kinds: str) -> bool:
    """Whether any of these conditions is True."""
    conditions = conditions_of(manifest)
    return any(conditions[kind]["status"] == "True" for kind in kinds if kind in conditions)


def controller_uid(manifest: Manifest) -> str:
    """Uid of the controller owner; empty without one."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


# --- one status, and one after another ------------------------------------------------------------------------------


def check_status(manifest: Manifest) -> None:
    """What any status must be: RES-4, RES-7, and the length of what others say."""
    for one in conditions_of(manifest).values():
        if one["type"] not in OWN:
            continue
        where = f"{one['type']}={one['status']}/{one['reason']}: {one['message']}"
        assert is_admitted("ApplicationInstance", one["type"], one["status"], one["reason"]), f"RES-4: {where}"
        assert LEAK not in one["message"], f"RES-7: {where}"
        if one["type"] != "Blocked":
            assert len(one["message"].encode()) <= LONGEST, f"REC-5 row 4: {len(one['message'])} bytes: {where}"
        assert one["observedGeneration"] <= manifest["metadata"]["generation"], f"REC-7: {where}"


def check_succession(before: Manifest, after: Manifest, now: str) -> None:
    """What one status may say after another, of the same uid: REC-7 and RES-4."""
    old, new = get_path(before, "status") or {}, get_path(after, "status") or {}
    assert new.get("observedGeneration", 0) >= old.get("observedGeneration", 0), "REC-7: observedGeneration went back"
    was = conditions_of(before)
    for kind, one in conditions_of(after).items():
        if kind not in was:
            continue
        there = was[kind]
        if one["status"] == there["status"]:
            assert one["lastTransitionTime"] == there["lastTransitionTime"], f"RES-4: {kind} moved without a change"
        else:
            assert one["lastTransitionTime"] == now, f"RES-4: {kind} changed at {now}, says {one}"
        assert one.get("observedGeneration", 0) >= there.get("observedGeneration", 0), f"REC-7: {kind} went back"
    for kind, there in was.items():
        if kind not in OWN:
            assert conditions_of(after).get(kind) == there, f"RES-4: {kind} is not ours to change"


# --- one pass -------------------------------------------------------------------------------------------------------


def check_others(before: Snapshot, after: Snapshot, instance: Manifest) -> None:
    """A pass touches nothing that the instance does not control, and no field of others (REC-4, REC-6 a)."""
    uid, own = instance["metadata"]["uid"], ObjectRef(APPLICATION_INSTANCE, NS, instance["metadata"]["name"])
    deleting = bool(get_path(instance, "metadata", "deletionTimestamp"))
    for ref, was in before.items():
        now = after.get(ref)
        if ref == own:
            if now is not None and now["metadata"]["uid"] == uid:
                _check_source(was, now)
            continue
        if controller_uid(was) != uid and not _may_be_taken_up(was, instance):
            assert now == was, f"REC-4: {ref} is not controlled by {instance['metadata']['name']}, yet it changed"
        elif now is not None and now["metadata"]["uid"] == was["metadata"]["uid"]:
            assert now.get("status") == was.get("status"), f"REC-6: the status of {ref} is Flux's"
            lost = {} if deleting else _lost(was, now)
            assert not lost, f"REC-6 (a): {ref} lost fields of others: {lost}"


def _may_be_taken_up(manifest: Manifest, instance: Manifest) -> bool:
    """Whether nobody controls an object whose labels name the instance: what was orphaned, or let go of (REC-4).

    By `kubectl delete --cascade=orphan` people keep a release in order to have it again under the next instance of that
    name, as they keep the pods of a StatefulSet; an instance of another name never gets it.
    """
    meta = manifest["metadata"]
    labels, name = meta.get("labels") or {}, instance["metadata"]["name"]
    cluster = get_path(instance, "metadata", "labels", CLUSTER_ID)
    is_named = (labels.get(APPLICATION_INSTANCE_LABEL), labels.get(CLUSTER_ID)) == (name, cluster)
    is_of_ours = labels.get(MANAGED_BY) == MANAGED_BY_VALUE
    return (
        not controller_uid(manifest)
        and is_of_ours
        and (is_named or labels.get(INSTANCE_UID) == instance["metadata"]["uid"])
    )


def _check_source(was: Manifest, now: Manifest) -> None:
    """The reconciler writes status and its own finalizer on the source, nothing else (REC-6)."""
    assert now["spec"] == was["spec"], "REC-6: the spec is the control plane's"
    for field in ("labels", "annotations"):
        assert now["metadata"].get(field) == was["metadata"].get(field), f"REC-6: {field} of the source"
    left, right = (set(one["metadata"].get("finalizers") or ()) - {FINALIZER} for one in (was, now))
    # The garbage collector of these worlds works within the pass that deletes the last dependent.
    assert right <= left <= {*right, "foregroundDeletion"}, "REC-6: finalizers of others"


def _lost(was: Manifest, now: Manifest) -> dict[str, Any]:
    before, after = _fields_of_others(was), _fields_of_others(now)
    return {path: value for path, value in before.items() if after.get(path, "absent") != value}


def _fields_of_others(manifest: Manifest) -> dict[str, Any]:
    """Values of every field that another manager owns, by manager and path."""
    found: dict[str, Any] = {}
    for entry in manifest["metadata"].get("managedFields") or ():
        if entry["manager"] == FIELD_MANAGER or entry.get("subresource"):
            continue
        who = f"{entry['manager']}/{entry['operation']}"
        leaves = _leaves(entry["fieldsV1"], manifest, "")
        found |= {f"{who}{path}": value for path, value in leaves if not path.endswith(DOORBELL)}
    return found


DOORBELL = ("f:reconcile.fluxcd.io/requestedAt", "f:reconcile.fluxcd.io/resetAt")
"""Annotations that whoever wants Flux to look sets, and nobody keeps (REC-14)."""


def _leaves(fields: Mapping[str, Any], value: Any, path: str) -> Iterator[tuple[str, Any]]:
    for key, beneath in fields.items():
        if key == ".":
            continue
        there = _step(key, value)
        if set(beneath) <= {"."}:
            yield f"{path}/{key}", there
        else:
            yield from _leaves(beneath, there, f"{path}/{key}")


def _step(key: str, value: Any) -> Any:
    how, _, name = key.partition(":")
    if how == "f":
        return value.get(name) if isinstance(value, Mapping) else None
    desired = json.loads(name)
    items = value if isinstance(value, list) else ()
    if how == "k":
        return next((item for item in items if all(item.get(k) == v for k, v in desired.items())), None)
    return desired if desired in items else None


def check_finalizers(snapshot: Snapshot, pardoned: Set[str]) -> None:
    """Whatever we made downstream keeps its instance from vanishing, unless it is let go of (REC-6, REC-10)."""
    for ref, manifest in snapshot.items():
        uid = manifest["metadata"]["uid"]
        if ref.kind != APPLICATION_INSTANCE or uid in pardoned:
            continue
        if FINALIZER not in (manifest["metadata"].get("finalizers") or ()):
            made = [one for one, other in snapshot.items() if controller_uid(other) == uid]
            assert not made, f"REC-6: {ref} has no finalizer, yet there are {made}"


# --- Ready, and failures --------------------------------------------------------------------------------------------


def claims_ready(instance: Manifest | None) -> bool:
    """Whether the status says that Flux confirmed the present generation: nothing but row 5 of REC-5 says so."""
    ready = conditions_of(instance).get("Ready", {})
    generation = get_path(instance, "metadata", "generation")
    return (
        ready.get("status") == "True"
        and ready.get("observedGeneration") == generation == get_path(instance, "status", "observedGeneration")
        and not is_true(instance, "Blocked", "Suspended", "Deleting", "Reconciling")
        and not get_path(instance, "metadata", "deletionTimestamp")
        and get_path(instance, "metadata", "labels", CLUSTER_ID) == CLUSTER
        and get_path(instance, "metadata", "labels", MANAGED_BY) == MANAGED_BY_VALUE
    )


@attrs.frozen
class Wanted:
    """What a spec asks of Flux and Helm, computed without the code under test."""

    version: str
    chart: str
    url: str
    source: ObjectRef
    oci: bool
    values: Mapping[str, Any]
    references: list[dict[str, str]]

    @classmethod
    def of(cls, spec: Mapping[str, Any], override: Mapping[str, Any], uid: str) -> "Wanted":
        """From an instance's spec, and what an Operation asks for on top of it (REC-9)."""
        chart, values = spec["chart"], spec.get("values") or {"source": "inline", "inline": {}}
        fragment = {
            key: {field: value for field, value in integration.items() if field == "enabled" or value is not None}
            for key, integration in (spec.get("integrations") or {}).items()
        }
        own = _under(fragment, values.get("inline") or {})
        references = []
        if values["source"] != "inline":
            kind = "Secret" if values["source"] == "secretRef" else "ConfigMap"
            named = values[values["source"]]
            references.append({"kind": kind, "name": named["name"], "valuesKey": named["key"]})
            if fragment:
                name = fragment_name("nextcloud", fragment, uid)
                references.insert(0, {"kind": "ConfigMap", "name": name, "valuesKey": "values.yaml"})
            own = {}
        own = _patched(own, override.get("valuesPatch") or {})
        oci = chart["sourceType"] == "oci"
        version = override.get("version", chart["version"])
        source = source_ref(NS, "nextcloud", chart, version)
        return cls(version, chart["name"], chart["url"], source, oci, own, references)


def _under(beneath: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**beneath, **above}
    for key in beneath.keys() & above.keys():
        if isinstance(beneath[key], Mapping) and isinstance(above[key], Mapping):
            merged[key] = _under(beneath[key], above[key])
    return merged


def _patched(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396, of mappings."""
    kept = {key: value for key, value in target.items() if key not in patch}
    for key, value in patch.items():
        if isinstance(value, Mapping):
            there = target.get(key)
            kept[key] = _patched(there if isinstance(there, Mapping) else {}, value)
        elif value is not None:
            kept[key] = value
    return kept


def check_override(world: Turmoil, instance: Manifest) -> Mapping[str, Any]:
    """What the status says Operations ask for is what they do (REC-9); as far as policy lets it."""
    release_override = get_path(instance, "status", "releaseOverride") or {}
    chart, values = (content_hash(instance["spec"].get(part)) for part in ("chart", "values"))
    assert _still(release_override, chart, values) == _asked(release_override), "REC-9: new intent wins"
    assert release_override.get("uid") not in world.withdrawn, "REC-9: the Operation has failed, or was cancelled"
    asked = world.override  # of an Operation on this instance, and on no other one of the same intent
    if asked is not None and instance["metadata"]["name"] == INSTANCE.name:
        mine = {"specHash": asked.spec_hash, "version": asked.version, "valuesPatch": asked.values_patch}
        if _still(mine, chart, values) == _asked(mine):
            assert release_override.get("uid") == asked.uid, f"REC-9: {asked} is not in force"
            assert asked.version in (None, release_override.get("version")), f"REC-9: {asked} is not in force"
    forbidden = release_override.get("version") in world.settings.policy.forbidden_versions
    assert is_degraded_for_policy(instance) == bool(release_override and forbidden), (
        "RES-3: a forbidden version is told"
    )
    if not forbidden or release_override["version"] == get_path(instance, "status", "lastAppliedChart", "version"):
        return release_override
    before = release_override.get("replaced") or {}
    left = _still(before, chart, values)
    return {} if left.get("version") in world.settings.policy.forbidden_versions else left


def _asked(override: Mapping[str, Any]) -> dict[str, Any]:
    return {key: override[key] for key in ("version", "valuesPatch") if override.get(key) is not None}


def _still(override: Mapping[str, Any], chart: str, values: str) -> dict[str, Any]:
    """What new intent has left of an override: each part hangs on a part of the spec of its own."""
    was_chart, _, was_values = override.get("specHash", "").partition("-")
    kept = {"version": was_chart == chart, "valuesPatch": was_values == values}
    return {key: value for key, value in _asked(override).items() if kept[key]}


def is_degraded_for_policy(instance: Manifest) -> bool:
    """Whether the status tells that an Operation asks for what policy forbids."""
    found = conditions_of(instance).get("Degraded", {})
    return (found.get("status"), found.get("reason")) == ("True", "ForbiddenVersionOverride")


def holds(there: Any, wanted: Any) -> bool:
    """Whether everything wanted is there; people may have added theirs."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(holds(there.get(key), value) for key, value in wanted.items())
    return bool(there == wanted)


def check_confirmed(world: Turmoil, instance: Manifest) -> None:
    """Ready=True at a generation: downstream and in Helm's storage stands exactly that, and Flux said so (REC-7)."""
    wanted = Wanted.of(instance["spec"], check_override(world, instance), instance["metadata"]["uid"])
    release, source = world.look(HELM), world.look(wanted.source)
    assert release is not None, "REC-7: Ready without a HelmRelease"
    assert source is not None, "REC-7: Ready without a source"
    spec, status = release["spec"], release["status"]
    assert holds(spec.get("values") or {}, wanted.values), f"REC-7: values {spec.get('values')}, {wanted.values} wanted"
    assert (spec.get("valuesFrom") or []) == wanted.references, f"REC-7: {spec.get('valuesFrom')}"
    assert status["lastAttemptedGeneration"] == release["metadata"]["generation"], "REC-7: another request was tried"
    generation = source["metadata"]["generation"]
    assert source["status"].get("observedGeneration") == generation, "REC-7: the source was not looked at"
    if wanted.oci:
        assert spec["chartRef"] == {"kind": "OCIRepository", "name": wanted.source.name}, "REC-4"
        assert source["spec"]["url"] == f"{wanted.url}/{wanted.chart}", "REC-3"
        assert source["spec"]["ref"] == {"tag": wanted.version.replace("+", "_")}, "REC-3"
        digest = source["status"]["artifact"]["revision"].partition("@")[2]
        newest = status["history"][0]  # one that a rollback made has no digest of its own
        build = newest["chartVersion"].partition("+")[2]
        assert newest.get("ociDigest", digest) == digest, "REC-7: another digest was deployed"
        assert digest.partition(":")[2].startswith(build), "REC-7: another digest was deployed"
    else:
        assert source["spec"]["url"] == wanted.url, "REC-3"
        asked = spec["chart"]["spec"]
        assert asked["sourceRef"] == {"kind": "HelmRepository", "name": wanted.source.name}, "REC-4"
        assert (asked["chart"], asked["version"]) == (wanted.chart, wanted.version), "REC-4"
        made = world.look(CHART)
        assert get_path(made, "status", "artifact", "revision") == wanted.version, "REC-7: the chart was not fetched"
    _check_deployed(world, wanted, release)


def _check_deployed(world: Turmoil, wanted: Wanted, release: Manifest) -> None:
    newest = release["status"]["history"][0]
    stored = {release.version: release for release in releases(world)}
    assert max(stored) == newest["version"], "REC-7: Helm has moved on"
    record = stored[newest["version"]]
    assert record.status is HelmReleaseStatus.DEPLOYED, f"REC-7: Helm says {record.status}"
    assert record.chart_name == wanted.chart, f"REC-7: {record.chart_name} runs, {wanted.chart} is wanted"
    bare = wanted.version.partition("+")[0]
    assert record.chart_version.partition("+")[0] == bare, f"REC-7: {record.chart_version} runs, {bare} is wanted"
    assert dict(record.config) == (release["spec"].get("values") or {}), f"REC-7: it runs with {record.config}"
    assert record.config_digest == release["status"]["lastAttemptedConfigDigest"], "REC-7: other values were tried"
    running = [
        workload for workload in world.flux.workloads if (workload.namespace, workload.release) == (NS, "nextcloud")
    ]
    assert [workload.version for workload in running] == [record.chart_version], "REC-7: something else runs"


def releases(world: Turmoil) -> list[StoredRelease]:
    """Helm's own records of the release."""
    secrets = world.everything(SECRET).values()
    return [
        release_from_secret(secret) for secret in secrets if get_path(secret, "metadata", "labels", "owner") == "helm"
    ]


def check_failures(world: Turmoil, before: Manifest | None, after: Manifest, since_retry: int) -> None:
    """A failure that is told anew is one of the present request, not of an older one (REC-5, *ours*)."""
    if is_true(after, "Blocked", "Suspended", "Deleting"):
        return
    was = conditions_of(before)
    release = world.look(HELM)
    for kind, one in conditions_of(after).items():
        fresh = one.get("observedGeneration") == after["metadata"]["generation"]
        match = MARKER.search(one["message"]) if fresh and one != was.get(kind) else None
        if match is None:
            continue
        attempt = world.attempts[int(match.group(1))]
        told = f"{kind}={one['status']}/{one['reason']} tells an older failure: {one['message'][:200]}"
        # Whatever is asked for now, a release that somebody deletes waits for the end of its failing uninstall.
        going = get_path(release, "metadata", "deletionTimestamp") and "Flux says UninstallFailed" in one["message"]
        assert going or world.is_present(attempt) or world.was_under_way(attempt), f"REC-5: {told}"
        if kind == "Ready" and one["reason"] in ("HelmReleaseFailed", "RolledBack"):
            asked = (get_path(release, "metadata", "uid"), get_path(release, "metadata", "generation"))
            assert attempt.release == asked, f"REC-5: {told}"
            assert attempt.serial >= since_retry, f"REC-14: from before the retry: {told}"


def check_label(instance: Manifest, cluster: str, before: Manifest | None) -> None:
    """An object for another cluster gets nothing but WrongCluster, unless it is being finalized (RES-5)."""
    if get_path(instance, "metadata", "deletionTimestamp"):
        return
    meant = get_path(instance, "metadata", "labels", CLUSTER_ID)
    if meant != cluster and instance.get("status") != (before or {}).get("status"):
        blocked = conditions_of(instance)["Blocked"]
        assert (blocked["status"], blocked["reason"]) == ("True", "WrongCluster"), "RES-5"
