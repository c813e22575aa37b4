"""Defects of releases, retries and caches, for `defects.py`: each puts one wrong line in."""

from collections import defaultdict
from itertools import count
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.controller.decision import Decision
from purekube.controller.drift import needs_apply
from purekube.controller.informer import machine as informer_machine
from purekube.controller.informer.store import ObjectStore
from purekube.controller.queue.event_handlers import by_spec, same_object
from purekube_run.controller.controller import For
from purekube_run.simulation.connection import ReplicaClock
from vworkspace_app.instances import controller as instances
from vworkspace_core.api import release_override
from vworkspace_core.api.chart import DeployedChart
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.instances import blocking_reasons, conditions, desired, observed_release
from vworkspace_core.instances import reconcile as instance_decisions
from vworkspace_core.instances.release_state import ReleaseState


def ignores_a_later_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every retry for handled once Flux has handled one."""

    def defective(status: Any, token: str) -> bool:
        return not token or isinstance(status.get("lastHandledResetAt"), str)

    monkeypatch.setattr(observed_release, "is_handled", defective)


def confuses_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Request the retries of an instance in turn, also those that were handled."""
    correct, passes = observed_release.token_of, count()
    asked: defaultdict[str, list[str]] = defaultdict(list)

    def defective(instance: Any, *given: Any) -> str:
        token, known = correct(instance, *given), asked[instance.metadata.uid]
        if token and token not in known:
            known.append(token)
        return known[next(passes) % len(known)] if known else token

    monkeypatch.setattr(desired, "token_of", defective)


def looks_only_at_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at no instance when only its annotations change."""
    monkeypatch.setattr(instances, "For", lambda informers: For(informers, by_spec(same_object)))


def takes_over_what_others_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply over an object without asking whose it is."""
    monkeypatch.setattr(instance_decisions, "name_blocking_reason", lambda *_: None)


def releases_without_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name no service account in a HelmRelease."""
    monkeypatch.setattr(desired, "release_account", lambda *_: "")


def manages_what_is_not_labelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every instance for managed."""
    monkeypatch.setattr(instance_decisions, "is_managed", lambda _: True)


def works_for_every_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Release instances of every cluster."""
    monkeypatch.setattr(blocking_reasons, "wrong_cluster", lambda *_: "")


def calls_deployed_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report the version of the last attempt as deployed."""

    def defective(release: Any) -> DeployedChart | None:
        tried = get_path(release, "status", "lastAttemptedRevision")
        return None if tried is None else DeployedChart("nextcloud", str(tried).partition("+")[0])

    monkeypatch.setattr(instance_decisions, "deployed_chart", defective)


def stays_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep Blocked as it was when nothing blocks an instance any more."""
    correct = conditions._lifted

    def defective(previous: Any, kind: str, reason: str) -> Any:
        if kind != Type.BLOCKED or kind not in previous:
            return correct(previous, kind, reason)
        return {kind: conditions._keep(previous[kind])}

    monkeypatch.setattr(conditions, "_lifted", defective)


def tells_a_suspension_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say of an instance that it is suspended, and leave its HelmRelease as it is."""
    correct, decide = desired._release_spec, instance_decisions.reconcile

    def unsuspended(*given: Any) -> dict[str, Any]:
        return {name: value for name, value in correct(*given).items() if name != "suspend"}

    def defective(source: Any, observed: Any, context: Any) -> Decision:
        decision = decide(source, observed, context)
        if decision.status is None or not source.spec.suspend:
            return decision
        status = decision.status["status"]
        told = {**status["conditions"][0], "type": "Suspended", "status": "True", "reason": "ManuallySuspended"}
        kept = [each for each in status["conditions"] if each["type"] != "Suspended"]
        told["observedGeneration"] = source.metadata.generation
        return attrs.evolve(decision, status={**decision.status, "status": {**status, "conditions": [*kept, told]}})

    monkeypatch.setattr(desired, "_release_spec", unsuspended)
    monkeypatch.setattr(instances, "reconcile", defective)


def takes_older_events_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare no version of an event with the last one, or with that of the object in the cache."""
    monkeypatch.setattr(informer_machine, "older", lambda *_: False)
    monkeypatch.setattr(ObjectStore, "put", ObjectStore.correct)


def lists_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """List again at once when a list has failed."""

    def defective(state: Any, moment: Any, *effects: Any, at_least: float = 0.0) -> Any:
        waiting, command = informer_machine.wait_for(state, 0.001, moment)
        return waiting, (*effects, *command)

    monkeypatch.setattr(informer_machine, "pause", defective)


def forgets_that_its_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the time of the Lease without the suspensions of the machine."""
    monkeypatch.setattr(ReplicaClock, "boottime", ReplicaClock.monotonic)


def keeps_an_upgrade_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no newer spec end the change that an Operation requested."""
    monkeypatch.setattr(release_override, "_remaining_override", lambda override, spec: override)


def undoes_an_upgrade_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only a running Operation change a release."""
    monkeypatch.setattr(instance_decisions, "effective_override", lambda source, asked, *_: asked)


def sees_no_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare only what was applied last with what is applied now, not with what is there."""
    correct = needs_apply

    def defective(manifest: Any, live: Any, **given: Any) -> bool:
        hashes = [get_path(each, "metadata", "annotations", APPLIED_HASH) for each in (manifest, live)]
        return correct(manifest, live, **given) if hashes[0] is None else hashes[0] != hashes[1]

    monkeypatch.setattr(instance_decisions, "needs_apply", defective)


def tells_no_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say of a release whose objects have drifted what is said of any other that is Ready."""
    correct = conditions._degraded_while_ready

    def defective(release: Any, previous: Any) -> Any:
        return correct(attrs.evolve(release, drift=""), previous)

    monkeypatch.setattr(conditions, "_degraded_while_ready", defective)


def tells_old_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave Degraded as it was when its reason is over."""
    correct = conditions._lifted

    def defective(previous: Any, kind: str, reason: str) -> Any:
        return {} if kind == Type.DEGRADED else correct(previous, kind, reason)

    monkeypatch.setattr(conditions, "_lifted", defective)


def gives_up_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say of a release that Flux has given up what is said of one whose attempt has failed."""
    correct = conditions._row

    def defective(release: Any, previous: Any) -> Any:
        given_up = release.state in (ReleaseState.STALLED, ReleaseState.ROLLED_BACK)
        return correct(attrs.evolve(release, state=ReleaseState.FAILED) if given_up else release, previous)

    monkeypatch.setattr(conditions, "_row", defective)
