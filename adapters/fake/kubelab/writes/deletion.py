"""The pure decision about a DELETE: remove the object immediately, or mark it until its finalizers are removed.

A DELETE never touches the object's dependents. For the policies Foreground and Orphan it adds a finalizer, which the
garbage collector removes after it has dealt with the dependents (W-31, W-32).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from kubelab.model.calls import FOREGROUND, ORPHAN, DeleteOptions
from kubelab.model.failure import ApiFailure, FailureCause, bad_request, invalid, stale
from purekube.apimachinery.timestamps import format_time

_POLICIES: Final = ("Background", "Foreground", "Orphan")


def delete_options(body: Mapping[str, Any], query: Mapping[str, str], *, dry_run: bool = False) -> DeleteOptions:
    """Return the options of a DELETE. The propagation policy in the body takes precedence over that in the query.

    The DELETE is a dry run if `dry_run` is True, as the query says, or if `body` has the field `dryRun`. Raises
    ApiFailure 400 for a malformed precondition, and 422 for an invalid policy.
    """
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, Mapping):
        raise bad_request("json: cannot unmarshal into Go struct field DeleteOptions.preconditions")
    return DeleteOptions(
        uid=_text(preconditions, "uid"),
        resource_version=_text(preconditions, "resourceVersion"),
        propagation=_policy(body, query),
        dry_run=dry_run or bool(body.get("dryRun")),
    )


def _text(preconditions: Mapping[str, Any], key: str) -> str | None:
    value = preconditions.get(key)
    if value is not None and not isinstance(value, str):
        raise bad_request(f"json: cannot unmarshal into Go struct field Preconditions.{key} of type string")
    return value


def _policy(body: Mapping[str, Any], query: Mapping[str, str]) -> str:
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    # Deprecated since Kubernetes 1.7 and served still; the two ways to say the same must not be mixed.
    orphan = body.get("orphanDependents", query.get("orphanDependents"))
    if orphan is not None and policy:
        why = "Invalid value: both orphanDependents and propagationPolicy are set"
        raise _bad_option(FailureCause("propagationPolicy", why))
    if orphan is not None:
        return "Orphan" if orphan in (True, "true", "1") else "Background"
    if policy and policy not in _POLICIES:
        message = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        raise _bad_option(FailureCause("propagationPolicy", message, "FieldValueNotSupported"))
    return str(policy)


def _bad_option(cause: FailureCause) -> ApiFailure:
    return invalid("meta.k8s.io", "DeleteOptions", "", (cause,))


def check_preconditions(live: Mapping[str, Any], options: DeleteOptions, where: tuple[str, str]) -> None:
    """Raise ApiFailure 409 if the uid or resourceVersion of `live` is not the one that `options` require (W-30).

    `where` is the (group, plural) of the object for the message.
    """
    meta = live["metadata"]
    # The uid is compared first, so a re-created object is reported as such even if the resourceVersion differs too
    # (W-30).
    if options.uid is not None and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise stale(*where, meta["name"], why)
    if options.resource_version is not None and options.resource_version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise stale(*where, meta["name"], why)


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
