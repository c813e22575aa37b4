"""The informer as a state machine without I/O: list in pages, then watch, as long as the process runs (RUN-1).

`step` takes an event and returns the new state with its effects: the requests that the caller must send, and the
changes that it must make to the store. Time and jitter are arguments.

Expected flow
    Started → ReadPage … BufferPage → Replace, OpenStream → PutObject/RemoveObject/Advance … → OpenStream at the last
    position.
Guarantees
    The store is replaced in one step, never emptied while a list is under way.
    No hot loop: two commands to the server are at least 0.8 s apart, except pages of one list, the watch
    after its list, the first relist after a quiet time, and a watch after one that lasted.
    No change after the present position (a resourceVersion) is skipped, even if the server's storage is restored from a
    snapshot: a server accepts a watch from a resourceVersion that it has not reached yet, and sends nothing (W-15). So
    everything is listed again after a stream that fell silent, and after a gap longer than `resume_within`, however
    many attempts were made in it. A watch that broke or ended early is resumed only if a list of one object shows that
    the server is not older than the position where the watch stopped.
Assumption
    resourceVersions of one kind are numbers that grow while a server serves; those that are not numbers are not
    compared. An API server that is stopped for a restore is away for at least three seconds.
"""

from typing import TypeAlias, assert_never

import attrs

from purekube.apimachinery.errors import Expired, Forbidden, KindMissing, OperatorError, Unavailable
from purekube.apimachinery.manifest import metadata
from purekube.controller.informer.messages import (
    DEFAULT_POLICY,
    Advance,
    BufferPage,
    DiscardPages,
    InformerEffect,
    InformerEvent,
    InformerPhase,
    InformerPolicy,
    InformerState,
    ListFailed,
    OpenStream,
    PageRead,
    PutObject,
    ReadPage,
    Relist,
    RelistCause,
    RemoveObject,
    Replace,
    ReportWatchError,
    Started,
    StreamEnded,
    StreamFailed,
    Wait,
    WaitElapsed,
    WakeRequested,
    WentQuiet,
)
from purekube.controller.informer.store import older
from purekube.ports import WatchEvent, WatchEventType

InformerStep: TypeAlias = tuple[InformerState, tuple[InformerEffect, ...]]


@attrs.frozen
class InformerContext:
    """The inputs of an informer's step other than state and event: the time, the jitter, and the timing policy."""

    now: float
    jitter: float
    policy: InformerPolicy


def relist(state: InformerState, cause: RelistCause, moment: InformerContext, *effects: InformerEffect) -> InformerStep:
    """Return the step (state and effects) by which the informer lists everything again because of a fault.

    The list starts immediately if there was no recent fault, and after a backoff if there was one. `effects` come first
    in the step. `cause` is counted in the statistics (the effect `Relist`).
    """
    doubted = attrs.evolve(state, phase=InformerPhase.LISTING, continue_token="")
    if moment.now - state.failed_at > moment.policy.quiet_reset:
        counted = attrs.evolve(doubted, failures=0, failed_at=moment.now)
        return relist_now(counted, cause, moment, *effects)
    return pause(doubted, moment, *effects, DiscardPages(), Relist(cause))


def relist_now(
    state: InformerState, cause: RelistCause, moment: InformerContext, *effects: InformerEffect
) -> InformerStep:
    """Return the step (state and effects) that lists everything again immediately.

    The pages of an unfinished list are discarded. `effects` come first in the step. `cause` is counted in the
    statistics (the effect `Relist`).
    """
    listing = attrs.evolve(state, phase=InformerPhase.LISTING, continue_token="")
    resumed, asked = resume(listing, moment)
    return resumed, (*effects, DiscardPages(), Relist(cause), *asked)


def pause(
    state: InformerState, moment: InformerContext, *effects: InformerEffect, at_least: float = 0.0
) -> InformerStep:
    """Return the step (state and effects) that counts a failure and retries the informer's present phase later.

    The retry is made after a backoff of at least `at_least` seconds. `effects` come first in the step.
    """
    policy, quiet = moment.policy, moment.now - state.failed_at
    failures = 1 if quiet > policy.quiet_reset else state.failures + 1
    delay = max(policy.backoff.delay(failures, moment.jitter), min(at_least, policy.retry_after_cap))
    counted = attrs.evolve(state, failures=failures, failed_at=moment.now)
    waiting, command = wait_for(counted, delay, moment)
    return waiting, (*effects, *command)


def resume_or_relist(
    state: InformerState, moment: InformerContext, trouble: ReportWatchError, at_least: float = 0.0
) -> InformerStep:
    """Return the step (state and effects) that waits and then resumes a broken watch.

    `trouble` is the report of the failure, which the effects include. The wait is at least `at_least` seconds. If it
    would end more than the policy's `resume_within` seconds after the watch broke, the informer instead lists all
    objects again after the wait.

    A failure after a long-lived stream counts as the first failure, since load balancers and proxies cut idle
    connections. The stream is long-lived if it lasted for at least the longest backoff.
    """
    lasted = moment.now - state.asked_at >= moment.policy.backoff.cap
    counted = attrs.evolve(state, failures=0) if lasted else state
    waiting, effects = pause(counted, moment, trouble, at_least=at_least)
    since = moment.now if state.doubted_since is None else state.doubted_since
    if waiting.wake_at - since <= moment.policy.resume_within:
        return attrs.evolve(waiting, doubted_since=since), effects
    listing = attrs.evolve(waiting, phase=InformerPhase.LISTING, continue_token="")
    return listing, (DiscardPages(), Relist(RelistCause.INTERRUPTED), *effects)


def wait_for(state: InformerState, seconds: float, moment: InformerContext) -> InformerStep:
    """Return the step (state and effects) that waits for `seconds` before the present phase (list or watch) goes on.

    `moment` has the present time, from which the wait counts.
    """
    return attrs.evolve(state, wake_at=moment.now + seconds), (Wait(seconds),)


def resume(state: InformerState, moment: InformerContext) -> InformerStep:
    """Return the step (state and effects) that sends the next request of the present phase: for a page of the list, or
    for the watch.
    """
    phase = InformerPhase.LISTING if state.phase is InformerPhase.MISSING else state.phase
    asking = attrs.evolve(state, phase=phase, asked_at=moment.now, had_event=False)
    match phase:
        case InformerPhase.LISTING:
            return asking, (ReadPage(state.continue_token),)
        case InformerPhase.WATCHING if state.doubted_since is not None:
            return asking, (ReadPage(limit=1),)
        case InformerPhase.WATCHING:
            return asking, (_stream(state, moment),)
        case _:
            assert_never(phase)


def _stream(state: InformerState, moment: InformerContext) -> OpenStream:
    policy = moment.policy
    # Between one and two times the minimum, as client-go's reflector, so that watches do not all end together
    # (tools/cache/reflector.go, minWatchTimeout).
    timeout = round(policy.watch_timeout * (1 + moment.jitter))
    quiet = policy.bookmark_silence if state.bookmarks else timeout + policy.quiet_grace
    return OpenStream(state.resource_version, timeout, quiet)


def step(
    state: InformerState, event: InformerEvent, now: float, jitter: float, policy: InformerPolicy = DEFAULT_POLICY
) -> InformerStep:
    """Return the informer's next state after `event`, and the effects that the caller must carry out.

    An effect is a request to the server, a change of the store, a wait, or a report. `now` is monotonic seconds, and
    `jitter` a number in [0, 1) that spreads the waits.
    """
    moment = InformerContext(now, jitter, policy)
    match event:
        case WatchEvent():
            return _streamed(state, event, moment)
        case PageRead() if state.phase is InformerPhase.WATCHING:
            return _compared(attrs.evolve(state, heard_at=now), event, moment)
        case PageRead():
            return _page(attrs.evolve(state, heard_at=now), event, moment)
        case ListFailed(error) if state.phase is InformerPhase.WATCHING:
            return _stream_failed(state, error, moment)
        case ListFailed(error):
            return _list_failed(state, error, moment)
        case StreamEnded():
            return _stream_ended(attrs.evolve(state, heard_at=now), moment)
        case StreamFailed(error):
            return _stream_failed(state, error, moment)
        case WentQuiet():
            return _went_quiet(state, moment)
        case Started() | WaitElapsed():
            return resume(state, moment)
        case WakeRequested():
            return _wake_requested(state, moment)
        case _:
            assert_never(event)


def _streamed(state: InformerState, event: WatchEvent, moment: InformerContext) -> InformerStep:
    version = str(metadata(event.object).get("resourceVersion", ""))
    if older(version, state.resource_version):
        return relist(state, RelistCause.BACKWARDS, moment)
    bookmark = event.type is WatchEventType.BOOKMARK
    moved = state.after_event(version, moment.now, bookmark=bookmark)
    match event.type:
        case WatchEventType.BOOKMARK:
            return moved, (Advance(version),)
        case WatchEventType.DELETED:  # the last state, with the version of the deletion (W-17)
            return moved, (RemoveObject(event.object), Advance(version))
        case WatchEventType.ADDED | WatchEventType.MODIFIED:
            return moved, (PutObject(event.object), Advance(version))
        case _:
            assert_never(event.type)


def _compared(state: InformerState, page: PageRead, moment: InformerContext) -> InformerStep:
    """Return the step (state and effects) after the check whether a broken watch may be resumed.

    For the check, the informer has listed one object (`page`). The informer lists all objects again if the server's
    resourceVersion is older than the watch's position. It does so too if the server was away so long that its storage
    may have been restored from a backup: by other writes, the restored server may have reached the same
    resourceVersion.
    """
    if older(page.resource_version, state.resource_version):
        return relist(state, RelistCause.BACKWARDS, moment)
    if state.doubted_since is not None and moment.now - state.doubted_since > moment.policy.resume_within:
        return relist(state, RelistCause.INTERRUPTED, moment)
    return resume(attrs.evolve(state, doubted_since=None), moment)


def _page(state: InformerState, page: PageRead, moment: InformerContext) -> InformerStep:
    if page.continue_token:
        reading = attrs.evolve(state, continue_token=page.continue_token, asked_at=moment.now)
        return reading, (BufferPage(page.items), ReadPage(page.continue_token))
    return _finish_list(state, page, moment)


def _finish_list(state: InformerState, page: PageRead, moment: InformerContext) -> InformerStep:
    """Return the step (state and effects) after the last page of a list.

    The buffered objects replace the store's content, even if they are older. A list requested without a resourceVersion
    returns the most recent state (W-01), so older objects mean that the server's storage was restored.
    """
    version = page.resource_version
    fresh = attrs.evolve(
        state,
        continue_token="",
        doubted_since=None,
        phase=InformerPhase.WATCHING,
        has_synced=True,
        resource_version=version,
        listed_at=moment.now,
        misses=0,
    )
    opened, effects = resume(fresh, moment)
    return opened, (BufferPage(page.items), Replace(version), *effects)


def _list_failed(state: InformerState, error: OperatorError, moment: InformerContext) -> InformerStep:
    trouble = ReportWatchError(error.message)
    match error:
        case KindMissing():
            return _missing(state, trouble, moment)
        case Unavailable(retry_after=seconds):
            return pause(state, moment, trouble, at_least=seconds or 0.0)
        case Expired():
            # The token that the answer offers continues with objects of a newer version (W-05; apiserver:
            # storage/etcd3/errors.go, handleCompactedErrorForPaging): begin again instead.
            return relist(state, RelistCause.EXPIRED, moment, trouble)
        case Forbidden() if moment.policy.optional and error.right is not None:
            # An answer with which readers can do: the cache counts as recent, too, or the process would become unready.
            done_without = attrs.evolve(state, continue_token="", has_synced=True, heard_at=moment.now)
            return pause(done_without, moment, DiscardPages(), trouble)
        case _:
            return pause(attrs.evolve(state, continue_token=""), moment, DiscardPages(), trouble)


def _missing(state: InformerState, trouble: ReportWatchError, moment: InformerContext) -> InformerStep:
    """Return the step (state and effects) after the answer that the kind is not served.

    The server may still be starting, so a filled store is emptied only after a second such answer.
    """
    misses = state.misses + 1
    missed = attrs.evolve(state, misses=misses, continue_token="", heard_at=moment.now)
    if state.resource_version and misses < 2:
        return pause(missed, moment, DiscardPages(), trouble)
    gone = attrs.evolve(missed, phase=InformerPhase.MISSING, has_synced=True, resource_version="")
    delay = moment.policy.missing_backoff.delay(misses, moment.jitter)
    return attrs.evolve(gone, wake_at=moment.now + delay), (DiscardPages(), Replace(""), trouble, Wait(delay))


def _wake_requested(state: InformerState, moment: InformerContext) -> InformerStep:
    """Return the step (state and effects) that checks now whether a missing kind is served, at most
    once per base backoff.
    """
    if state.phase is not InformerPhase.MISSING:
        return state, (Wait(max(0.0, state.wake_at - moment.now)),)
    soonest = state.asked_at + moment.policy.backoff.base
    if moment.now >= soonest:
        return resume(attrs.evolve(state, misses=0), moment)
    return attrs.evolve(state, misses=0, wake_at=soonest), (Wait(soonest - moment.now),)


def _stream_ended(state: InformerState, moment: InformerContext) -> InformerStep:
    policy, lasted = moment.policy, moment.now - state.asked_at
    if lasted < policy.shortest_watch and not state.had_event:
        return resume_or_relist(state, moment, ReportWatchError("the watch was closed at once"))
    if moment.now - state.listed_at >= policy.relist_after:
        return relist_now(state, RelistCause.PERIODIC, moment)
    ended = attrs.evolve(state, doubted_since=moment.now if lasted < policy.watch_timeout else None)
    if lasted < policy.shortest_watch:
        return wait_for(ended, policy.shortest_watch - lasted, moment)
    return resume(ended, moment)


def _stream_failed(state: InformerState, error: OperatorError, moment: InformerContext) -> InformerStep:
    trouble = ReportWatchError(error.message)
    match error:
        case Expired():
            return relist(state, RelistCause.EXPIRED, moment, trouble)
        case KindMissing():
            return relist(state, RelistCause.KIND_MISSING, moment, trouble)
        case Unavailable(retry_after=seconds):
            return resume_or_relist(state, moment, trouble, at_least=seconds or 0.0)
        case Forbidden():
            return resume_or_relist(state, moment, trouble)
        case _:
            return relist(state, RelistCause.UNREADABLE, moment, trouble)


def _went_quiet(state: InformerState, moment: InformerContext) -> InformerStep:
    """Return the step (state and effects) that lists again after the watch was silent for too long.

    The connection may be dead (RUN-1), the server's storage may be restored, or the server may send no bookmarks.
    """
    silences = state.silences + 1
    expected = state.bookmarked or silences < moment.policy.believe_silence
    quiet = attrs.evolve(state, silences=silences, bookmarks=expected)
    return relist(quiet, RelistCause.QUIET, moment, ReportWatchError("the stream went quiet", is_usual=True))
