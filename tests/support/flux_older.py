"""What older controllers of Flux do not report, or report in other words (RUN-9): helm-controller 1.4 with Helm 3.

It has no condition Drifted and no action in the history, and a failed hook is told in Helm 3's words.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from tests.support.flux_sequence import Sequences

_ACTION: Final = re.compile(r" by [a-z-]+")
_HOOK: Final = re.compile(
    r"failed early due to stalled resources: \[Job/<namespace>/(\S+) status: 'Failed'\]"
    r"|1 error occurred:\n\t\* job (\S+) failed: BackoffLimitExceeded"
)


def as_older_flux(objects: Sequences) -> Sequences:
    """Return the states, each whole, without what only the newest controllers report; repeats are left out."""
    return {name: list(_projected(states)) for name, states in objects.items()}


def _projected(states: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    whole: dict[str, Any] = {}
    known: list[dict[str, Any]] = []
    for changes in states:
        whole = {key: value for key, value in {**whole, **changes}.items() if value is not None}
        state = {key: _older(key, value) for key, value in whole.items()}
        if state not in known:
            known.append(state)
            yield state


def _older(key: str, value: Any) -> Any:
    if key == "conditions":
        return [_in_helm_3(line) for line in value if not line.startswith("Drifted=")]
    if key == "history":
        return [_ACTION.sub("", line) for line in value]
    return _in_helm_3(value) if isinstance(value, str) else value


def _in_helm_3(text: str) -> str:
    return _HOOK.sub(lambda match: f"job {match[1] or match[2]} failed", text)
