"""The state of ApplicationInstances and Operations, read from raw JSON, for the results of control plane jobs."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.manifest import Manifest, get_path, text_or_empty
from purekube.apimachinery.secret_material import shown
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import CANCEL
from vworkspace_core.api.operation import IDLE_REASONS, TERMINAL_PHASES, Phase, has_schedule
from vworkspace_core.api.own_status import OWN_STATUS

_BEGUN: Final[frozenset[str]] = frozenset({Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED})
_OBSTACLES: Final = (
    ("Blocked", "True"),
    ("Stalled", "True"),
    ("Accepted", "False"),
    ("Running", "True"),
    ("Ready", "False"),
    ("Ready", "Unknown"),
    ("Reconciling", "True"),
)
"""The conditions, as type and status, that say what an object waits for, the most informative first."""


def own_conditions_of(live: Manifest) -> Iterator[Mapping[str, Any]]:
    """Yield the well-formed conditions of the object `live` in order.

    Conditions of the operator's own types that another field manager edited are left out.
    """
    held = OWN_STATUS.held_conditions(live)
    for condition in conditions_of(live):
        if isinstance(condition.get("type"), str) and condition["type"] not in held:
            yield condition


def phase_of(live: Manifest) -> str:
    """Return one word for the state of `live`: an Operation's phase, or a word such as `Ready` or `Blocked`.

    The word is posted as the status of the object's job (PULL-2 step 6).
    """
    if live.get("kind") == "Operation":
        return (
            "phase" not in OWN_STATUS.held_fields(live) and text_or_empty(get_path(live, "status", "phase"))
        ) or "Pending"
    true = {condition["type"] for condition in own_conditions_of(live) if condition.get("status") == "True"}
    for name in ("Deleting", "Blocked", "Stalled", "Suspended"):
        if name in true:
            return name
    if "Reconciling" in true:
        return "Reconciling"
    return "Ready" if "Ready" in true else "Pending" if not true else "Degraded"


def summary_of(live: Manifest) -> str:
    """Return the message of the condition of `live` that explains the result of `phase_of`; empty if there is none.

    Secrets in the message are redacted.
    """
    texts = {str(condition["type"]): text_or_empty(condition.get("message")) for condition in own_conditions_of(live)}
    desired = (phase_of(live), "Ready") if live.get("kind") != "Operation" else (phase_of(live), "Blocked", "Accepted")
    return shown(next((texts[name] for name in desired if texts.get(name)), ""))


def is_recurring(live: Manifest) -> bool:
    """Report whether the object `live` is an Operation with a schedule, which runs until it is stopped (OPS-10)."""
    return live.get("kind") == OPERATION.kind and has_schedule(live)


def waits_for_schedule(live: Manifest) -> bool:
    """Report whether `live` is a recurring Operation between two runs, which only waits for its next scheduled time."""
    running = next((condition for condition in own_conditions_of(live) if condition["type"] == "Running"), {})
    idle = running.get("status") == "True" and running.get("reason") in IDLE_REASONS
    return bool(idle and is_recurring(live))


def has_started(live: Manifest) -> bool:
    """Report whether the Operation `live` has started, whether or not it has ended since."""
    return get_path(live, "status", "startedAt") is not None or str(get_path(live, "status", "phase")) in _BEGUN


def can_still_start(live: Manifest) -> bool:
    """Report whether the object `live` is an Operation that may still start.

    It may not if it has started or was cancelled, or if its cancellation was requested.
    """
    if live.get("kind") != OPERATION.kind or get_path(live, "status", "phase") == Phase.CANCELLED.value:
        return False
    return not has_started(live) and not is_called_off(live)


def ended_at(live: Manifest | None) -> str:
    """Return how and when the Operation `live` ended, as text for people; empty if it has not ended or is None."""
    phase = str(get_path(live, "status", "phase"))
    if live is None or live.get("kind") != OPERATION.kind or phase not in TERMINAL_PHASES:
        return ""
    when = text_or_empty(get_path(live, "status", "finishedAt"))
    return f"{phase} at {when}" if when else phase


def is_called_off(live: Manifest) -> bool:
    """Report whether the cancellation of the Operation `live` was requested.

    Before the start such a request is final (OPS-11).
    """
    return bool(get_path(live, "metadata", "annotations", CANCEL) == "true")


def unsettled_reason(live: Manifest) -> str:
    """Return `<Reason>: <message>` of the condition that says for what the object `live` waits; empty without one."""
    conditions = {str(condition["type"]): condition for condition in own_conditions_of(live)}
    for name, bad in _OBSTACLES:
        condition = conditions.get(name, {})
        if condition.get("status") == bad and condition.get("reason"):
            return f"{condition['reason']}: {text_or_empty(condition.get('message'))}".removesuffix(": ")
    return ""
