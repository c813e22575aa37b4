"""Which requests and watches a scheduled fault of the simulation may disturb, and how (SIM-2)."""

import pytest

from kubelab.clock import START, VirtualTimeLoop
from kubelab.storage.watch_stream import WatchStream
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.ports import KubeRequest, KubeVerb, WatchEvent, WatchEventType
from purekube_run.simulation.connection import Disturbance, ReplicaClock, Trouble, _in_pages, _OpenWatch


@pytest.mark.parametrize(
    ("trouble", "verb", "concerned"),
    [
        (Trouble.STALE, KubeVerb.APPLY, True),
        (Trouble.STALE, KubeVerb.PATCH, True),
        (Trouble.STALE, KubeVerb.UPDATE, True),
        (Trouble.STALE, KubeVerb.CREATE, False),
        (Trouble.STALE, KubeVerb.GET, False),
        (Trouble.CRASH_BEFORE, KubeVerb.CREATE, True),
        (Trouble.CRASH_AFTER, KubeVerb.DELETE, True),
        (Trouble.CRASH_BEFORE, KubeVerb.LIST, False),
    ],
)
def test_a_fault_disturbs_a_request_of_its_kind_for_which_only_is_true(
    trouble: Trouble, verb: KubeVerb, concerned: bool
) -> None:
    request = KubeRequest(verb, CONFIG_MAP, "default", "one")
    of_another = Disturbance(trouble, lambda happened: None, only=lambda asked: asked.name == "other")

    assert Disturbance(trouble, lambda happened: None).concerns(request) is concerned
    assert not of_another.concerns(request)


@pytest.mark.parametrize(("limit", "most", "sent"), [(150, 2, 2), (1, 2, 1), (150, 0, 150), (None, 2, None)], ids=str)
def test_a_list_in_pages_gets_short_ones(limit: int | None, most: int, sent: int | None) -> None:
    """SIM-2: a list without a limit has one page, whatever is in it."""
    request = KubeRequest(KubeVerb.LIST, CONFIG_MAP, params={"limit": limit})
    assert _in_pages(request, most).params["limit"] == sent


def _stream() -> WatchStream:
    return WatchStream(after=1, matches=lambda _: True, render=lambda each: each.raw, type_meta={}, bookmarks=False)


def _event(kind: WatchEventType, name: str, version: str) -> WatchEvent:
    manifest = {**CONFIG_MAP.manifest(name, "default"), "metadata": {"name": name, "resourceVersion": version}}
    return WatchEvent(kind, manifest)


def test_a_reordered_watch_delivers_the_event_before_once_more() -> None:
    """SIM-2: as from an API server that is behind, while the fault lasts."""
    added, changed, other = (
        _event(WatchEventType.ADDED, "one", "1"),
        _event(WatchEventType.DELETED, "one", "3"),
        _event(WatchEventType.ADDED, "other", "2"),
    )
    watch = _OpenWatch(KubeRequest(KubeVerb.WATCH, CONFIG_MAP, "default", ""), _stream())
    assert watch.deliveries(added, 1.0) == (added,)
    watch.reordered_until = 10.0
    assert watch.deliveries(other, 2.0) == (other,)
    assert watch.deliveries(changed, 9.0) == (changed, added)
    assert watch.deliveries(changed, 10.0) == (changed,)
    watch.repeats = True
    assert watch.deliveries(other, 11.0) == (other, other)
    assert watch.deliveries(other, 12.0) == (other,)


def test_a_suspension_counts_from_its_own_time() -> None:
    """RUN-4: what was sent before it had more time left."""
    loop = VirtualTimeLoop(START)
    clock = ReplicaClock(loop.now, loop)
    clock.suspend(30.0)
    assert clock.slept_until(clock.monotonic()) == 0.0
    assert clock.slept_until(clock.monotonic() + 1.0) == 30.0
    loop.close()
