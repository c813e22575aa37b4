"""A run that has started and not ended: its engine object is created once, then its status is judged (OPS-1, OPS-8).

A run is judged in this order: an end that the engine reports; the deadline; a cancellation; a missing engine object. So
a backup that finished is a success even if the operator noticed only after the deadline, and an engine object that the
operator deleted to cancel the run is not reported as deleted from outside.
"""

from typing import assert_never

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.controller.decision import Create, Decision, MergePatch, Requeue
from purekube.controller.ownership import locked
from vworkspace_core.api.labels import cancellation_requested
from vworkspace_core.api.operation import EngineRef, Operation, Phase
from vworkspace_core.api.reasons import OperationConditionType as Type
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations import lifecycle
from vworkspace_core.operations.conflicts import has_to_postpone
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.contract import Engine, EngineObject, EngineStatus, Progress
from vworkspace_core.operations.identity import (
    condition_of,
    name_taken,
    own_object,
    target_of,
    was_created_by_operation,
)
from vworkspace_core.operations.parameters import parameter_problems
from vworkspace_core.operations.status import WantedStatus, with_status


def decide_running(operation: Operation, observed: OperationObserved, context: OperationContext) -> Decision:
    """Return the decision (the writes to make and the time of the next pass) about an Operation in phase Running.

    `observed` has the cluster's state, `context` the settings, the engines and the time.
    """
    engine = context.engine_of(operation)
    if engine is None:
        message = f"engine {operation.spec.engine} is unknown to the operator in its present version"
        wanted_status = lifecycle.blocked_status(operation, Reason.DEPENDENCY_MISSING, message)
        return with_status(Decision(requeue=Requeue.SLOW), operation, wanted_status, context)
    run = _Run(operation, engine, observed, context)
    decision = run.decide()
    deadline = lifecycle.deadline_of(operation, engine, context, observed.objects)
    # Requeue exactly at the deadline (OPS-12), or earlier if the engine requests it.
    if deadline is None or deadline <= context.now:
        return decision
    left = (deadline - context.now).total_seconds()
    return attrs.evolve(decision, requeue=decision.requeue.no_later_than(left))


@attrs.frozen
class _Run:
    """The decision about one Operation in phase Running: its input, and the methods that make each
    possible decision.
    """

    operation: Operation
    engine: Engine
    observed: OperationObserved
    context: OperationContext

    @property
    def engine_object(self) -> tuple[ObjectRef, Manifest] | None:
        """The engine object (such as a Job) with its reference, or None if it does not exist or belongs to another
        Operation.

        Before the object's uid is recorded, it must also be the object that the operator itself created.
        """
        engine_object, known = own_object(self.operation, self.observed.objects), self.operation.status.engine_ref
        if engine_object is None or (known is not None and known.uid):
            return engine_object
        return engine_object if was_created_by_operation(engine_object[1], self.operation) else None

    @property
    def engine_ref(self) -> EngineRef | None:
        """The reference to the engine object (such as a Job) in the status.

        It has the uid once the object was seen.
        """
        known, engine_object = self.operation.status.engine_ref, self.engine_object
        if known is None or engine_object is None:
            return known
        return attrs.evolve(known, uid=str(metadata(engine_object[1]).get("uid", "")))

    @property
    def is_cancelled(self) -> bool:
        return cancellation_requested(self.operation.metadata)

    @property
    def is_over(self) -> bool:
        return lifecycle.is_over(self.operation, self.engine, self.context, self.observed.objects)

    @property
    def after_stop(self) -> str:
        return f". {self.engine.after_stop}" if self.engine.after_stop else ""

    def decide(self) -> Decision:
        """Return the decision (the writes to make) for the present state of the engine object (such as a Job).

        The object may exist, have disappeared, or not exist yet. The engine helm creates none.
        """
        known = self.operation.status.engine_ref
        if known is None or not self.engine.made_kinds:
            return self._judged()
        if self.engine_object is not None:
            decision = self._judged()
            patches = lifecycle.unlock(self.operation, self.observed) or decision.patches
            return attrs.evolve(decision, patches=patches)
        return self._gone(known) if known.uid else self._created()

    def _told(self, decision: Decision, wanted_status: WantedStatus) -> Decision:
        full_status = attrs.evolve(wanted_status, engine_ref=self.engine_ref)
        return with_status(decision, self.operation, full_status, self.context)

    def _ended(self, phase: Phase, reason: str, status: EngineStatus) -> Decision:
        return self._told(Decision(), lifecycle.ended_status(self.operation, phase, reason, status, self.context.now))

    def _judged(self) -> Decision:
        status = self._with_remedy(self.engine.observe(self.operation, self.observed.objects))
        engine_object = self.engine_object
        stopping = engine_object is None or bool(metadata(engine_object[1]).get("deletionTimestamp"))
        counts = not (self.is_cancelled and stopping)  # a run that ends because we stopped it was cancelled
        match status.phase:
            case Progress.SUCCEEDED if counts:
                return self._ended(Phase.SUCCEEDED, status.reason, status)
            case Progress.FAILED if counts:
                return self._ended(Phase.FAILED, status.reason, self._with_last_trouble(status))
            case Progress.RUNNING | Progress.SUCCEEDED | Progress.FAILED:
                pass
            case _:
                assert_never(status.phase)
        if self.is_over:
            return self._timed_out(status)
        if self.is_cancelled:
            return self._cancelled(status)
        decision = Decision(patches=self._postponement(), requeue=Requeue.at_latest(status.requeue_after))
        return self._told(decision, lifecycle.progress_status(self.operation, status))

    def _postponement(self) -> tuple[MergePatch, ...]:
        """Return the patch that postpones the next scheduled run, or takes that back, as a tuple.

        The patch names the resourceVersion that was read. It therefore fails if a run has begun in the meantime.
        """
        operation, observed = self.operation, self.observed
        if self.engine_object is None or not self.engine.recurring(operation):
            return ()
        ref, live = self.engine_object
        meta = metadata(live)
        if meta.get("deletionTimestamp") or any(failure.ref == ref for failure in observed.failures):
            return ()
        patch = self.engine.postpone(operation, live, self.context.now, has_to_postpone(operation, observed.siblings))
        if patch is None:
            return ()
        version = {"resourceVersion": meta.get("resourceVersion"), **metadata(patch)}
        return (MergePatch(ref, {**patch, "metadata": version}),)

    def _with_remedy(self, status: EngineStatus) -> EngineStatus:
        """Return `status` with the remedy of the engine added to its message, if the engine has one for this status."""
        help_ = self.engine.remedy(self.operation, status, self.context.settings)
        return attrs.evolve(status, message=f"{status.message}. {help_}") if help_ else status

    def _with_last_trouble(self, status: EngineStatus) -> EngineStatus:
        """Return `status`, the state of a failed run, with the run's last obstacle added to its message.

        The obstacle is added only if the run could not have continued without help.
        """
        before = self._last_seen()
        if before.reason not in self.engine.terminal_reasons:
            return status
        return attrs.evolve(status, message=f"{status.message}; before: {before.reason} ({before.message})")

    def _timed_out(self, status: EngineStatus) -> Decision:
        seconds = self.operation.spec.timeout_seconds
        message = f"not finished within {seconds} s" if seconds else "not finished within the engine's default deadline"
        last = f"{message}; last seen: {status.reason}" + (f" ({status.message})" if status.message else "")
        decision = Decision(deletes=lifecycle.stop(self.operation, self.observed), only_if_current=True)
        ended = attrs.evolve(status, message=last + self.after_stop)
        now = self.context.now
        return self._told(decision, lifecycle.ended_status(self.operation, Phase.FAILED, Reason.TIMEOUT, ended, now))

    def _cancelled(self, status: EngineStatus) -> Decision:
        """Return the decision (the writes to make) that deletes the engine object (such as a Job) of a cancelled run.

        The phase becomes Cancelled once the object is gone (OPS-11).
        """
        engine_object, failures = self.engine_object, self.observed.failures
        if engine_object is None and not self.engine.blocks_end(self.operation, self.observed.objects):
            ended = attrs.evolve(status, message="cancelled on request" + self.after_stop)
            return self._ended(Phase.CANCELLED, Reason.USER_CANCELLED, ended)
        what = f"{engine_object[0]} to go" if engine_object is not None else "the target to let go of it"
        refused = "".join(f"; {failure.verb} {failure.ref}: {failure.error.message}" for failure in failures)
        message = f"cancelling: waiting for {what}{self.after_stop}{refused}"
        decision = Decision(
            deletes=lifecycle.stop(self.operation, self.observed),
            only_if_current=True,
            requeue=lifecycle.pace_after(failures),
        )
        standing = lifecycle.progress_status(self.operation, status, message)
        return self._told(decision, lifecycle.refused_status(standing, failures, self.context.settings))

    def _gone(self, known: EngineRef) -> Decision:
        """Return the decision (the writes to make) about a run whose engine object (such as a Job) has disappeared.

        The deadline passed, the run was cancelled, or another client deleted the object.
        """
        status = self._last_seen()
        if self.is_over:
            return self._timed_out(status)
        if self.is_cancelled:
            return self._cancelled(status)
        return self._ended_unseen(known, status)

    def _ended_unseen(self, known: EngineRef, status: EngineStatus) -> Decision:
        """Return the decision (the writes to make) that ends a run whose engine object (such as a Job) disappeared
        (OPS-8).

        The outcome is taken from Events about the engine object, or is Failed if Events do not show an end.
        """
        final_status = self.engine.final_status(self.operation, self.observed.objects)
        if final_status is not None:
            phase = Phase.SUCCEEDED if final_status.phase is Progress.SUCCEEDED else Phase.FAILED
            return self._ended(phase, final_status.reason, final_status)
        last = f"{status.reason}: {status.message}" if status.message else status.reason
        message = (
            f"{known.kind} {known.name} was removed before its end was seen, so that it is not known whether it had"
            f" finished; last seen: {last}"
        )
        return self._ended(Phase.FAILED, Reason.EXTERNAL_DELETION, attrs.evolve(status, message=message))

    def _last_seen(self) -> EngineStatus:
        """Return the state of the run that the Operation's status recorded last.

        It is used in a pass without an engine object (such as a Job).
        """
        running = condition_of(self.operation, Type.RUNNING)
        if running is None:
            return EngineStatus(Progress.RUNNING, Reason.ENGINE_STARTED)
        return EngineStatus(Progress.RUNNING, running.reason, running.message)

    def _created(self) -> Decision:
        """Return the decision that creates the engine object (such as a Job) which the Operation's status names.

        If the run may no longer begin, the decision ends the run.
        """
        status = self._last_seen()  # the message of a refused create, if there was one
        status = attrs.evolve(status, message=f"nothing was created; {status.message}".removesuffix("; "))
        if self.is_over:
            return self._timed_out(status)
        if self.is_cancelled:
            return self._cancelled(status)
        desired = self._wanted()
        if not isinstance(desired, EngineObject):
            return self._ended(Phase.FAILED, Reason.PRECONDITION_FAILED, attrs.evolve(status, message=desired))
        live = self.observed.objects.get(desired.ref)
        if live is not None:
            message = name_taken(desired.ref)
            wanted_status = lifecycle.blocked_status(self.operation, Reason.NAME_TAKEN, message)
            return self._told(Decision(requeue=Requeue.SLOW), wanted_status)
        if self.observed.failures:
            wanted_status, pace = lifecycle.after_failure(
                self.operation, self.engine, self.observed.failures[0], self.context.now, self.context.settings
            )
            return self._told(Decision(requeue=pace), wanted_status)
        create = Create(desired.kind, locked(desired.manifest))
        return Decision(creates=(create,), only_if_current=True, row="OPS-1 create once")

    def _wanted(self) -> EngineObject | str:
        """Return the engine object (such as a Job) to create now, or a message why the object can no
        longer be created.
        """
        operation, context = self.operation, self.context
        target = target_of(operation, self.observed.objects)
        template = context.templates.find(operation.spec.type, operation.spec.engine)
        if target is None or template is None:
            return "the target has gone" if target is None else "the template has gone"
        if problems := parameter_problems(operation, template):
            return "; ".join(map(str, problems))
        inputs = context.for_engine(self.observed, template)
        refusal = self.engine.check(operation, target, inputs)
        return refusal.message if refusal is not None else self.engine.desired(operation, target, inputs)[0]
