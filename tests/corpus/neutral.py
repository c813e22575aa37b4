"""The corpus's own words for our values: JSON that holds no name of a class or a module of ours.

A value of a class is `{"~": tag, field: value, …}`; fields that have their default are left out. The tags and the names
of fields belong to the corpus and stay, whatever the code calls its things: a class that is renamed changes `CLASSES`,
a field that is renamed gets a line in `RENAMED`, an effect that is made differently changes `decision_data`. Nothing
else of the corpus knows our names, but for the two functions that play it (`play.py`) and the stories (`passes.py`).
"""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, Final

import attrs

from purekube import ports
from purekube.apimachinery import errors
from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.structuring import structure
from purekube.apimachinery.timestamps import Instant
from purekube.controller import backoff
from purekube.controller.decision import Decision, Failure, RequeuePace
from purekube.controller.informer import messages as informer
from purekube.controller.informer.messages import InformerPolicy
from purekube.controller.lease import messages as lease
from purekube.controller.lease.record import Disagreement, LeasePolicy
from vworkspace_core.api.admission import AdmissionSettings
from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.codec import unstructure
from vworkspace_core.api.operation import Operation
from vworkspace_core.api.own_status import Unreadable
from vworkspace_core.clusters.inventory import (
    AgentReport,
    ClusterInventory,
    InformerReport,
    PendingDeliveries,
    WeakSettings,
)
from vworkspace_core.control_plane.connection import ConnectionState, Connectivity
from vworkspace_core.credentials import messages as credentials
from vworkspace_core.credentials.secret import StoredCredential
from vworkspace_core.instances.context import Context, InstanceObserved, Settings
from vworkspace_core.jobs import messages as jobs
from vworkspace_core.jobs.job_store import JobRecord, Tombstone
from vworkspace_core.jobs.payload_security import Security
from vworkspace_core.jobs.plan import Inspection
from vworkspace_core.operations.approvals import Claims, UsedApprovals
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.settings import OperationSettings

Json = Any

CLASSES: Final[Mapping[str, type[Any]]] = {
    # what decisions are made on
    "settings": Settings,
    "policy": Policy,
    "admission": AdmissionSettings,
    "instance context": Context,
    "instance snapshot": InstanceObserved,
    "override": ReleaseOverride,
    "refused write": Failure,
    "unreadable instance": Unreadable,
    "operation settings": OperationSettings,
    "operation context": OperationContext,
    "operation snapshot": OperationObserved,
    "unreadable operation": Unreadable,
    "claims": Claims,
    "spent approvals": UsedApprovals,
    "cluster snapshot": ClusterInventory,
    "agent report": AgentReport,
    "mail": PendingDeliveries,
    "link": ConnectionState,
    "instant": Instant,
    "watched": InformerReport,
    "openings": WeakSettings,
    "wanted condition": DesiredCondition,
    "condition": Condition,
    # jobs
    "job record": JobRecord,
    "tombstone": Tombstone,
    "security": Security,
    "seen": Inspection,
    "job offered": jobs.Offered,
    "job resumed": jobs.Resumed,
    "server time": jobs.ServerTime,
    "security changed": jobs.SecurityChanged,
    "recorded": jobs.Recorded,
    "record refused": jobs.RecordRefused,
    "acked": jobs.Acked,
    "ack lost": jobs.AckLost,
    "job gone": jobs.JobGone,
    "job closed": jobs.JobAlreadyClosed,
    "inspected": jobs.Inspected,
    "applied": jobs.Applied,
    "delete sent": jobs.DeleteSent,
    "conflicted": jobs.Conflicted,
    "look again": jobs.PreconditionFailed,
    "refused": jobs.EffectRefused,
    "step failed": jobs.StepFailed,
    "rotated": jobs.Rotated,
    "result accepted": jobs.ResultAccepted,
    "record closed": jobs.RecordClosed,
    "object changed": jobs.ObjectChanged,
    "job tick": backoff.Tick,
    "put record": jobs.PutRecord,
    "send ack": jobs.SendAck,
    "inspect": jobs.Inspect,
    "apply": jobs.ApplyForJob,
    "call off": jobs.CancelOperation,
    "delete": jobs.DeleteForJob,
    "rotate for job": jobs.RotateCredential,
    "post status": jobs.PostStatus,
    "post result": jobs.PostResult,
    "close record": jobs.CloseRecord,
    "job note": backoff.LogNote,
    # the credential
    "stored credential": StoredCredential,
    "secret seen": credentials.SecretRead,
    "asked": credentials.RotationRequested,
    "wished": credentials.ClusterRequests,
    "registrable": credentials.BootstrapToken,
    "secret written": credentials.SecretWritten,
    "secret not written": credentials.WriteFailed,
    "secret moved": credentials.SecretChanged,
    "issued": credentials.Issued,
    "unanswered": credentials.RequestUnanswered,
    "credential refused": credentials.RequestRefused,
    "token worked": credentials.TokenAccepted,
    "token rejected": credentials.TokenRejected,
    "credential tick": backoff.Tick,
    "answered": credentials.EffectAnswered,
    "write secret": credentials.WriteSecret,
    "rotate": credentials.RequestRotation,
    "register": credentials.RequestRegistration,
    "use token": credentials.UseToken,
    "served": credentials.RequestsServed,
    "cannot be served": credentials.RequestsFailed,
    # who leads
    **{
        f"lease {tag}": cls
        for tag, cls in {
            "woken": lease.TimerFired,
            "found": lease.LeaseRead,
            "written": lease.LeaseWritten,
            "failed": lease.LeaseRequestFailed,
            "peers": lease.PeersRead,
            "no peers": lease.PeersUnread,
            "stop": lease.ReleaseRequested,
            "read": lease.ReadLease,
            "look round": lease.ReadPeers,
            "create": lease.CreateLease,
            "update": lease.UpdateLease,
            "rest": lease.SetTimer,
            "end": lease.End,
            "hold": lease.OpenFence,
            "let go": lease.CloseFence,
            "lost": lease.LeadershipLost,
            "observed": lease.LeaderObserved,
            "trouble": lease.ReportLeaseError,
            "other shards": lease.ShardsDisagree,
        }.items()
    },
    "lease policy": LeasePolicy,
    "disagreement": Disagreement,
    # what is watched
    "informer policy": InformerPolicy,
    "watch event": ports.WatchEvent,
    **{
        f"informer {tag}": cls
        for tag, cls in {
            "started": informer.Started,
            "page": informer.PageRead,
            "list failed": informer.ListFailed,
            "stream ended": informer.StreamEnded,
            "stream failed": informer.StreamFailed,
            "quiet": informer.WentQuiet,
            "woken": informer.WaitElapsed,
            "poked": informer.WakeRequested,
            "read page": informer.ReadPage,
            "open stream": informer.OpenStream,
            "wait": informer.Wait,
            "stage": informer.BufferPage,
            "unstage": informer.DiscardPages,
            "swap": informer.Replace,
            "put": informer.PutObject,
            "remove": informer.RemoveObject,
            "advance": informer.Advance,
            "relist": informer.Relist,
            "trouble": informer.ReportWatchError,
        }.items()
    },
    # what ports raise
    "error": errors.OperatorError,
    "not found": errors.NotFound,
    "kind missing": errors.KindMissing,
    "already exists": errors.AlreadyExists,
    "conflict": errors.Conflict,
    "stale": errors.Stale,
    "invalid": errors.Invalid,
    "forbidden": errors.Forbidden,
    "unauthorized": errors.Unauthorized,
    "expired": errors.Expired,
    "closed": errors.JobClosed,
    "unavailable": errors.Unavailable,
    "permanent": errors.Permanent,
    "field conflict": errors.FieldConflict,
    "cause": errors.StatusCause,
}
"""Each class by the corpus's word for it."""

RENAMED: Final[Mapping[tuple[str, str], str]] = {
    ("claims", "ledger"): "used_approvals",
    ("cluster snapshot", "exposure"): "weak_settings",
    ("link", "state"): "connectivity",
    ("agent report", "link"): "connection",
    ("agent report", "mail"): "pending",
    ("secret seen", "kept"): "stored",
    ("secret moved", "kept"): "stored",
    ("write secret", "kept"): "stored",
    ("write secret", "turn"): "number",
    ("rotate", "turn"): "number",
    ("register", "turn"): "number",
    ("answered", "turn"): "number",
    ("unreadable operation", "names_engine"): "has_spec",
}
"""By tag and the corpus's name of a field, what the class calls it by now; empty where they are the same."""

UNSAID: Final = frozenset({"parse_yaml", "templates", "engines"})
"""Fields that hold code: the corpus plays with what is built in."""

ENUMS: Final[Mapping[str, type[Enum]]] = {
    "relist cause": informer.RelistCause,
    "connectivity": Connectivity,
    "condition status": ConditionStatus,
    "watch event type": ports.WatchEventType,
}

OBJECTS: Final[Mapping[str, type[Any]]] = {
    "an instance": ApplicationInstance,
    "an operation": Operation,
    "a cluster": Cluster,
}
"""Our own kinds are written as manifests."""

_TAGS: Final = {cls: tag for tag, cls in CLASSES.items()}
_ENUM_TAGS: Final = {cls: tag for tag, cls in ENUMS.items()}
_OBJECT_TAGS: Final = {cls: tag for tag, cls in OBJECTS.items()}
_NOW_CALLED: Final = {(tag, now): then for (tag, then), now in RENAMED.items()}


class UnsayableError(Exception):
    """The corpus has no word for a value."""


def canonical(data: Json) -> str:
    """One line of JSON: equal data gives equal text."""
    return json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


# --- from values to JSON --------------------------------------------------------------------------------------


def to_data(value: Any) -> Json:
    """`value` in the corpus's words. Raises UnsayableError."""
    if type(value) in _ENUM_TAGS:
        return {"~": "one of", "set": _ENUM_TAGS[type(value)], "is": value.value}
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value.value) if isinstance(value, StrEnum) else str(value)
    if isinstance(value, datetime):
        return {"~": "time", "at": value.isoformat()}
    if isinstance(value, timedelta):
        return {"~": "seconds", "s": value.total_seconds()}
    if isinstance(value, bytes):
        return {"~": "bytes", "base64": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list):
        return [to_data(one) for one in value]
    if isinstance(value, tuple):
        return {"~": "tuple", "of": [to_data(one) for one in value]}
    if isinstance(value, frozenset | set):
        return {"~": "set", "of": sorted((to_data(one) for one in value), key=canonical)}
    return _object(value)


def _mapping(value: Mapping[Any, Any]) -> Json:
    if all(isinstance(key, str) and key != "~" for key in value):
        return {str(key): to_data(one) for key, one in value.items()}
    return {"~": "map", "of": [[to_data(key), to_data(one)] for key, one in value.items()]}


def _object(value: Any) -> Json:
    cls = type(value)
    if isinstance(value, Kind):
        return {"~": "kind", "is": [value.group, value.version, value.kind, value.plural, value.namespaced]}
    if isinstance(value, ObjectRef):
        return {"~": "ref", "kind": to_data(value.kind)["is"], "at": [value.namespace, value.name]}
    if cls in _OBJECT_TAGS:
        return {"~": _OBJECT_TAGS[cls], "manifest": to_data(unstructure(value))}
    if cls not in _TAGS:
        raise UnsayableError(cls.__qualname__)
    fields = _error_fields(value) if isinstance(value, Exception) else _fields(value)
    tag = _TAGS[cls]
    if isinstance(value, Unreadable) and isinstance(value.stub, ApplicationInstance):
        tag = "unreadable instance"
    return {"~": tag, **{_NOW_CALLED.get((tag, name), name): to_data(field) for name, field in fields.items()}}


def _error_fields(error: Exception) -> dict[str, Any]:
    return {name: one for name, one in vars(error).items() if one not in (None, "") and name != "__notes__"}


def _fields(value: Any) -> dict[str, Any]:
    found = {}
    for field in attrs.fields(type(value)):
        one = getattr(value, field.name)
        if field.init and field.name not in UNSAID and not _is_default(field, one):
            found[field.alias or field.name] = one
    return found


def _is_default(field: Any, value: Any) -> bool:
    default = field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = attrs.NOTHING if default.takes_self else default.factory()
    return default is not attrs.NOTHING and type(default) is type(value) and bool(default == value)


# --- from JSON to values --------------------------------------------------------------------------------------


def from_data(data: Json) -> Any:
    """What `to_data` made `data` of."""
    if isinstance(data, list):
        return [from_data(one) for one in data]
    if not isinstance(data, dict):
        return data
    if "~" not in data:
        return {key: from_data(one) for key, one in data.items()}
    tag = data["~"]
    if tag in OBJECTS:
        return structure(OBJECTS[tag], from_data(data["manifest"]))
    return _PLAIN[tag](data) if tag in _PLAIN else _value(data)


_PLAIN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "time": lambda data: datetime.fromisoformat(data["at"]),
    "seconds": lambda data: timedelta(seconds=data["s"]),
    "bytes": lambda data: base64.b64decode(data["base64"]),
    "one of": lambda data: ENUMS[data["set"]](data["is"]),
    "tuple": lambda data: tuple(from_data(one) for one in data["of"]),
    "set": lambda data: frozenset(from_data(one) for one in data["of"]),
    "map": lambda data: {from_data(key): from_data(one) for key, one in data["of"]},
    "kind": lambda data: Kind(*data["is"]),
    "ref": lambda data: ObjectRef(Kind(*data["kind"]), *data["at"]),
}
"""What is no class of ours, by its tag."""


def _value(data: Mapping[str, Any]) -> Any:
    tag = data["~"]
    fields = {RENAMED.get((tag, name), name): from_data(one) for name, one in data.items() if name != "~"}
    if tag == "operation context":
        fields["parse_yaml"] = json.loads
    if issubclass(CLASSES[tag], Exception):
        request_id = fields.pop("request_id", "")
        error = CLASSES[tag](**fields)
        if request_id:
            error.request_id = request_id
        return error
    return CLASSES[tag](**fields)


# --- what a decision does -------------------------------------------------------------------------------------


def decision_data(decision: Decision) -> Json:
    """Every effect of `decision`, in the order in which they are carried out; empty ones left out."""
    whole = {
        "finalizer": None if decision.finalizer is None else decision.finalizer.value,
        "dry run": [_apply(dry_run) for dry_run in decision.dry_runs],
        "patch": [{"object": _ref(patch.ref), "merge patch": patch.patch} for patch in decision.patches],
        "apply": [_apply(apply) for apply in decision.applies],
        "create": [{"object": _ref(create.ref), "manifest": create.manifest} for create in decision.creates],
        "delete": [
            {"object": _ref(delete.ref), "uid": delete.uid, "resourceVersion": delete.resource_version}
            for delete in decision.deletes
        ],
        "status": decision.status,
        "events": [
            {
                "object": _ref(event.regarding),
                "uid": event.regarding_uid,
                "type": event.type,
                "reason": event.reason,
                "action": event.action,
                "note": event.note,
            }
            for event in decision.events
        ],
        "transitions": [
            {"from": _condition(transition.previous), "to": _condition(transition.condition)}
            for transition in decision.transitions
        ],
        "pace": None if decision.requeue.pace is RequeuePace.NONE else decision.requeue.pace.name.lower(),
        "look again after": decision.requeue.after,
        "only if current": decision.only_if_current or None,
    }
    return json.loads(canonical({name: found for name, found in whole.items() if found not in (None, [])}))


def _apply(effect: Any) -> Json:
    return {"object": _ref(effect.ref), "manifest": effect.manifest, **({"force": True} if effect.force else {})}


def _ref(ref: ObjectRef) -> str:
    where = f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
    return f"{ref.kind.api_version} {ref.kind.kind} {where}"


def _condition(condition: Condition | None) -> Json:
    return None if condition is None else unstructure(condition)
