"""What real Flux was seen to do in each scenario (RUN-9): `tests/conformance/flux/*.json`.

`python -m tests.support.flux_recordings` records on the cluster of `make cluster`: all, or those that are named.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.flux_sequence import Sequences
from tests.support.recordings import Recordings

_ACTION: Final = re.compile(r" by [a-z-]+")
_HOOK: Final = re.compile(
    r"failed early due to stalled resources: \[Job/<namespace>/(\S+) status: 'Failed'\]"
    r"|1 error occurred:\n\t\* job (\S+) failed: BackoffLimitExceeded"
)


def as_older_flux(objects: Sequences) -> Sequences:
    """Return the states, each whole, without what only the newest controllers report; repeats are left out.

    helm-controller 1.4 has no condition Drifted and no action in the history, and reports a failed hook as Helm 3.
    """
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


FLUX: Final = Recordings("flux", as_older_flux)
_PINS: Final = ("kubernetes", "source-controller", "helm-controller")


def main(names: Sequence[str]) -> None:
    """Record scenarios."""
    from tests.support.flux_real_stage import real_stage
    from tests.support.flux_scenarios import SCENARIOS, played
    from tools.cluster.up import VARIABLE, Cluster

    cluster = Cluster.load(Path(os.environ[VARIABLE]))
    for name in names or SCENARIOS:
        with real_stage(cluster) as stage:
            FLUX.write(name, played(name, stage), cluster, _PINS)
            print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
