"""RUN-5: `/healthz` and `/readyz` as judged from a snapshot: red for what a restart can mend, and by name."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.controller.health import (
    DEFAULT_BOUNDS,
    HealthReport,
    InformerVitals,
    Vitals,
    WorkerPoolVitals,
    healthy,
    ready,
)

WELL = InformerVitals("HelmRelease", has_synced=True, answered_ago=3, heard_ago=3, moved_ago=3, patience=100)
WORKING = WorkerPoolVitals("operation", True, ready=1, running=4, workers=4, oldest=2, time_limit=60, moved_ago=1)
FINE = Vitals(started=True, informers=(WELL,), worker_pools=(WORKING,))


def informer(**changes: Any) -> Vitals:
    return attrs.evolve(FINE, informers=(attrs.evolve(WELL, **changes),))


def driver(**changes: Any) -> Vitals:
    return attrs.evolve(FINE, worker_pools=(attrs.evolve(WORKING, **changes),))


def problems(report: HealthReport) -> dict[str, str]:
    return {check.name: check.problem for check in report.checks if check.problem}


def test_all_is_well() -> None:
    assert {check.problem for check in (*healthy(FINE, 1.0).checks, *ready(FINE, 1.0).checks)} == {""}
    assert healthy(FINE, 1.0).ok
    assert ready(FINE, 1.0).ok
    assert ready(FINE, 1.0).text() == (
        "[+]event loop ok\n[+]started ok\n[+]shutdown ok\n[+]cache HelmRelease ok\ncheck passed\n"
    )


@pytest.mark.parametrize(
    ("vitals", "age", "name", "problem"),
    [
        (FINE, 10.1, "event loop", "blocked: it gave no sign of life for 10 s"),
        (informer(moved_ago=130.1), 0, "informer HelmRelease", "stuck: it did nothing for 130 s"),
        (informer(answered_ago=901), 0, "informer HelmRelease", "stale: the API server said nothing for 901 s"),
        (
            informer(answered_ago=901, trouble="no connection"),
            0,
            "informer HelmRelease",
            "stale: the API server said nothing for 901 s; last trouble: no connection",
        ),
        (driver(oldest=90.1), 0, "driver operation", "stuck: a reconcile runs for 90 s, and its limit is 60 s"),
        (
            driver(running=3, moved_ago=60.1),
            0,
            "driver operation",
            "stuck: 1 keys wait and no worker took one for 60 s",
        ),
    ],
)
def test_what_a_restart_can_mend_is_unhealthy_and_named(vitals: Vitals, age: float, name: str, problem: str) -> None:
    assert problems(healthy(vitals, age)) == {name: problem}
    assert healthy(vitals, age).text().endswith("\ncheck failed\n")
    assert f"[-]{name} failed: {problem}\n" in healthy(vitals, age).text()


@pytest.mark.parametrize(
    "vitals",
    [
        Vitals(),  # waiting for the API server for as long as it takes
        informer(has_synced=False, heard_ago=9999, trouble="forbidden"),  # refused: it answers
        informer(heard_ago=9999, trouble="forbidden"),
        informer(moved_ago=99, patience=70),
        driver(active=False, running=0, ready=500, moved_ago=9999),  # a standby
        driver(ready=0, running=0, moved_ago=9999),  # nothing to do
        driver(running=4, moved_ago=85, oldest=85),  # all workers are busy, and within their limits
        informer(answered_ago=900),  # each just within its bound
        informer(moved_ago=130),
        driver(running=3, moved_ago=60),
        driver(oldest=90),
        attrs.evolve(FINE, stopping=True),
    ],
)
def test_what_a_restart_cannot_mend_is_healthy(vitals: Vitals) -> None:
    assert healthy(vitals, 10.0).ok


@pytest.mark.parametrize(
    ("vitals", "age", "name", "problem"),
    [
        (attrs.evolve(FINE, started=False), 0, "started", "waiting for the API server and the credential"),
        (attrs.evolve(FINE, stopping=True), 0, "shutdown", "the process is shutting down"),
        (informer(has_synced=False), 0, "cache HelmRelease", "not listed yet"),
        (
            informer(has_synced=False, trouble="forbidden: list helmreleases"),
            0,
            "cache HelmRelease",
            "not listed yet; last trouble: forbidden: list helmreleases",
        ),
        (informer(heard_ago=901), 0, "cache HelmRelease", "nothing was heard for 901 s"),
        (FINE, 11, "event loop", "blocked: it gave no sign of life for 11 s"),
    ],
)
def test_without_a_whole_and_recent_picture_it_is_not_ready(
    vitals: Vitals, age: float, name: str, problem: str
) -> None:
    assert problems(ready(vitals, age)) == {name: problem}


def test_a_cache_is_recent_for_a_quarter_of_an_hour() -> None:
    assert ready(informer(heard_ago=900), 10.0).ok
    assert not ready(informer(heard_ago=900.1), 10.0).ok


ages = st.floats(min_value=0, max_value=2000)
informers = st.builds(InformerVitals, st.sampled_from(["A", "B"]), st.booleans(), ages, ages, ages, ages, st.just(""))


@given(st.lists(informers, max_size=4), ages)
def test_the_verdict_is_that_of_the_worst_part(found: list[InformerVitals], age: float) -> None:
    whole = Vitals(started=True, informers=tuple(found))
    parts = [attrs.evolve(whole, informers=(informer_vitals,)) for informer_vitals in found]

    for judge in (healthy, ready):
        assert judge(whole, age).ok == all(judge(part, age).ok for part in (attrs.evolve(whole, informers=()), *parts))


@given(informers, ages)
def test_more_silence_never_looks_better(one: InformerVitals, more: float) -> None:
    worse = attrs.evolve(
        one, answered_ago=one.answered_ago + more, heard_ago=one.heard_ago + more, moved_ago=one.moved_ago + more
    )
    for judge in (healthy, ready):
        good = [judge(Vitals(started=True, informers=(each,)), DEFAULT_BOUNDS.loop).ok for each in (one, worse)]
        assert good != [False, True]
