"""Where an object of ours stands, as its own status tells it: read from the wire, for verdicts and reports."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vworkspace_core.api.labels import CANCEL
from vworkspace_core.api.operation import BETWEEN_SYNCS, TERMINAL_PHASES, Phase
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.apimachinery.manifest import Manifest, get_path
from vworkspace_core.apimachinery.resources import OPERATION
from vworkspace_core.apimachinery.secret_material import shown

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
"""Conditions that say what an object waits for, the most telling first."""


def conditions_of(live: Manifest) -> Iterator[Mapping[str, Any]]:
    """The well-formed conditions of `live`, in their order, but for those of ours that somebody edited by hand."""
    conditions, held = get_path(live, "status", "conditions"), OWN_STATUS.held_conditions(live)
    for condition in conditions if isinstance(conditions, list | tuple) else ():
        if isinstance(condition, Mapping) and isinstance(condition.get("type"), str) and condition["type"] not in held:
            yield condition


def phase_of(live: Manifest) -> str:
    """One word for where the object stands, as status posts give it (PULL-2 step 6)."""
    if live.get("kind") == "Operation":
        return ("phase" not in OWN_STATUS.held_fields(live) and _text(get_path(live, "status", "phase"))) or "Pending"
    true = {condition["type"] for condition in conditions_of(live) if condition.get("status") == "True"}
    for name in ("Deleting", "Blocked", "Stalled", "Suspended"):
        if name in true:
            return name
    if "Reconciling" in true:
        return "Reconciling"
    return "Ready" if "Ready" in true else "Pending" if not true else "Degraded"


def summary_of(live: Manifest) -> str:
    """The message that explains `phase_of`, redacted."""
    texts = {str(condition["type"]): _text(condition.get("message")) for condition in conditions_of(live)}
    wanted = (phase_of(live), "Ready") if live.get("kind") != "Operation" else (phase_of(live), "Blocked", "Accepted")
    return shown(next((texts[name] for name in wanted if texts.get(name)), ""))


def is_recurring(live: Manifest) -> bool:
    """Whether it is an Operation with a schedule, which has no end of its own (OPS-10)."""
    return live.get("kind") == OPERATION.kind and get_path(live, "spec", "parameters", "schedule") is not None


def waits_for_schedule(live: Manifest) -> bool:
    """Whether it runs as asked, and nothing is to be done before its next time."""
    running = next((condition for condition in conditions_of(live) if condition["type"] == "Running"), {})
    idle = (running.get("status"), running.get("reason")) == ("True", BETWEEN_SYNCS)
    return bool(idle and is_recurring(live))


def has_started(live: Manifest) -> bool:
    """Whether an Operation has begun its run, whatever became of it."""
    return get_path(live, "status", "startedAt") is not None or str(get_path(live, "status", "phase")) in _BEGUN


def can_still_start(live: Manifest) -> bool:
    """Whether it is an Operation that may be carried out one day although it has not been yet."""
    if live.get("kind") != OPERATION.kind or get_path(live, "status", "phase") == Phase.CANCELLED.value:
        return False
    return not has_started(live) and not is_called_off(live)


def ended_at(live: Manifest | None) -> str:
    """When an Operation ended and how, for people; empty for one that has not."""
    phase = str(get_path(live, "status", "phase"))
    if live is None or live.get("kind") != OPERATION.kind or phase not in TERMINAL_PHASES:
        return ""
    when = _text(get_path(live, "status", "finishedAt"))
    return f"{phase} at {when}" if when else phase


def is_called_off(live: Manifest) -> bool:
    """Whether somebody asked for its cancellation; before its start that is final (OPS-11)."""
    return bool(get_path(live, "metadata", "annotations", CANCEL) == "true")


def last_words(live: Manifest) -> str:
    """`<Reason>: <message>` of what keeps the object from settling, as far as it says; empty where it says nothing."""
    conditions = {str(condition["type"]): condition for condition in conditions_of(live)}
    for name, bad in _OBSTACLES:
        condition = conditions.get(name, {})
        if condition.get("status") == bad and condition.get("reason"):
            return f"{condition['reason']}: {_text(condition.get('message'))}".removesuffix(": ")
    return ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
