"""Notices to a receiver about objects that need a person: when one is due, and its delivery (SEE-6).

An object causes one notice when it has needed a person for long enough, and another when it no longer does. The state
is an `Attention`, and all functions are pure: they return the next state. Call `observed` after a change of an object,
`due` as time passes, and `delivered`, `refused` or `failed` after a delivery. `next_step` says what to do now.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import ObjectRef, content_hash
from purekube.apimachinery.secret_material import redact
from purekube.apimachinery.timestamps import format_time, has_come
from purekube.controller.backoff import Backoff
from vworkspace_core.overview.summary import OverviewState, Summary

MOST_WAITING: Final = 256
"""The maximum number of undelivered notices that are kept. Beyond that, the oldest one is lost, and counted."""
RECENT: Final = timedelta(minutes=10)
"""The time before the start of a process in which a due notice may not have been delivered by the process before.

The new process sends such a notice again. It counts older notices as delivered.
"""
_LONGEST_RETRY: Final = timedelta(minutes=5)
_BACKOFF: Final = Backoff(base=1.0, cap=_LONGEST_RETRY.total_seconds())
_AT_ONCE: Final = timedelta(0)
_PATIENT: Final = timedelta(minutes=5)
_PATIENCE: Final[Mapping[OverviewState, timedelta]] = MappingProxyType(
    {
        OverviewState.STALLED: _AT_ONCE,
        OverviewState.FAILED: _AT_ONCE,
        OverviewState.DEGRADED: _PATIENT,
        OverviewState.WAITING: _PATIENT,
        OverviewState.NOT_READY: _PATIENT,
        OverviewState.DELETING: _PATIENT,
    }
)
"""The states that need a person, each with the time that it must last before a notice, since many end automatically."""


class NoticeType(StrEnum):
    """The types of notices, as in the attribute `type` of a CloudEvent."""

    NEEDED = "io.vworkspace.attention.needed"
    RESOLVED = "io.vworkspace.attention.resolved"


@attrs.frozen
class Notice:
    """A message to a receiver that an object needs a person's attention, or needs it no longer.

    Every process gives the notice about the same change the same `id`, so that receivers can drop repeats.
    """

    id: str
    type: NoticeType
    at: datetime
    summary: Summary
    since: datetime
    lost: int = 0
    """The number of notices that were lost before this one, because too many waited or the receiver refused them."""


@attrs.frozen
class Need:
    """An object that has needed a person's attention since the time `since`.

    A notice about it is due at `due_at`, unless `announced` says that there was one already.
    """

    summary: Summary
    since: datetime
    due_at: datetime
    announced: bool = False


@attrs.frozen
class Attention:
    """The state of the notices about objects that need a person's attention.

    `began` is when the process started. `needs` maps the uids of these objects to their needs. `waiting` are the
    notices to be sent to the receiver, oldest first. `lost` counts the notices that were dropped without a delivery,
    and of which the receiver has not been informed yet. `attempts` counts the deliveries that failed in a row; the next
    one is not before `retry_at`.
    """

    began: datetime
    needs: Mapping[str, Need] = MappingProxyType({})
    waiting: tuple[Notice, ...] = ()
    lost: int = 0
    attempts: int = 0
    retry_at: datetime | None = None


@attrs.frozen
class Send:
    """The next step if a notice can be sent: deliver `notice` now."""

    notice: Notice


@attrs.frozen
class WaitUntil:
    """The next step if no notice can be sent now: wait until the given time, or for the next change if it is None."""

    until: datetime | None


def observed(state: Attention, uid: str, summary: Summary | None, now: datetime) -> Attention:
    """Return the next `state`, in which it is recorded whether the object with `uid` needs a person's attention.

    `summary` is what was observed of the object at the time `now`. It is None if the object no longer exists.
    """
    patience = None if summary is None or _ends_automatically(summary) else _PATIENCE.get(summary.state)
    need = state.needs.get(uid)
    if summary is None or patience is None:
        return state if need is None else _resolved(state, uid, need, summary, now)
    if need is not None:
        due_at = need.due_at if need.announced else min(need.due_at, _from(summary, now) + patience)
        return _with_need(state, uid, attrs.evolve(need, summary=summary, due_at=due_at))
    since = _from(summary, now)
    old = since + patience < state.began - RECENT
    return _with_need(state, uid, Need(summary, since, since + patience, announced=old))


def all_observed(state: Attention, found: Iterable[tuple[str, Summary | None]], now: datetime) -> Attention:
    """Return the next `state` after several objects were observed at the time `now`, in time linear in their number.

    `found` has the uids of the objects with what `observed` takes for each.
    """
    needs = dict(state.needs)
    for uid, summary in found:
        known = {uid: needs[uid]} if uid in needs else {}
        state = observed(attrs.evolve(state, needs=known), uid, summary, now)
        needs.pop(uid, None)
        needs.update(state.needs)
    return attrs.evolve(state, needs=MappingProxyType(needs))


def _ends_automatically(summary: Summary) -> bool:
    """Report whether the object waits for something that comes without a person, as its advice says.

    A deletion ends without a person too, unless only a person can remove what is in its way.
    """
    if summary.state is OverviewState.DELETING:
        return not summary.is_helpable
    return summary.state is OverviewState.WAITING and bool(summary.advice) and not summary.is_helpable


def due(state: Attention, now: datetime) -> Attention:
    """Return `state` with a new notice to the receiver in `waiting` for each object about which one is due.

    A notice is due if, at the time `now`, an object has needed a person's attention for long enough, and there was no
    notice about it yet.
    """
    come = [
        (uid, need) for uid, need in state.needs.items() if not need.announced and has_come(need.due_at, now, _PATIENT)
    ]
    if not come:
        return state
    come.sort(key=lambda item: (item[1].due_at, item[0]))
    # One copy for all: of thousands, a copy for each would hold up the process for longer than its Lease lasts.
    announced = {uid: attrs.evolve(need, announced=True) for uid, need in come}
    found = (Notice(_id(uid, need.since), NoticeType.NEEDED, now, need.summary, need.since) for uid, need in come)
    return _queued(attrs.evolve(state, needs=MappingProxyType({**state.needs, **announced})), *found)


def next_step(state: Attention, now: datetime) -> Send | WaitUntil:
    """Return the next step at the time `now`: send the oldest waiting notice of `state` to the receiver, or wait.

    Call `due` first, so that every notice that is due waits.
    """
    if state.waiting and (state.retry_at is None or has_come(state.retry_at, now, _LONGEST_RETRY)):
        return Send(attrs.evolve(state.waiting[0], lost=state.lost))
    times = [need.due_at for need in state.needs.values() if not need.announced]
    if state.waiting and state.retry_at is not None:
        times.append(state.retry_at)
    return WaitUntil(min(times, default=None))


def delivered(state: Attention, notice: Notice) -> Attention:
    """Return the next `state` after the receiver accepted `notice`, a message about an object that needs a person.

    The notice no longer waits. The lost notices that it has reported to the receiver are no longer counted.
    """
    waiting = tuple(each for each in state.waiting if each.id != notice.id)
    lost = state.lost - notice.lost - _was_dropped(state, notice)
    return attrs.evolve(state, waiting=waiting, lost=lost, attempts=0, retry_at=None)


def _was_dropped(state: Attention, notice: Notice) -> bool:
    """Report whether the notice was dropped while it was sent, because too many waited; then it counts as lost."""
    return all(each.id != notice.id for each in state.waiting)


def refused(state: Attention, notice: Notice) -> Attention:
    """Return the next `state` after the receiver refused `notice`, a message about an object that needs a person.

    The notice is removed and counts as lost, since the receiver will never accept it.
    """
    after = delivered(state, notice)
    return attrs.evolve(after, lost=state.lost + (not _was_dropped(state, notice)))


def failed(state: Attention, now: datetime, jitter: float, retry_after: float | None = None) -> Attention:
    """Return the next `state` after a notice about an object that needs a person could not be delivered at `now`.

    The notice stays in `waiting` for the receiver. Its next delivery is after `retry_after` seconds. If that is None,
    it is after a backoff, which grows with each failure and is varied by `jitter`, a number from 0 to 1.
    """
    attempts = state.attempts + 1
    seconds = min(_BACKOFF.cap, retry_after) if retry_after else _BACKOFF.delay(attempts, jitter)
    return attrs.evolve(state, attempts=attempts, retry_at=now + timedelta(seconds=seconds))


def cloud_event(notice: Notice, cluster: str, link: str = "") -> dict[str, Any]:
    """Return the notice as a CloudEvent 1.0 in structured mode. It contains no secret.

    `cluster` is the cluster's id, and `link` the URL of the object's page, if any.
    """
    summary = notice.summary
    steps = (" ".join(filter(None, step)) for step in summary.steps)
    texts = {"message": summary.message, "help": " or ".join(steps) or summary.advice}
    data = {
        "cluster": cluster,
        "kind": summary.ref.kind.kind,
        "namespace": summary.ref.namespace or "",
        "name": summary.ref.name,
        "state": summary.state.value,
        "reason": summary.reason,
        **{name: str(redact(text)) for name, text in texts.items()},
        "since": format_time(notice.since),
        "link": link,
        "lost": notice.lost,
    }
    return {
        "specversion": "1.0",
        "id": notice.id,
        "source": f"/vworkspace/clusters/{cluster}",
        "type": notice.type.value,
        "subject": _subject(summary.ref),
        "time": format_time(notice.at),
        "datacontenttype": "application/json",
        "data": {name: value for name, value in data.items() if value not in ("", 0)},
    }


def _subject(ref: ObjectRef) -> str:
    return "/".join(part for part in (ref.kind.crd_name, ref.namespace, ref.name) if part)


def _resolved(state: Attention, uid: str, need: Need, summary: Summary | None, now: datetime) -> Attention:
    """Return the state after the object `uid` no longer needs attention. `need` is its former entry in the state.

    If the need was announced to the receiver, a notice that it has ended is added.
    """
    needs = {key: each for key, each in state.needs.items() if key != uid}
    state = attrs.evolve(state, needs=MappingProxyType(needs))
    if not need.announced:
        return state
    after = summary or attrs.evolve(need.summary, state=OverviewState.DELETING, message="it is deleted", remedies=())
    return _queued(state, Notice(_id(uid, need.since, "resolved"), NoticeType.RESOLVED, now, after, need.since))


def _with_need(state: Attention, uid: str, need: Need) -> Attention:
    return attrs.evolve(state, needs=MappingProxyType({**state.needs, uid: need}))


def _queued(state: Attention, *notices: Notice) -> Attention:
    waiting = (*state.waiting, *notices)
    beyond = len(waiting) - MOST_WAITING
    return attrs.evolve(state, waiting=waiting[max(beyond, 0) :], lost=state.lost + max(beyond, 0))


def _from(summary: Summary, now: datetime) -> datetime:
    """Return the time since which the object in `summary` has needed a person. A time later than `now`, from a wrong
    clock, is replaced by `now`.
    """
    return min(summary.since or now, now)


def _id(uid: str, since: datetime, *parts: str) -> str:
    return content_hash([uid, format_time(since), *parts])
