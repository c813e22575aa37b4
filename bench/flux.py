"""Measure what an install through this operator adds to real Flux: its share of the time and of the API requests.

    python -m bench.flux [--cluster FOLDER] [--singles 5] [--burst 100]

Without `--cluster` a cluster of `make cluster` is started with an audit log; helm-controller and source-controller run
with the settings that Flux ships. An administrator creates instances and watches. Ours is the time in which Flux waits
for this operator, as a watch here sees it: from the instance to its source, with which Flux begins; from the source
Ready to the HelmRelease, if that comes later; and from the HelmRelease Ready to the instance Ready. The whole is from
the instance to its Ready. The chart is a ConfigMap: no release is quicker, so no chart makes our share larger.
A single instance is also installed with a chart of one Deployment, whose pod kwok makes Ready at once.
Budgets: 2 % for a single one, 5 % in a burst.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import anyio
import attrs

from bench.machine import describe
from bench.side_by_side import is_ready
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from tests.support.real_site import CHART, RealSite, real_site
from tools.cluster.up import Cluster, running
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY, MANAGED_BY_VALUE

VERSION: Final = "1.0.0"
"""The version of the chart that is a ConfigMap."""
WITH_POD: Final = "2.0.0"
"""The version of the chart that has a Deployment."""
BUDGETS: Final = {"single": 2.0, "burst": 5.0}
AUDIT: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
"""
_AT_ONCE: Final = 4
_STAGES: Final = {
    APPLICATION_INSTANCE: ("created", "ready"),
    OCI_REPOSITORY: ("sourced", "fetched"),
    HELM_RELEASE: ("released", "flux_ready"),
}
"""The stages at which an object of each kind is there, and is Ready."""


@attrs.frozen
class Times:
    """The moments at which one instance reached each stage, in seconds of one clock."""

    created: float
    sourced: float
    fetched: float
    released: float
    flux_ready: float
    ready: float

    @property
    def whole(self) -> float:
        """The seconds from creation to Ready."""
        return self.ready - self.created

    @property
    def before(self) -> float:
        """The seconds in which Flux waits for the source, and for a HelmRelease later than the source Ready."""
        return self.sourced - self.created + max(self.released - self.fetched, 0.0)

    @property
    def after(self) -> float:
        """The seconds from the HelmRelease Ready to the instance Ready."""
        return max(self.ready - self.flux_ready, 0.0)

    @property
    def ours(self) -> float:
        """The seconds in which Flux waits for this operator, or is done."""
        return self.before + self.after


@attrs.frozen
class Round:
    """Instances that were created together, and the number of requests meanwhile, by client."""

    times: Sequence[Times]
    requests: Counter[str]

    @property
    def share(self) -> float:
        """This operator's share of all seconds, in percent."""
        return 100 * sum(each.ours for each in self.times) / sum(each.whole for each in self.times)

    @property
    def request_share(self) -> float:
        """This operator's share of its own and Flux's requests, in percent."""
        flux = self.requests["flux"]
        return 100 * self.requests["ours"] / max(self.requests["ours"] + flux, 1)


@attrs.define
class Watch:
    """The moments at which each instance was first observed to reach each stage."""

    site: RealSite
    stages: dict[str, dict[str, float]] = attrs.field(factory=dict)
    _read: int = 0

    def read(self) -> None:
        """Read the observations since the last call."""
        fresh = self.site.spectator.sightings[self._read :]
        self._read += len(fresh)
        for seen in fresh:
            owners = seen.object["metadata"].get("ownerReferences") or [seen.object["metadata"]]
            stages = self.stages.setdefault(owners[0]["name"], {})
            appeared, done = _STAGES[seen.kind]
            stages.setdefault(appeared, seen.at)
            if is_ready(seen.object):
                stages.setdefault(done, seen.at)

    def times(self, name: str) -> Times | None:
        """Return the moments of one instance; None while it is not Ready."""
        stages = self.stages.get(name, {})
        return Times(**stages) if len(stages) == len(attrs.fields(Times)) else None

    async def one_by_one(self, prefix: str, count: int, version: str) -> Round:
        """Create instances of a version of the chart one after the other, each when the one before is Ready."""
        rounds = [await self.round([f"{prefix}-{number}"], version) for number in range(count)]
        return Round([each.times[0] for each in rounds], sum((each.requests for each in rounds), Counter()))

    async def round(self, names: Sequence[str], version: str = VERSION) -> Round:
        """Create these instances together, and wait until all are Ready."""
        log = Audit(self.site.cluster.folder / "audit.log", self.site.ground.namespace)
        async with anyio.create_task_group() as group:
            for at in range(_AT_ONCE):
                group.start_soon(self._create, names[at::_AT_ONCE], version)
        while not all(self.times(name) for name in names):
            self.read()
            await anyio.sleep(0.01)
        await anyio.sleep(2)  # the last Events, and Flux's work after its last status
        return Round([times for name in names if (times := self.times(name))], log.requests())

    async def _create(self, names: Sequence[str], version: str) -> None:
        labels = {MANAGED_BY: MANAGED_BY_VALUE, CLUSTER_ID: self.site.ground.name}
        for name in names:
            manifest = self.site.instance(name, version)
            manifest["metadata"] = {**manifest["metadata"], "labels": labels}
            await self.site.ground.api.create(manifest, kind=APPLICATION_INSTANCE, field_manager="bench")


class Audit:
    """The entries that are appended to an audit log from now on."""

    def __init__(self, path: Path, namespace: str) -> None:
        self._path, self._ours = path, f"system:serviceaccount:{namespace}:"
        self._from = path.stat().st_size if path.exists() else 0

    def requests(self) -> Counter[str]:
        """Return the number of requests by client: this operator, Flux, others."""
        if not self._path.exists():
            return Counter()
        with self._path.open("rb") as file:
            file.seek(self._from)
            return Counter(self._who(json.loads(line)) for line in file if line.endswith(b"\n"))

    def _who(self, entry: dict[str, Any]) -> str:
        agent = str(entry.get("userAgent", ""))
        if str(entry["user"]["username"]).startswith(self._ours):
            return "ours"
        return "flux" if agent.startswith(("helm-controller", "source-controller", "Helm/")) else "others"


def lines(title: str, measured: Round) -> Iterator[str]:
    """Yield the printed lines of a round."""
    whole = statistics.median(each.whole for each in measured.times)
    before, after = (statistics.median(map(attrgetter(part), measured.times)) for part in ("before", "after"))
    yield f"{title}: creation to Ready {1000 * whole:.0f} ms (median); ours before Flux {1000 * before:.0f} ms, after"
    budget = BUDGETS[title.split()[0]]
    yield f"    {1000 * after:.0f} ms; our share of all seconds {measured.share:.1f} %, budget {budget:g} %"
    if measured.requests:
        ours, flux = measured.requests["ours"], measured.requests["flux"]
        yield f"    requests: ours {ours}, Flux's {flux}; our share {measured.request_share:.0f} %"


async def measure(cluster: Cluster, singles: int, burst: int) -> bool:
    """Print the rounds; return whether all are within their budgets."""
    async with real_site(cluster, (VERSION,)) as site:
        await anyio.to_thread.run_sync(partial(site.repository.push, CHART, WITH_POD, like="web"))
        await site.start_operator()
        await site.until(lambda: site.control.waiting > 0, "a long poll")
        watch = Watch(site)
        await watch.round(["warm"])
        alone = await watch.one_by_one("single", singles, VERSION)
        with_pod = await watch.one_by_one("pod", singles, WITH_POD)
        together = await watch.round([f"burst-{number}" for number in range(burst)])
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{describe()}, load {load}, {time.strftime('%Y-%m-%d')}")
    rounds = {
        f"single ({singles} one after the other)": alone,
        f"single with a pod ({singles} one after the other)": with_pod,
        f"burst of {burst}": together,
    }
    for title, measured in rounds.items():
        print("\n".join(lines(title, measured)))
    return all(measured.share <= BUDGETS[title.split()[0]] for title, measured in rounds.items())


@contextmanager
def _cluster(folder: str) -> Iterator[Cluster]:
    if folder:
        yield Cluster.load(Path(folder))
        return
    with running(["flux"], print, audit=AUDIT) as cluster:
        yield cluster


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cluster", default="", help="the folder of a cluster that runs (make cluster)")
    parser.add_argument("--singles", type=int, default=5)
    parser.add_argument("--burst", type=int, default=100)
    options = parser.parse_args()
    with _cluster(options.cluster) as cluster:
        return 0 if anyio.run(measure, cluster, options.singles, options.burst) else 1


if __name__ == "__main__":
    sys.exit(main())
