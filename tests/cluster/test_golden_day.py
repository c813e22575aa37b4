"""The golden day on real controllers shows what the recorded one shows (SEE-1, SEE-2, RUN-7, RUN-8).

Both are played on a screen that is so wide that nothing is folded. Times, digests and random names are projected out.
Of a diff the lines that change remain, sorted: a kube-apiserver sorts the fields of custom resources by name.
"""

import difflib
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

import pytest

from tests.e2e.day.real import played_on
from tests.e2e.day.story import CHARTS, replayed
from tools.cluster.up import Cluster

pytestmark = pytest.mark.lone

_WIDTH: Final = 1000
_PROJECTED: Final = (
    (r"oci://127\.0\.0\.2:\d+/day", CHARTS),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uid>"),
    (r"(?<=applied-hash: )[0-9a-f]+", "<hash>"),
    (r"\+[0-9a-f]{12}\b", "+<digest>"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
    (r"\b(\d+[dhms])+\b", "<age>"),
    (r"(?<=operator: )\S+ leads", "<pod> leads"),
    (r"\bv1\.\d+\.\d+\S*", "<version>"),
)
_OF_A_CHART: Final = "the hook is a Job, and the simulated Flux makes no objects of a chart"
DIFFERENCES: Final = {
    "+└── job/podinfo-hook Failed BackoffLimitExceeded": _OF_A_CHART,
    "+Job has reached the specified backoff limit": _OF_A_CHART,
    "+└── job/podinfo-hook Ready JobCompleted": _OF_A_CHART,
}
"""Each line that one of both days lacks, with the reason."""


def _project(shown: str) -> str:
    for pattern, neutral in _PROJECTED:
        shown = re.sub(pattern, neutral, shown)
    for number, source in enumerate(dict.fromkeys(re.findall(r"\bpodinfo-[0-9a-f]{8}\b", shown)), start=1):
        shown = shown.replace(source, f"podinfo-<source {number}>")
    return shown


def _lines(shown: str) -> Iterator[str]:
    """Yield what is compared, with changed lines and rows of sources sorted: the names of sources are digests."""
    for place, group in groupby(_kept(shown), key=lambda line: line[:1] if line[:1] in "+-├" else ""):
        lines = [" ".join(line.split()) for line in group]
        yield from sorted(lines) if place else lines


def _kept(shown: str) -> Iterator[str]:
    """Yield the lines of the day without events, and without what a diff repeats."""
    is_event = is_diff = False
    for line in _project(shown).splitlines():
        is_diff = line.startswith("--- ") or (is_diff and not line.startswith("diff: "))
        is_event = line == "Last events:" or (is_event and line.lstrip().startswith("<age> "))
        if not is_event and (not is_diff or line[:1] in ("+", "-")):
            yield line


def _reasons(shown: str) -> set[str]:
    """Return the reasons of all events: how many rows the last ones take depends on the second of each."""
    rows = re.findall(r"^ *<age> +([A-Z]\w+(?:, [A-Z]\w+)*)(?::|$)", _project(shown), re.MULTILINE)
    return {reason for row in rows for reason in row.split(", ")}


def test_the_day_on_real_controllers_is_shown_as_on_simulated_ones_SEE_1_RUN_8(cluster: Cluster) -> None:
    if set(cluster.components) - {"flux", "cert-manager"}:
        pytest.skip("the day is one of a cluster with Flux alone: `check` names every engine")
    real, simulated = played_on(cluster, _WIDTH), replayed((_WIDTH,))[_WIDTH]

    lines = difflib.ndiff(list(_lines(simulated)), list(_lines(real)))
    differences = [line[0] + line[2:] for line in lines if line[0] in "+-"]
    assert differences == list(DIFFERENCES), "\n".join(differences)
    assert _reasons(real) == _reasons(simulated)
