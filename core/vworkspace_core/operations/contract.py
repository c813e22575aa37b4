"""The interface that each engine (Velero, Job, Argo and others) implements to carry out Operations (OPS-6).

The pure function `desired` returns the object whose creation starts the run, at most one. The pure function `observe`
interprets that object's status. The life cycle of an Operation (`operations.lifecycle`) is the same for all engines.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Any, Final, TypeAlias, assert_never

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.resources import Access
from purekube.readiness.generic import ReadinessRule
from purekube.readiness.result import Readiness, failed, progressing, ready
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.operation import EngineName, LogsRef, Operation, OperationSpec, OperationType, TargetRef
from vworkspace_core.api.reasons import OperationReason
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import OperationTemplate

Objects: TypeAlias = Mapping[ObjectRef, Manifest]
"""The manifests of observed cluster objects, by reference."""


@attrs.frozen
class Listing:
    """A request of an engine to list the objects of a kind in a namespace by a selector, at most `limit` of them."""

    kind: Kind
    namespace: str
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 50


class Progress(Enum):
    """The progress of a run, as read from its engine object (such as a Job).

    An unknown phase counts as running, never as failed.
    """

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


OPERATION_UID: Final = "(uid of the Operation)"
"""The placeholder for the uid of the Operation that created the object, in the `sample` of a `Row`.

A sample is an example of an engine object (such as a Job) in one phase.
"""

OBJECT_UID: Final = "(uid of the engine object)"
"""The placeholder for the uid of the engine object (such as a Job) itself, in the `sample` of a `Row`."""


@attrs.frozen
class Row:
    """One row of an engine's table: what one phase of the engine object, such as a Job, means for the run.

    `sample` is an example of that phase: a merge patch which, applied to the created object, puts it into the phase. A
    row may also have other objects that must exist in that phase. Documentation and tests pass both to `observe`.
    """

    phase: str
    progress: Progress
    reason: str
    meaning: str = ""
    sample: Mapping[str, Any] = attrs.field(factory=dict, eq=False)
    beside: "tuple[EngineObject, ...]" = attrs.field(default=(), eq=False)


def phase_row(
    phase: str, progress: Progress, reason: str, meaning: str = "", status: Mapping[str, Any] | None = None
) -> Row:
    """Return the row of an engine's table for the phase `phase` in an object's `status.phase`.

    `progress` and `reason` are what the phase means for the run, and `meaning` explains it to people. `status` has
    further status fields for the row's sample.
    """
    shown = {**({"phase": phase} if phase else {}), **(status or {})}
    return Row(phase, progress, reason, meaning, {"status": shown} if shown else {})


def row_of(rows: tuple[Row, ...], phase: Any, *, unknown: str) -> Row:
    """Return the row in `rows`, an engine's table, for the phase `phase` of the engine object (such as a Job).

    If `phase` has no row or is not a string, return the row for the phase `unknown`.
    """
    by_phase = {row.phase: row for row in rows}
    return by_phase.get(phase, by_phase[unknown]) if isinstance(phase, str) else by_phase[unknown]


def readiness_by_phase(rows: tuple[Row, ...]) -> ReadinessRule:
    """Return the rule by which the command `status` judges whether an engine object is ready, from its `status.phase`.

    `rows` is the engine's table for the kind of the object. An unknown phase counts as in progress.
    """
    by_phase = {row.phase: row for row in rows}

    def rule(manifest: Manifest) -> Readiness:
        phase = str(get_path(manifest, "status", "phase") or "")
        row = by_phase.get(phase, Row(phase, Progress.RUNNING, phase))
        match row.progress:
            case Progress.SUCCEEDED:
                return ready(phase)
            case Progress.FAILED:
                return failed(phase, row.meaning)
            case Progress.RUNNING:
                return progressing(phase or "Pending", row.meaning)
            case _:
                assert_never(row.progress)

    return rule


@attrs.frozen
class EngineStatus:
    """The state of a run, as an engine reads it from its engine object.

    `degraded` describes a partial success. `blocked` is the reason why a running engine waits for a person. `last_run`
    is the result of a recurring Operation's last run. `requeue_after` is the time in seconds until the next pass, for a
    state whose change no watch would report. `outputs` are names and numbers for people, such as the name of a backup.
    """

    phase: Progress
    reason: str
    message: str = ""
    outputs: Mapping[str, Any] = attrs.field(factory=dict)
    logs_ref: LogsRef | None = None
    degraded: str = ""
    blocked: OperationReason | None = None
    last_run: str = ""
    requeue_after: float | None = None


@attrs.frozen
class EngineObject:
    """An object that an engine creates, such as a Backup, Workflow or Job, with its kind.

    Its creation starts the run.
    """

    kind: Kind
    manifest: Manifest

    @property
    def ref(self) -> ObjectRef:
        """The reference of the engine object (such as a Job) that is to be created."""
        return ref_of(self.manifest, self.kind)


@attrs.frozen
class EngineRefusal:
    """The reason why an engine refuses to start an Operation.

    The Operation gets the condition Accepted=False. If waiting may help (`blocks`), it gets Blocked=True instead.
    """

    reason: OperationReason
    message: str
    blocks: bool = False


def no_yaml(_text: str) -> Any:
    """Raise ValueError. This is the default `parse_yaml` of an EngineContext, which is made without a YAML parser."""
    raise ValueError("no YAML parser is configured")


@attrs.frozen
class EngineContext:
    """The input of an engine's functions in addition to the Operation and its target.

    `parse_yaml` turns text into JSON-like data or raises ValueError; it is passed in because the core has no YAML
    parser. `siblings` are other Operations on the same target, at least those that have not ended. `holds_data` are the
    kinds that the engine declares under this name.
    """

    settings: OperationSettings
    template: OperationTemplate
    objects: Objects = attrs.field(factory=dict)
    missing_kinds: frozenset[Kind] = frozenset()
    parse_yaml: Callable[[str], Any] = attrs.field(default=no_yaml, eq=False, repr=False)
    siblings: tuple[Operation, ...] = ()
    holds_data: tuple[Kind, ...] = ()
    _found: dict[str, Any] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """Return the result of `find`, cached under `name`, so that `find` is called only once for each decision."""
        if name not in self._found:
            self._found[name] = find()
        return self._found[name]


OperationTarget: TypeAlias = ApplicationInstance


def always(*kinds: Kind) -> Callable[[Operation], tuple[Kind, ...]]:
    """Return a function for `Engine.kinds` that returns `kinds` for every Operation."""
    return lambda _operation: kinds


def is_backup(operation: Operation) -> bool:
    """Report whether an Operation is of type Backup."""
    return operation.spec.type is OperationType.BACKUP


def by_type(*, backup: Kind, restore: Kind) -> Callable[[Operation], tuple[Kind, ...]]:
    """Return a function for `Engine.kinds` of an engine that creates different kinds for backups and restores.

    The function returns `backup` for Operations of type Backup and `restore` for all others.
    """
    return lambda operation: (backup if is_backup(operation) else restore,)


@attrs.frozen
class EngineController:
    """The controller in the cluster that does an engine's work, such as Velero.

    The engine is usable while the CRDs of all `definitions` are served. The command `check` also requires the kinds in
    `read_later`, which the engine reads occasionally and no informer watches. `install` names the project, and where to
    get it.
    """

    name: str
    definitions: tuple[Kind, ...]
    install: str
    read_later: tuple[Kind, ...] = ()


@attrs.frozen
class EngineTemplate:
    """A template that comes with an engine: Operation type, schema of the parameters, and preconditions.

    `example` has valid parameters, and `refused` has changes that make them invalid. Documentation and tests use both.
    """

    type: OperationType
    schema: Mapping[str, Any]
    example: Mapping[str, Any]
    refused: tuple[Mapping[str, Any], ...]
    needs_approval: bool = False
    needs_ready_target: bool = False


@attrs.frozen
class DemoOperation:
    """The example Operation with which the command `demo` shows an engine: its name, type and parameters."""

    name: str
    type: OperationType
    parameters: Mapping[str, Any]


@attrs.frozen
class Engine:
    """All facts and functions by which the operator uses one engine, such as Velero.

    Functions that run an Operation:
        `kinds` returns the kinds that the engine creates. `check` refuses invalid parameters that the schema cannot
        detect; it may read the objects that `looks_up` names. Of their kinds, those in `awaited` are watched, so that a
        change starts another pass. `desired` returns the object to create, in `namespace` if it is not the
        Operation's, and `observe` interprets its status. `holds_data` are the kinds whose objects must outlive the
        Operation, so that it is not made their owner.
        `initial_outputs` returns outputs at the start. `recurring` says that an Operation has no end of its own.
        `postpone` returns the patch of its object by which no further run begins, or the schedule counts again.
        `needs_seconds` returns a longer deadline that the parameters or the engine object require. `blocks_end` reports
        for an engine without an object whether the run still affects the target, so that its end has to wait.
    Reads in addition to the engine object:
        `extra_reads` names objects that are read live before a status is believed. `diagnostics` names lists that are
        read for `check`, or if the object is missing or explains nothing, and `final_status` derives from them how a
        vanished run ended. `access` has the rights for these reads in the whole cluster, `tenant_access` in managed
        namespaces.
    Information for people:
        `controller` has to be installed; None if every cluster has it. `terminal_reasons` are reasons of a run that
        cannot continue without help; the final message names the last one. `remedy` returns help for a message.
        `readiness` has rules for the engine's kinds in the command `status`, in addition to `readiness.generic`.
        `templates` come with the engine, and `demo` is its example in the demo.
    """

    name: str
    kinds: Callable[[Operation], tuple[Kind, ...]]
    desired: Callable[[Operation, OperationTarget, EngineContext], tuple[EngineObject, ...]]
    observe: Callable[[Operation, Objects], EngineStatus]
    tables: Mapping[str, tuple[Row, ...]]
    timeout_seconds: int
    controller: EngineController | None = None
    templates: tuple[EngineTemplate, ...] = ()
    check: Callable[[Operation, OperationTarget, EngineContext], EngineRefusal | None] = lambda *_: None
    looks_up: Callable[[Operation, OperationTarget, OperationSettings], tuple[ObjectRef, ...]] = lambda *_: ()
    awaited: tuple[Kind, ...] = ()
    namespace: Callable[[OperationSettings], str] | None = None
    holds_data: tuple[Kind, ...] = ()
    initial_outputs: Callable[[Operation, OperationTarget, Objects], Mapping[str, Any]] = lambda *_: {}
    recurring: Callable[[Operation], bool] = lambda _: False
    postpone: Callable[[Operation, Manifest, datetime, bool], Manifest | None] = lambda *_: None
    needs_seconds: Callable[[Operation, Objects], int] = lambda *_: 0
    blocks_end: Callable[[Operation, Objects], bool] = lambda *_: False
    extra_reads: Callable[[Operation, Objects], tuple[ObjectRef, ...]] = lambda *_: ()
    diagnostics: Callable[[Operation, Objects], tuple[Listing, ...]] = lambda *_: ()
    final_status: Callable[[Operation, Objects], EngineStatus | None] = lambda *_: None
    access: tuple[Access, ...] = ()
    tenant_access: tuple[Access, ...] = ()
    terminal_reasons: frozenset[str] = frozenset()
    remedy: Callable[[Operation, EngineStatus, OperationSettings], str] = lambda *_: ""
    readiness: Mapping[Kind, ReadinessRule] = attrs.field(factory=dict, eq=False)
    demo: DemoOperation | None = None
    after_stop: str = ""
    """A note that people see after a stop was requested, such as that Velero may finish what it is doing."""

    @cached_property
    def made_kinds(self) -> tuple[Kind, ...]:
        """The kinds that the engine creates, for all Operation types."""
        specs = (OperationSpec(TargetRef(name=""), kind, EngineName.JOB) for kind in OperationType)
        return tuple(dict.fromkeys(kind for spec in specs for kind in self.kinds(Operation(ObjectMeta(""), spec))))

    def place(self, operation: Operation, settings: OperationSettings) -> str:
        """Return the namespace in which the engine object (such as a Job) of an Operation is created (OPS-6, OPS-7).

        This is the Operation's own namespace, or one from `settings`, such as Velero's.
        """
        return operation.metadata.namespace if self.namespace is None else self.namespace(settings)

    @property
    def install(self) -> str:
        """The name of the controller to install, and where to get it.

        The text is empty if every cluster has the controller.
        """
        return self.controller.install if self.controller is not None else ""
