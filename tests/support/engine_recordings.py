"""What real controllers of the engines were seen to do (RUN-9): `tests/conformance/engines/*.json`.

`python -m tests.support.engine_recordings` records on the cluster of `make cluster`: all, or those that are named.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.engine_scenarios import SCENARIOS
from tests.support.recordings import Recordings
from tools.cluster.components import COMPONENTS
from tools.cluster.up import VARIABLE, Cluster

ENGINES: Final = Recordings("engines")


def main(names: Sequence[str]) -> None:
    """Record scenarios."""
    from tests.support.engine_real_stage import played

    cluster = Cluster.load(Path(os.environ[VARIABLE]))
    for name in names or SCENARIOS:
        component = SCENARIOS[name].component
        if component in ("", *cluster.components):
            pins = ("kubernetes", *(COMPONENTS[component].pins if component else ()))
            ENGINES.write(name, played(SCENARIOS[name], cluster), cluster, pins)
            print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
