"""What a rotation or registration asks for next: each step begun, with its effect (PULL-8)."""

import attrs

from vworkspace_core.agent import rotation_messages as r
from vworkspace_core.agent.rotation_state import CredentialState, Stage, Step

__all__ = ["ask", "forget", "intend", "register", "write"]


def intend(state: CredentialState, requests: tuple[str, ...]) -> Step:
    """The Secret is to say that a rotation for `requests` is under way, which proves that it can be written."""
    writing = attrs.evolve(state.kept, requested=requests[0])
    return write(attrs.evolve(state, stage=Stage.INTENDING, requests=requests, writing=writing))


def forget(state: CredentialState) -> Step:
    """The Secret is to let go of the old token, or of the intent."""
    writing = attrs.evolve(state.kept, previous="", requested="")
    return write(attrs.evolve(state, stage=Stage.FORGETTING, writing=writing, failures=0))


def write(state: CredentialState) -> Step:
    """Write what the Secret is to say."""
    assert state.writing is not None
    turn = state.turn + 1
    return attrs.evolve(state, turn=turn, retry_at=None), (r.Write(turn, state.kept.token, state.writing),)


def ask(state: CredentialState) -> Step:
    """Ask the control plane for a new token."""
    turn = state.turn + 1
    return attrs.evolve(state, stage=Stage.ASKING, turn=turn, retry_at=None), (r.Rotate(turn),)


def register(state: CredentialState) -> Step:
    """Ask the control plane for a first token, with the one-time token."""
    found, turn = state.registration, state.turn + 1
    asking = attrs.evolve(state, stage=Stage.REGISTERING, writing=None, turn=turn, retry_at=None)
    return asking, (r.Register(turn, found.token, found.cluster_id),)
