"""The pure decision about a DELETE: remove the object immediately, or mark it until its finalizers are removed.

A DELETE never touches the object's dependents. For the policies Foreground and Orphan it adds a finalizer, which the
garbage collector removes after it has dealt with the dependents (W-31, W-32).
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from kubelab.model.calls import FOREGROUND, ORPHAN, DeleteOptions
from kubelab.model.failure import ApiFailure, bad_request, invalid, stale
from kubelab.model.resources import ServedResource
from kubelab.storage.listing import flag, integer
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.timestamps import format_time, parse_time

_POLICIES: Final = ("Background", "Foreground", "Orphan")
_OWN_DELETE: Final = frozenset({("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions")})


def query_options(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the DeleteOptions in the query of a DELETE, in the form of a body."""
    given: dict[str, Any] = {"propagationPolicy": query.get("propagationPolicy")}
    if "orphanDependents" in query:
        given["orphanDependents"] = flag(query, "orphanDependents")
    if query.get("dryRun"):
        given["dryRun"] = [query["dryRun"]]
    # The query can have preconditions, too: apimachinery: apis/meta/v1/conversion.go,
    # Convert_url_Values_To_v1_DeleteOptions.
    given["preconditions"] = {key: query[key] for key in ("uid", "resourceVersion") if query.get(key)}
    if grace := query.get("gracePeriodSeconds"):
        given["gracePeriodSeconds"] = integer(grace)
    return given


def delete_options(given: Mapping[str, Any]) -> DeleteOptions:
    """Return the options of a DELETE that `given`, the DeleteOptions of the request, describes.

    Raises ApiFailure 400 for a value of the wrong type, and 422 for a policy or a dry run that does not exist.
    """
    preconditions = given.get("preconditions") or {}
    if not isinstance(preconditions, Mapping):
        raise bad_request("json: cannot unmarshal into Go struct field DeleteOptions.preconditions")
    return DeleteOptions(
        uid=_text(preconditions, "uid"),
        resource_version=_text(preconditions, "resourceVersion"),
        propagation=_policy(given),
        dry_run=_dry_run(given.get("dryRun")),
        grace=_grace(given.get("gracePeriodSeconds")),
    )


def _grace(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | None):
        kind = {str: "string", bool: "bool", float: f"number {value}"}.get(type(value), "object")
        raise bad_request(
            f"json: cannot unmarshal {kind} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        )
    # apiserver: registry/rest/delete.go, BeforeDelete: negative values are treated as one second.
    return 1 if value is not None and value < 0 else value


def _text(preconditions: Mapping[str, Any], key: str) -> str | None:
    value = preconditions.get(key)
    if value is not None and not isinstance(value, str):
        raise bad_request(f"json: cannot unmarshal into Go struct field Preconditions.{key} of type string")
    return value


def _dry_run(values: Any) -> bool:
    if not isinstance(values, list | None):
        raise bad_request("json: cannot unmarshal into Go struct field DeleteOptions.dryRun of type []string")
    # A misspelt dry run is refused, because it would delete the object (apimachinery: ValidateDryRun).
    if any(value != "All" for value in values or ()):
        message = f'Unsupported value: {json.dumps(values)}: supported values: "All"'
        raise _bad_option(StatusCause("dryRun", message, "FieldValueNotSupported"))
    return bool(values)


def _policy(given: Mapping[str, Any]) -> str:
    policy = given.get("propagationPolicy") or ""
    # Deprecated since Kubernetes 1.7 and served still; the two ways to say the same must not be mixed.
    orphan = given.get("orphanDependents")
    if not isinstance(orphan, bool | None):
        raise bad_request("json: cannot unmarshal into Go struct field DeleteOptions.orphanDependents of type bool")
    if orphan is not None and policy:
        why = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        raise _bad_option(StatusCause("propagationPolicy", why))
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    if policy and policy not in _POLICIES:
        message = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        raise _bad_option(StatusCause("propagationPolicy", message, "FieldValueNotSupported"))
    return str(policy)


def _bad_option(cause: StatusCause) -> ApiFailure:
    return invalid("meta.k8s.io", "DeleteOptions", "", (cause,))


def check_preconditions(live: Mapping[str, Any], options: DeleteOptions, resource: ServedResource) -> None:
    """Raise ApiFailure 409 if the uid or resourceVersion of `live` is not the one that `options` require (W-30).

    `resource` is the object's resource, for the message.
    """
    meta = live["metadata"]
    # The uid is compared first, so a re-created object is reported as such even if the resourceVersion differs too
    # (apiserver: registry/rest/delete.go, BeforeDelete).
    if options.uid is not None and options.uid != meta["uid"]:
        raise _unmet(resource, meta["name"], "UID", options.uid, meta["uid"], "deleted and then recreated")
    if options.resource_version is not None and options.resource_version != meta["resourceVersion"]:
        values = options.resource_version, meta["resourceVersion"]
        raise _unmet(resource, meta["name"], "ResourceVersion", *values, "modified")


def _unmet(resource: ServedResource, name: str, word: str, asked: str, found: str, event: str) -> ApiFailure:
    # Namespaces and CRDs are deleted by code of their own, which has other words and names the resource: kubernetes:
    # registry/core/namespace/storage/storage.go, Delete; apiextensions: registry/customresourcedefinition/etcd.go.
    if resource.storage in _OWN_DELETE:
        why = f"Precondition failed: {word} in precondition: {asked}, {word} in object meta: {found}"
        return stale(resource.group, resource.plural, name, why)
    why = (
        f"the {word} in the precondition ({asked}) does not match the {word} in record ({found}). "
        f"The object might have been {event}"
    )
    # BeforeDelete passes the kind where all other errors have the plural.
    return stale(resource.group, resource.kind, name, why)


def finalizers_for(finalizers: Sequence[str], propagation: str) -> tuple[str, ...]:
    """Return an object's finalizers after a DELETE with the policy `propagation`. An empty policy changes nothing.

    The result has at most one of `orphan` and `foregroundDeletion`.
    """
    match propagation:
        case "Orphan":
            added: tuple[str, ...] = (ORPHAN,)
        case "Foreground":
            added = (FOREGROUND,)
        case "Background":
            added = ()
        case _:
            added = tuple(name for name in (ORPHAN, FOREGROUND) if name in finalizers)
    # The policy of the last DELETE wins: a second one may turn an orphaning deletion into a foreground one.
    others = tuple(name for name in finalizers if name not in (ORPHAN, FOREGROUND))
    desired = others + added
    return tuple(finalizers) if set(desired) == set(finalizers) else desired


def pends(live: Mapping[str, Any], asked: int | None) -> bool:
    """Report whether `live` is in a graceful deletion that a DELETE with `asked` seconds of grace does not shorten."""
    left = live["metadata"].get("deletionGracePeriodSeconds") or 0
    return left > 0 and (asked is None or asked >= left)


def gracefully_marked(
    live: Mapping[str, Any], finalizers: Sequence[str], seconds: int, now: datetime
) -> dict[str, Any]:
    """Return `live` marked for a deletion after `seconds` seconds of grace, with `finalizers`.

    If it was marked before, the seconds count from then, and must be fewer than its present ones. An object that had no
    grace left keeps its mark.
    """
    old = live["metadata"]
    left = old.get("deletionGracePeriodSeconds")
    end = now + timedelta(seconds=seconds)
    out = marked(live, finalizers, end)
    if "deletionTimestamp" in old and not left:
        return out
    meta = out["metadata"]
    if left:
        # apiserver: registry/rest/delete.go, BeforeDelete: the end does not move to the past, and a second remains of a
        # grace that is over, since a kubelet still has to stop the pod.
        end = parse_time(old["deletionTimestamp"]) + timedelta(seconds=seconds - left)
        seconds = seconds if end >= now else min(seconds, 1)
        meta["deletionTimestamp"] = format_time(max(end, now))
    meta["deletionGracePeriodSeconds"] = seconds
    return out


def marked(live: Mapping[str, Any], finalizers: Sequence[str], now: datetime) -> dict[str, Any]:
    """Return `live` marked for deletion, with `finalizers` and a deletionTimestamp.

    If `live` had no deletionTimestamp before, its generation, if it has one, is incremented (S-72).
    """
    meta = {**live["metadata"], "finalizers": list(finalizers)}
    if not finalizers:
        del meta["finalizers"]
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = format_time(now)
        meta["deletionGracePeriodSeconds"] = 0
        # Deletion moves the generation once (S-72), but no built-in kind that has none gets one.
        if meta.get("generation", 0) > 0:
            meta["generation"] += 1
    return {**live, "metadata": meta}
