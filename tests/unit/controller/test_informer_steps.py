"""RUN-1: every step of the informer's state machine, exactly: what changes in its state, and what it asks for."""

from typing import Any, Final

import attrs
import pytest

from purekube.apimachinery.errors import (
    Expired,
    Forbidden,
    Invalid,
    KindMissing,
    OperatorError,
    Permanent,
    Right,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.manifest import Manifest
from purekube.controller.informer.machine import step
from purekube.controller.informer.messages import (
    DEFAULT_POLICY,
    Advance,
    BufferPage,
    DiscardPages,
    InformerEvent,
    InformerPhase,
    InformerPolicy,
    InformerState,
    ListFailed,
    OpenStream,
    PageRead,
    PutObject,
    ReadPage,
    Relist,
    RelistCause,
    RemoveObject,
    Replace,
    ReportWatchError,
    Started,
    StreamEnded,
    StreamFailed,
    Wait,
    WaitElapsed,
    WakeRequested,
    WentQuiet,
    is_answer,
)
from purekube.ports import WatchEvent, WatchEventType

NOW: Final = 1000.0
HALF: Final = 0.5
"""The jitter of every step: a wait after a first failure is 1.2 s, after the third 4.8 s, a watch lasts 450 s."""

LISTING: Final = InformerState(continue_token="t", failures=2, failed_at=900.0, asked_at=990.0, heard_at=980.0)
WATCHING: Final = attrs.evolve(
    LISTING, phase=InformerPhase.WATCHING, has_synced=True, resource_version="7", continue_token="", listed_at=500.0
)
MISSING: Final = attrs.evolve(LISTING, phase=InformerPhase.MISSING, misses=3, wake_at=1030.0, continue_token="")
LONG_AGO: Final = 879.0
"""The time of a failure which is too old to count."""

STREAM: Final = OpenStream("7", 450, 85.0)
CHECK: Final = ReadPage("", 1)
THING: Final = {"metadata": {"name": "a", "resourceVersion": "8"}}
RIGHT: Final = Forbidden('User "sa" cannot list resource "pods" in API group "" at the cluster scope')
QUOTA: Final = Forbidden("the plan has ended")
NO_KIND: Final = KindMissing("no such kind")
BUSY: Final = Unavailable("busy", retry_after=7.0, status=429)
FOREVER: Final = Unavailable("busy", retry_after=900.0, status=429)
CUT: Final = Unavailable("connection reset")
AGAIN: Final = {"phase": InformerPhase.LISTING, "asked_at": NOW}


def watched(event: WatchEventType, obj: Manifest = THING) -> WatchEvent:
    return WatchEvent(event, obj)


def told(error: OperatorError) -> ReportWatchError:
    return ReportWatchError(error.message)


def failed(seconds: float, failures: int = 3, **more: Any) -> dict[str, Any]:
    return {"failures": failures, "failed_at": NOW, "wake_at": NOW + seconds, **more}


def moved(
    before: InformerState, event: InformerEvent, jitter: float = HALF, **more: Any
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The changed fields of the state, and the effects."""
    after, effects = step(before, event, NOW, jitter, attrs.evolve(DEFAULT_POLICY, **more))
    was, now = (attrs.asdict(state, recurse=False) for state in (before, after))
    return {name: value for name, value in now.items() if value != was[name]}, effects


def on(state: InformerState, **changes: Any) -> InformerState:
    return attrs.evolve(state, **changes)


EVENTS = {
    "added": (
        WATCHING,
        watched(WatchEventType.ADDED),
        {"resource_version": "8", "heard_at": NOW, "had_event": True},
        (PutObject(THING), Advance("8")),
    ),
    "modified, once more": (
        on(WATCHING, had_event=True),
        watched(WatchEventType.MODIFIED),
        {"resource_version": "8", "heard_at": NOW},
        (PutObject(THING), Advance("8")),
    ),
    "deleted": (
        WATCHING,
        watched(WatchEventType.DELETED),
        {"resource_version": "8", "heard_at": NOW, "had_event": True},
        (RemoveObject(THING), Advance("8")),
    ),
    "a bookmark": (
        on(WATCHING, bookmarks=False),
        watched(WatchEventType.BOOKMARK),
        {"resource_version": "8", "heard_at": NOW, "bookmarks": True, "bookmarked": True},
        (Advance("8"),),
    ),
    "an event at the same version": (
        WATCHING,
        watched(WatchEventType.ADDED, {"metadata": {"resourceVersion": "7"}}),
        {"heard_at": NOW, "had_event": True},
        (PutObject({"metadata": {"resourceVersion": "7"}}), Advance("7")),
    ),
    "an event without a version": (
        WATCHING,
        watched(WatchEventType.ADDED, {}),
        {"resource_version": "", "heard_at": NOW, "had_event": True},
        (PutObject({}), Advance("")),
    ),
    "an event of the past": (
        WATCHING,
        watched(WatchEventType.ADDED, {"metadata": {"resourceVersion": "6"}}),
        failed(4.8, phase=InformerPhase.LISTING),
        (DiscardPages(), Relist(RelistCause.BACKWARDS), Wait(4.8)),
    ),
}

PAGES = {
    "a page of several": (
        LISTING,
        PageRead([THING], "9", "more"),
        {"heard_at": NOW, "continue_token": "more", "asked_at": NOW},
        (BufferPage([THING]), ReadPage("more")),
    ),
    "the last page": (
        on(LISTING, misses=1, doubted_since=990.0, had_event=True),
        PageRead([THING], "9"),
        {
            "phase": InformerPhase.WATCHING, "has_synced": True, "resource_version": "9", "continue_token": "",
            "asked_at": NOW, "heard_at": NOW, "listed_at": NOW, "misses": 0, "doubted_since": None, "had_event": False,
        },
        (BufferPage([THING]), Replace("9"), OpenStream("9", 450, 85.0)),
    ),
    "the server is as far as the watch": (
        on(WATCHING, doubted_since=998.0),
        PageRead([], "7"),
        {"heard_at": NOW, "doubted_since": None, "asked_at": NOW},
        (STREAM,),
    ),
    "a check that nobody needs any more": (
        WATCHING,
        PageRead([], "7"),
        {"heard_at": NOW, "asked_at": NOW},
        (STREAM,),
    ),
    "the server is behind the watch": (
        on(WATCHING, doubted_since=998.0, failed_at=LONG_AGO),
        PageRead([], "6"),
        {**AGAIN, "heard_at": NOW, "failures": 0, "failed_at": NOW},
        (DiscardPages(), Relist(RelistCause.BACKWARDS), ReadPage()),
    ),
    "the server was away for too long": (
        on(WATCHING, doubted_since=997.9),
        PageRead([], "8"),
        failed(4.8, phase=InformerPhase.LISTING, heard_at=NOW),
        (DiscardPages(), Relist(RelistCause.INTERRUPTED), Wait(4.8)),
    ),
}  # fmt: skip

FAILED_LISTS = {
    "not served, for a filled store": (
        on(LISTING, resource_version="7"),
        ListFailed(NO_KIND),
        failed(4.8, misses=1, continue_token="", heard_at=NOW),
        (DiscardPages(), told(NO_KIND), Wait(4.8)),
    ),
    "not served, once more": (
        on(LISTING, resource_version="7", misses=1),
        ListFailed(NO_KIND),
        {
            "phase": InformerPhase.MISSING, "has_synced": True, "resource_version": "", "continue_token": "",
            "heard_at": NOW, "misses": 2, "wake_at": 1002.4,
        },
        (DiscardPages(), Replace(""), told(NO_KIND), Wait(2.4)),
    ),
    "not served, at first": (
        LISTING,
        ListFailed(NO_KIND),
        {
            "phase": InformerPhase.MISSING, "has_synced": True, "continue_token": "", "heard_at": NOW, "misses": 1,
            "wake_at": 1001.2,
        },
        (DiscardPages(), Replace(""), told(NO_KIND), Wait(1.2)),
    ),
    "unavailable": (LISTING, ListFailed(CUT), failed(4.8), (told(CUT), Wait(4.8))),
    "unavailable, with a time": (LISTING, ListFailed(BUSY), failed(7.0), (told(BUSY), Wait(7.0))),
    "unavailable, for ages": (LISTING, ListFailed(FOREVER), failed(300.0), (told(FOREVER), Wait(300.0))),
    "after a quiet time": (
        on(LISTING, failed_at=LONG_AGO),
        ListFailed(CUT),
        failed(1.2, 1),
        (told(CUT), Wait(1.2)),
    ),
    "just before it is a quiet time": (
        on(LISTING, failed_at=880.0),
        ListFailed(CUT),
        failed(4.8),
        (told(CUT), Wait(4.8)),
    ),
    "expired": (
        LISTING,
        ListFailed(Expired("gone")),
        failed(4.8, continue_token=""),
        (ReportWatchError("gone"), DiscardPages(), Relist(RelistCause.EXPIRED), Wait(4.8)),
    ),
    "forbidden": (
        LISTING,
        ListFailed(RIGHT),
        failed(4.8, continue_token=""),
        (DiscardPages(), told(RIGHT), Wait(4.8)),
    ),
    "anything else": (
        LISTING,
        ListFailed(Invalid("no")),
        failed(4.8, continue_token=""),
        (DiscardPages(), ReportWatchError("no"), Wait(4.8)),
    ),
    "the check of a watch fails": (
        on(WATCHING, doubted_since=999.0),
        ListFailed(NO_KIND),
        failed(4.8, phase=InformerPhase.LISTING),
        (told(NO_KIND), DiscardPages(), Relist(RelistCause.KIND_MISSING), Wait(4.8)),
    ),
}  # fmt: skip

ENDED_STREAMS = {
    "in its time": (on(WATCHING, asked_at=700.0), StreamEnded(), {"heard_at": NOW, "asked_at": NOW}, (STREAM,)),
    "too early": (
        on(WATCHING, asked_at=700.1),
        StreamEnded(),
        {"heard_at": NOW, "asked_at": NOW, "doubted_since": NOW},
        (CHECK,),
    ),
    "after its shortest time": (
        on(WATCHING, asked_at=999.0),
        StreamEnded(),
        {"heard_at": NOW, "asked_at": NOW, "doubted_since": NOW},
        (CHECK,),
    ),
    "at once, after an event": (
        on(WATCHING, asked_at=999.25, had_event=True),
        StreamEnded(),
        {"heard_at": NOW, "doubted_since": NOW, "wake_at": 1000.25},
        (Wait(0.25),),
    ),
    "at once": (
        on(WATCHING, asked_at=999.5, failed_at=LONG_AGO),
        StreamEnded(),
        failed(1.2, 1, heard_at=NOW, doubted_since=NOW),
        (ReportWatchError("the watch was closed at once"), Wait(1.2)),
    ),
    "when it is time to list": (
        on(WATCHING, listed_at=-2600.0, continue_token="t"),
        StreamEnded(),
        {**AGAIN, "heard_at": NOW, "continue_token": ""},
        (DiscardPages(), Relist(RelistCause.PERIODIC), ReadPage()),
    ),
    "just before it is time to list": (
        on(WATCHING, listed_at=-2599.9, asked_at=700.0),
        StreamEnded(),
        {"heard_at": NOW, "asked_at": NOW},
        (STREAM,),
    ),
    "broken, which is resumed": (
        on(WATCHING, failed_at=LONG_AGO),
        StreamFailed(CUT),
        failed(1.2, 1, doubted_since=NOW),
        (told(CUT), Wait(1.2)),
    ),
    "broken, with doubt already": (
        on(WATCHING, failed_at=LONG_AGO, doubted_since=999.25),
        StreamFailed(CUT),
        failed(1.2, 1),
        (told(CUT), Wait(1.2)),
    ),
    "broken, with doubt for too long": (
        on(WATCHING, failed_at=LONG_AGO, doubted_since=999.0),
        StreamFailed(CUT),
        failed(1.2, 1, phase=InformerPhase.LISTING),
        (DiscardPages(), Relist(RelistCause.INTERRUPTED), told(CUT), Wait(1.2)),
    ),
    "refused for just as long as a watch may be resumed": (
        on(WATCHING, failed_at=LONG_AGO),
        StreamFailed(Unavailable("busy", retry_after=2.0)),
        failed(2.0, 1, doubted_since=NOW),
        (ReportWatchError("busy"), Wait(2.0)),
    ),
    "broken after others": (
        on(WATCHING, continue_token="t"),
        StreamFailed(CUT),
        failed(4.8, phase=InformerPhase.LISTING, continue_token=""),
        (DiscardPages(), Relist(RelistCause.INTERRUPTED), told(CUT), Wait(4.8)),
    ),
    "broken after others, but it had lasted": (
        on(WATCHING, asked_at=970.0),
        StreamFailed(CUT),
        failed(1.2, 1, doubted_since=NOW),
        (told(CUT), Wait(1.2)),
    ),
    "refused for a time": (
        on(WATCHING, failed_at=LONG_AGO),
        StreamFailed(BUSY),
        failed(7.0, 1, phase=InformerPhase.LISTING),
        (DiscardPages(), Relist(RelistCause.INTERRUPTED), told(BUSY), Wait(7.0)),
    ),
    "forbidden": (
        on(WATCHING, failed_at=LONG_AGO),
        StreamFailed(RIGHT),
        failed(1.2, 1, doubted_since=NOW),
        (told(RIGHT), Wait(1.2)),
    ),
    "expired": (
        on(WATCHING, failed_at=LONG_AGO),
        StreamFailed(Expired("gone")),
        {**AGAIN, "failures": 0, "failed_at": NOW},
        (ReportWatchError("gone"), DiscardPages(), Relist(RelistCause.EXPIRED), ReadPage()),
    ),
    "expired just before it is a quiet time": (
        on(WATCHING, failed_at=880.0),
        StreamFailed(Expired("gone")),
        failed(4.8, phase=InformerPhase.LISTING),
        (ReportWatchError("gone"), DiscardPages(), Relist(RelistCause.EXPIRED), Wait(4.8)),
    ),
    "not served": (
        WATCHING,
        StreamFailed(NO_KIND),
        failed(4.8, phase=InformerPhase.LISTING),
        (told(NO_KIND), DiscardPages(), Relist(RelistCause.KIND_MISSING), Wait(4.8)),
    ),
    "unreadable": (
        WATCHING,
        StreamFailed(Permanent("odd")),
        failed(4.8, phase=InformerPhase.LISTING),
        (ReportWatchError("odd"), DiscardPages(), Relist(RelistCause.UNREADABLE), Wait(4.8)),
    ),
}

QUIET = (ReportWatchError("the stream went quiet", is_usual=True), DiscardPages(), Relist(RelistCause.QUIET), Wait(4.8))
OTHERS = {
    "it begins": (InformerState(), Started(), {"asked_at": NOW}, (ReadPage(),)),
    "a list goes on": (on(LISTING, had_event=True), WaitElapsed(), {"asked_at": NOW, "had_event": False},
                       (ReadPage("t"),)),
    "a missing kind is looked for": (MISSING, WaitElapsed(), AGAIN, (ReadPage(),)),
    "a watch is resumed": (WATCHING, WaitElapsed(), {"asked_at": NOW}, (STREAM,)),
    "a watch without bookmarks": (on(WATCHING, bookmarks=False), WaitElapsed(), {"asked_at": NOW},
                                  (OpenStream("7", 450, 470.0),)),
    "a doubted watch is checked": (on(WATCHING, doubted_since=0.0), WaitElapsed(), {"asked_at": NOW}, (CHECK,)),
    "quiet": (WATCHING, WentQuiet(), failed(4.8, phase=InformerPhase.LISTING, silences=1), QUIET),
    "quiet three times": (on(WATCHING, silences=2), WentQuiet(),
                          failed(4.8, phase=InformerPhase.LISTING, silences=3, bookmarks=False), QUIET),
    "quiet three times, but there was a bookmark": (
        on(WATCHING, silences=2, bookmarked=True), WentQuiet(),
        failed(4.8, phase=InformerPhase.LISTING, silences=3), QUIET),
    "woken, while it lists": (on(LISTING, wake_at=1003.0), WakeRequested(), {}, (Wait(3.0),)),
    "woken, too late": (on(WATCHING, wake_at=999.0), WakeRequested(), {}, (Wait(0.0),)),
    "woken, while the kind is missing": (MISSING, WakeRequested(), {**AGAIN, "misses": 0}, (ReadPage(),)),
    "woken, at the soonest": (on(MISSING, asked_at=999.2), WakeRequested(), {**AGAIN, "misses": 0}, (ReadPage(),)),
    "woken, too soon": (on(MISSING, asked_at=999.7), WakeRequested(), {"misses": 0, "wake_at": 1000.5}, (Wait(0.5),)),
}  # fmt: skip

STEPS: dict[str, Any] = {
    f"{group}: {name}": case
    for group, cases in (
        ("event", EVENTS),
        ("page", PAGES),
        ("failed list", FAILED_LISTS),
        ("stream", ENDED_STREAMS),
        ("other", OTHERS),
    )
    for name, case in cases.items()
}


def close(value: Any) -> Any:
    """The same with times rounded, since 999.7 + 0.8 is not quite 1000.5."""
    match value:
        case dict():
            return {name: close(one) for name, one in value.items()}
        case Wait(seconds):
            return Wait(round(seconds, 6))
        case tuple():
            return tuple(close(one) for one in value)
        case float():
            return round(value, 6)
        case _:
            return value


@pytest.mark.parametrize("name", STEPS)
def test_each_step_changes_its_fields_and_asks_for_its_effects_RUN_1(name: str) -> None:
    before, event, changes, effects = STEPS[name]
    assert close(moved(before, event)) == close((changes, effects))


@pytest.mark.parametrize(
    ("error", "optional", "has_synced"),
    [(RIGHT, True, True), (RIGHT, False, False), (QUOTA, True, False), (Unauthorized("who"), True, False)],
)
def test_readers_can_do_without_an_optional_kind_that_they_may_not_list(
    error: OperatorError, optional: bool, has_synced: bool
) -> None:
    changes, effects = moved(LISTING, ListFailed(error), optional=optional)

    synced: dict[str, Any] = {"has_synced": True, "heard_at": NOW} if has_synced else {}
    assert changes == failed(4.8, continue_token="", **synced)
    assert close(effects) == (DiscardPages(), told(error), Wait(4.8))


def test_a_server_may_ask_for_less_than_the_backoff() -> None:
    _, effects = moved(LISTING, ListFailed(Unavailable("busy", retry_after=1.0)))

    assert close(effects[-1]) == Wait(4.8)


@pytest.mark.parametrize(("before", "event"), [(LISTING, ListFailed(CUT)), (WATCHING, StreamFailed(CUT))])
def test_a_server_that_names_no_time_is_asked_again_after_the_backoff(
    before: InformerState, event: InformerEvent
) -> None:
    _, effects = moved(on(before, failed_at=LONG_AGO), event, 0.0)

    assert effects == (told(CUT), Wait(0.8))


@pytest.mark.parametrize("bookmark", [True, False])
def test_an_event_moves_the_position_and_keeps_everything_else(bookmark: bool) -> None:
    before = InformerState(
        InformerPhase.WATCHING, True, "7", "t", 2, 900.0, 990.0, 980.0, 500.0, 1.0, 2.0,
        had_event=not bookmark, bookmarks=False, bookmarked=bookmark, silences=3, misses=4,
    )  # fmt: skip
    expected = on(
        before, resource_version="8", heard_at=NOW, had_event=not bookmark, bookmarks=bookmark, bookmarked=bookmark
    )

    assert before.after_event("8", NOW, bookmark=bookmark) == expected
    seen = on(before, had_event=True, bookmarks=True, bookmarked=True)
    assert seen.after_event("8", NOW, bookmark=bookmark) == on(seen, resource_version="8", heard_at=NOW)


def test_a_watch_is_never_listed_again_for_its_age_alone_where_the_policy_says_so() -> None:
    _, effects = moved(on(WATCHING, listed_at=0.0, asked_at=0.0), StreamEnded(), relist_after=float("inf"))

    assert effects == (STREAM,)


@pytest.mark.parametrize(
    ("event", "answered"),
    [
        (ListFailed(CUT), False),
        (StreamFailed(CUT), False),
        (ListFailed(BUSY), True),
        (StreamFailed(BUSY), True),
        (ListFailed(RIGHT), True),
        (StreamFailed(Permanent("odd")), True),
        (Started(), False),
        (WaitElapsed(), False),
        (WakeRequested(), False),
        (WentQuiet(), False),
        (PageRead([], "1"), True),
        (StreamEnded(), True),
        (watched(WatchEventType.BOOKMARK), True),
    ],
)
def test_the_server_answers_with_a_refusal_too(event: InformerEvent, answered: bool) -> None:
    assert is_answer(event) is answered


def test_the_waits_are_those_of_client_go_where_it_has_them() -> None:
    assert InformerPolicy() == DEFAULT_POLICY
    assert attrs.asdict(DEFAULT_POLICY) == {
        "optional": False,
        "backoff": {"base": 0.8, "cap": 30.0},
        "missing_backoff": {"base": 0.8, "cap": 60.0},
        "quiet_reset": 120.0,
        "retry_after_cap": 300.0,
        "resume_within": 2.0,
        "shortest_watch": 1.0,
        "watch_timeout": 300.0,
        "quiet_grace": 20.0,
        "bookmark_silence": 85.0,
        "believe_silence": 3,
        "relist_after": 3600.0,
    }


def test_a_missing_right_is_known_by_the_message_of_the_server() -> None:
    assert (RIGHT.right, QUOTA.right) == (Right("list", "", "pods", "", "sa"), None)
