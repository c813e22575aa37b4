"""What real Flux was seen to do in each scenario (RUN-9): `tests/conformance/flux/*.json`.

`python -m tests.support.flux_recordings` records on the cluster of `make cluster`: all, or those that are named.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.flux_older import as_older_flux
from tests.support.recordings import Recordings

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
