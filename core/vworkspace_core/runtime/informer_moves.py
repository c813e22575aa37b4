"""What an informer does next: ask, wait, or list again. Each move gives the next state and its effects."""

from typing import TypeAlias, assert_never

import attrs

from vworkspace_core.runtime.informer_events import (
    Effect,
    OpenStream,
    ReadPage,
    Relist,
    RelistCause,
    Unstage,
    Wait,
)
from vworkspace_core.runtime.informer_state import InformerPolicy, InformerState, Phase

__all__ = ["Moment", "Stepped", "list_anew", "pause", "relist", "resume", "wait_for"]

Stepped: TypeAlias = tuple[InformerState, tuple[Effect, ...]]


@attrs.frozen
class Moment:
    """When a step happens, with the policy in force."""

    now: float
    jitter: float
    policy: InformerPolicy


def relist(state: InformerState, cause: RelistCause, moment: Moment, *effects: Effect) -> Stepped:
    """List again because of a fault: at once after a quiet time, with backoff when it happens again."""
    doubted = attrs.evolve(state, phase=Phase.LISTING, continue_token="")
    if moment.now - state.failed_at > moment.policy.quiet_reset:
        counted = attrs.evolve(doubted, failures=0, failed_at=moment.now)
        return list_anew(counted, cause, moment, *effects)
    return pause(doubted, moment, *effects, Unstage(), Relist(cause))


def list_anew(state: InformerState, cause: RelistCause, moment: Moment, *effects: Effect) -> Stepped:
    """List again at once; what was staged is forgotten."""
    listing = attrs.evolve(state, phase=Phase.LISTING, continue_token="")
    resumed, asked = resume(listing, moment)
    return resumed, (*effects, Unstage(), Relist(cause), *asked)


def pause(state: InformerState, moment: Moment, *effects: Effect, at_least: float = 0.0) -> Stepped:
    """Count a failure and wait before going on with the same phase."""
    policy, quiet = moment.policy, moment.now - state.failed_at
    failures = 1 if quiet > policy.quiet_reset else state.failures + 1
    delay = max(policy.backoff.delay(failures, moment.jitter), min(at_least, policy.retry_after_cap))
    counted = attrs.evolve(state, failures=failures, failed_at=moment.now)
    waiting, command = wait_for(counted, delay, moment)
    return waiting, (*effects, *command)


def wait_for(state: InformerState, seconds: float, moment: Moment) -> Stepped:
    """Wait, then go on with the same phase."""
    return attrs.evolve(state, wake_at=moment.now + seconds), (Wait(seconds),)


def resume(state: InformerState, moment: Moment) -> Stepped:
    """Ask the server for what the phase needs."""
    asking = attrs.evolve(state, asked_at=moment.now, had_event=False)
    match state.phase:
        case Phase.LISTING | Phase.MISSING:
            return attrs.evolve(asking, phase=Phase.LISTING), (ReadPage(state.continue_token),)
        case Phase.WATCHING:
            return asking, (_stream(state, moment),)
        case _:
            assert_never(state.phase)


def _stream(state: InformerState, moment: Moment) -> OpenStream:
    policy = moment.policy
    timeout = round(policy.watch_timeout * (1 + moment.jitter))
    quiet = policy.bookmark_silence if state.bookmarks else timeout + policy.quiet_grace
    return OpenStream(state.resource_version, timeout, quiet)
