"""Helpers of checks that read objects: conditions, generations, owners."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from purekube.apimachinery.conditions import conditions_by_type
from purekube.apimachinery.manifest import Manifest, get_path, metadata
from purekube_run.examination.audit import RecordedRequest
from purekube_run.examination.verdicts import NotTried, holds

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""The pattern of reasons in the Kubernetes API."""

APART: Final = 2.0
"""The seconds between two writes after which two transitions have different times, even if a write was slow."""

FOREIGN_CONDITION: Final[Mapping[str, str]] = {
    "type": "example.com/Audited",
    "status": "True",
    "reason": "Audited",
    "message": "by a person",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
"""A condition that a check adds as another writer of the status."""


def shown(live: Manifest | None) -> str:
    """Return name, generation and conditions of an object as one line of text for messages."""
    if live is None:
        return "no object"
    meta = metadata(live)
    texts = [
        f"{name}={entry.get('status')}/{entry.get('reason')}@{entry.get('observedGeneration', '?')}"
        for name, entry in conditions_by_type(live).items()
    ]
    return f"{meta.get('name')} (generation {meta.get('generation', '-')}): {', '.join(texts) or 'no conditions'}"


def observed_generation(live: Manifest | None) -> int:
    """Return the highest observedGeneration in the object's status and conditions, or 0 if there is none."""
    numbers = [get_path(live or {}, "status", "observedGeneration")]
    numbers += [entry.get("observedGeneration") for entry in conditions_by_type(live).values()]
    return max((number for number in numbers if isinstance(number, int)), default=0)


def is_owned_by(live: Manifest, uid: str) -> bool:
    """Report whether an object has an owner reference to this uid."""
    owners: Any = get_path(live, "metadata", "ownerReferences") or ()
    return any(owner.get("uid") == uid for owner in owners)


def holds_form(conditions: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise Broken unless each condition is well formed and has the fields that KEP-1623 requires."""
    for kind, entry in conditions.items():
        holds(entry.get("status") in ("True", "False", "Unknown"), f"{kind}: status {entry.get('status')!r}")
        holds(_REASON.fullmatch(str(entry.get("reason") or "")), f"{kind}: reason {entry.get('reason')!r}")
        missing = {"message", "lastTransitionTime"} - entry.keys()
        holds(not missing, f"{kind} has no {', '.join(sorted(missing))}")


def holds_times(writes: Sequence[RecordedRequest]) -> None:
    """Raise Broken if a condition's lastTransitionTime changed without its status, or its status without that time.

    The times have whole seconds, so a time may be unchanged if the status changes within `APART` seconds after the
    previous write. Raises NotTried if fewer than two of the writes were answered with an object that has conditions.
    """
    states = [(call, conditions_by_type(call.answer)) for call in writes if conditions_by_type(call.answer)]
    if len(states) < 2:
        raise NotTried("its stimulus did not come about: two writes of the status")
    for (earlier, former), (call, conditions) in pairwise(states):
        for kind, entry in conditions.items():
            before = former.get(kind, {})
            times = before.get("lastTransitionTime"), entry.get("lastTransitionTime")
            if before.get("status") == entry.get("status"):
                holds(times[0] == times[1], f"{kind} stayed {entry['status']} while its time went {times}", call)
            elif before and call.at - earlier.at > APART:
                statuses = before.get("status"), entry.get("status")
                holds(times[0] != times[1], f"{kind} went {statuses} while its time stayed {times[0]}", earlier, call)
