"""Advice for each condition reason: who can remove the obstacle, in particular where no command can (RES-4).

Every reason for which an object waits or cannot continue has an `Advice`. If `names_command` of the advice is True, the
condition's message ends with the command to run, since only the message has the details. No other text of a message is
ever offered as a command, since it may come from a chart.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import attrs

from purekube.apimachinery.meta import ConditionStatus
from vworkspace_core.api.reasons import (
    ClusterConditionType,
    ClusterReason,
    InstanceConditionType,
    InstanceReason,
    OperationConditionType,
    OperationReason,
)
from vworkspace_core.api.vocabulary import TABLE


@attrs.frozen
class Advice:
    """The remedy for one condition reason, as a sentence.

    `names_command` says that the condition's message ends with the command to run. `verb` is the subcommand of
    `vworkspace-operator` that applies the remedy, empty if none does. `is_automatic` says that the obstacle goes away
    without a person.
    """

    text: str
    names_command: bool = False
    verb: str = ""
    is_automatic: bool = False


_I, _O, _C = InstanceReason, OperationReason, ClusterReason
_ADMIN: Final = "an administrator of the cluster"
_DEFECT: Final = "No command fixes this: report the log line that is named; the pass is tried again automatically."
_INSTALL: Final = "Install the missing components that the message names."
_SPEC: Final = (
    "No command fixes this: the fields that the message names have to be corrected where the object comes from, in Git "
    "or in the control plane, or with kubectl edit."
)
_NEW_OPERATION: Final = (
    "No command fixes this Operation: create another one with what the message names put right, and delete this one."
)
_NAME: Final = (
    "Another object has the name: its owner deletes it, or what the message names is done, or another name is chosen."
)
_CONFLICT: Final = "The command in the message hands the fields back; without it, their manager keeps them."


def given_up(source: str = "", version: str = "the version that is deployed") -> Advice:
    """Return the advice for a release that Flux has stopped retrying.

    `source` names the place where the ApplicationInstance is maintained, such as a Git repository. `version` is a chart
    version to return to. Both may be empty.
    """
    where = "where the object comes from" + (f" ({source})" if source else "")
    former = f", or return to {version}" if version else ""
    return Advice(
        f"Flux has given up: correct spec.chart or spec.values {where}{former}; a change is tried automatically. "
        "Retry if the cause was elsewhere, and is gone.",
        verb="retry",
    )


def values_missing(command: str = "") -> Advice:
    """Return the advice for a release whose chart values Flux cannot read, because a Secret or ConfigMap lacks them.

    `command` is the shell command that stores the values, with FILE for the file that holds them. It is empty if the
    object that lacks them is not known.
    """
    which = f", from FILE: {command}" if command else " that the message names, with the key of spec.values"
    other = "If it is there under another key, correct spec.values."
    return Advice(f"Create the Secret or ConfigMap{which}. {other} Flux tries again automatically.")


def chart_unreachable(running: str = "") -> Advice:
    """Return the advice for a chart that Flux cannot fetch.

    `running` is the version that is deployed. It is empty if there is none.
    """
    meanwhile = f"; version {running} runs on until then" if running else ""
    return Advice(
        "No command fixes this: correct spec.chart where the object comes from, or have the registry serve the chart. "
        f"Flux tries again automatically{meanwhile}."
    )


CHART_UNREACHABLE: Final = chart_unreachable()
"""The remedy for a chart that Flux cannot fetch, before it is known which version is deployed."""

VALUES_MISSING: Final = values_missing()
"""The remedy for missing values, before it is known which object lacks them."""

GIVEN_UP: Final = given_up()
"""The remedy for Stalled=True, even if its reason comes from Flux and has no entry in `ADVICE`."""

_OF_INSTANCES: Final[Mapping[str, Advice]] = {
    _I.VALIDATION_FAILED: Advice(_SPEC),
    _I.NAMESPACE_NOT_GATED: Advice(
        f"No command fixes this while the namespace is being deleted; else {_ADMIN} gives it to the operator.", True
    ),
    _I.WRONG_CLUSTER: Advice("The object is for another cluster: label it for this one, or delete it here.", True),
    _I.FIELD_CONFLICT: Advice(_CONFLICT, True),
    _I.NAME_TAKEN: Advice(_NAME, True),
    _I.MISSING_CHART_SOURCE: Advice(_SPEC),
    _I.MISSING_DEPENDENCIES: Advice(_INSTALL),
    _I.POLICY_DENIED: Advice(
        f"No command fixes this: choose a chart or version that is allowed, or ask {_ADMIN} to allow it in spec.policy "
        "of the Cluster or in the operator's settings."
    ),
    _I.AWAITING_APPROVAL: Advice("No command fixes this: the control plane approves it."),
    _I.FORBIDDEN: Advice(f"{_ADMIN.capitalize()} gives the operator the right that the message names.", True),
    _I.INTERNAL_ERROR: Advice(_DEFECT),
    _I.RETRIES_EXCEEDED: GIVEN_UP,
    _I.MANUALLY_SUSPENDED: Advice("It waits to be resumed, where it was suspended.", True, "resume"),
    _I.MAINTENANCE_WINDOW: Advice("It goes on when the window ends.", is_automatic=True),
    _I.HELM_RELEASE_DEGRADED: Advice("Correct what the message names. Flux then tries again automatically."),
    _I.CHART_UNREACHABLE: CHART_UNREACHABLE,
    _I.WAITING_FOR_SECRET: VALUES_MISSING,
    _I.AWAITING_CONFIRMATION: Advice("One of the two commands decides what becomes of the application.", True),
    _I.WAITING_FOR_CHILD_RESOURCES: Advice("Flux finishes this; where it cannot, the message says how to go on.", True),
    _I.UNINSTALLING: Advice("Flux finishes this.", is_automatic=True),
}

_OF_OPERATIONS: Final[Mapping[str, Advice]] = {
    _O.VALIDATION_FAILED: Advice(_NEW_OPERATION),
    _O.TARGET_NOT_FOUND: Advice(
        "No command fixes this: create the ApplicationInstance that spec.targetRef names, or another Operation."
    ),
    _O.CAPABILITY_MISSING: Advice(
        "The target's annotation has to name the engine, if the application is prepared for it.", True
    ),
    _O.TEMPLATE_NOT_ALLOWED: Advice(
        f"No command fixes this Operation: {_ADMIN} adds its type to the annotation of the namespace, if it is to run."
    ),
    _O.HOOK_NOT_FOUND: Advice(
        "No command fixes this: the chart has to have the hook; create another Operation with the name of one it has."
    ),
    _O.NAMESPACE_NOT_GATED: _OF_INSTANCES[_I.NAMESPACE_NOT_GATED],
    _O.WRONG_CLUSTER: _OF_INSTANCES[_I.WRONG_CLUSTER],
    _O.AWAITING_APPROVAL: Advice("A person who may approve it does so, here or at the control plane.", True),
    _O.TARGET_NOT_READY: Advice(
        "No command fixes the Operation: its application has to be Ready first, and the status of that says what helps."
    ),
    _O.CONFLICTING_OPERATION: Advice(
        "Nothing has to be done: it runs when the Operation before it has ended.", is_automatic=True
    ),
    _O.DEPENDENCY_MISSING: Advice(_INSTALL),
    _O.FIELD_CONFLICT: Advice(_CONFLICT, True),
    _O.NAME_TAKEN: Advice(_NAME, True),
    _O.MISSING_SECRET: Advice("The secret that approvals are checked with has to be set first.", True),
    _O.AWAITING_RESUME: Advice("The workflow waits to be resumed by the people it waits for.", True),
    _O.FORBIDDEN: _OF_INSTANCES[_I.FORBIDDEN],
    _O.INTERNAL_ERROR: Advice(_DEFECT),
}

_RECONNECT: Final = "No command fixes this: the message names the error on the way to the control plane."
_CREDENTIAL: Final = (
    "Have the control plane give a registration token, and run `vworkspace-operator register` as docs/install.md says."
)
_CLOSE: Final = f"Nothing is blocked by this: {_ADMIN} closes what the message names, if it should be."
_OF_CLUSTERS: Final[Mapping[str, Advice]] = {
    _C.CONTROL_PLANE_UNREACHABLE: Advice(_RECONNECT),
    _C.NO_RECENT_ROUND_TRIP: Advice(_RECONNECT),
    _C.CREDENTIAL_REJECTED: Advice(_CREDENTIAL),
    _C.CREDENTIAL_EXPIRED: Advice(_CREDENTIAL),
    _C.CONTROLLER_MISSING: Advice(_INSTALL, True),
    _C.CONTROLLER_DEGRADED: Advice(f"{_ADMIN.capitalize()} gives the operator the right that the message names.", True),
    _C.EVENT_BUFFER_FULL: Advice(
        "Nothing has to be done: it empties when the control plane can be reached.", is_automatic=True
    ),
    _C.CLOCKS_DIFFER: Advice("No command fixes this: set the clock that is wrong, here or at the control plane."),
    _C.RECORDS_NOT_STORED: Advice(f"No command fixes this: {_ADMIN} removes the obstacle that the message names."),
    _C.OPEN_SETTINGS: Advice(_CLOSE),
    _C.OPEN_POLICY: Advice(_CLOSE),
    _C.UNGUARDED_NAMESPACES: Advice(_CLOSE),
}

ADVICE: Final[Mapping[str, Mapping[str, Advice]]] = {
    "ApplicationInstance": _OF_INSTANCES,
    "Operation": _OF_OPERATIONS,
    "Cluster": _OF_CLUSTERS,
}
"""The advice by kind of object and condition reason."""

_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
OBSTACLES: Final = frozenset(
    {
        ("ApplicationInstance", InstanceConditionType.BLOCKED, _TRUE),
        ("ApplicationInstance", InstanceConditionType.STALLED, _TRUE),
        ("ApplicationInstance", InstanceConditionType.SUSPENDED, _TRUE),
        ("ApplicationInstance", InstanceConditionType.DELETING, _TRUE),
        ("Operation", OperationConditionType.BLOCKED, _TRUE),
        ("Operation", OperationConditionType.ACCEPTED, _FALSE),
        ("Cluster", ClusterConditionType.CONNECTED, _FALSE),
        ("Cluster", ClusterConditionType.DISCONNECTED, _TRUE),
        ("Cluster", ClusterConditionType.AUTHENTICATED, _FALSE),
        ("Cluster", ClusterConditionType.CONTROLLERS_HEALTHY, _FALSE),
        ("Cluster", ClusterConditionType.BUFFER_OVERFLOW, _TRUE),
        ("Cluster", ClusterConditionType.CLOCK_SKEW, _TRUE),
        ("Cluster", ClusterConditionType.JOBS_BLOCKED, _TRUE),
        ("Cluster", ClusterConditionType.HARDENED, _FALSE),
    }
)
"""The conditions that report an obstacle, each as kind of object, condition type and condition status."""


def obstacles(kind: str) -> frozenset[StrEnum]:
    """Return every condition reason that means that an object of the kind named `kind` waits or cannot continue."""
    rows = (entry for entry in TABLE[kind] if (kind, entry.type, entry.status) in OBSTACLES)
    reasons = frozenset(reason for entry in rows for reason in entry.reasons if reason != _C.NO_AGENT)
    further = {_I.CHART_UNREACHABLE, _I.WAITING_FOR_SECRET, _I.HELM_RELEASE_DEGRADED}
    return reasons | (further if kind == "ApplicationInstance" else frozenset())


def advice_for(kind: str, reason: str) -> Advice | None:
    """Return the advice for a condition reason of `kind`, or None if the reason needs no advice."""
    return ADVICE.get(kind, {}).get(reason)
