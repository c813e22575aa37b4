"""A workload is ready exactly where its controller has seen it and every pod is new, ready and available (PH-5)."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Kind
from purekube.readiness import State, readiness

COUNTS = st.none() | st.integers(0, 3)
FIELDS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "updatedNumberScheduled",
    "numberReady",
    "numberAvailable",
)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets")


def daemon_set(status: dict[str, Any], strategy: str = "RollingUpdate") -> dict[str, Any]:
    spec = {"updateStrategy": {"type": strategy}}
    meta = {"name": "agent", "namespace": "team", "generation": 2}
    return {**DAEMON_SET.manifest("agent", "team"), "metadata": meta, "spec": spec, "status": status}


@given(st.fixed_dictionaries(dict.fromkeys(FIELDS, COUNTS)), st.sampled_from(("RollingUpdate", "OnDelete")))
@example({**dict.fromkeys(FIELDS, 3), "updatedNumberScheduled": 2}, "RollingUpdate")
@example({**dict.fromkeys(FIELDS, 3), "updatedNumberScheduled": None}, "RollingUpdate")
@example({**dict.fromkeys(FIELDS, 3), "updatedNumberScheduled": 0}, "OnDelete")
def test_a_daemon_set_is_ready_exactly_where_no_node_runs_an_old_pod_or_lacks_one(
    counts: dict[str, int | None], strategy: str
) -> None:
    status = {name: value for name, value in counts.items() if value is not None}
    have = {name: counts[name] or 0 for name in FIELDS}
    asked = [name for name in FIELDS[1:] if strategy == "RollingUpdate" or name != "updatedNumberScheduled"]
    expected = all(have[name] >= have["desiredNumberScheduled"] for name in asked)

    for generation in (1, 2):
        found = readiness(daemon_set({**status, "observedGeneration": generation}, strategy))
        assert (found.state is State.READY) is (expected and generation == 2)
    assert readiness(daemon_set(status, strategy)).state is State.PROGRESSING
