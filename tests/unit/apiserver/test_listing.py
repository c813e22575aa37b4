"""Lists and watches by their options: versions, pages, tokens, and what a server refuses (W-01 to W-15)."""

import pytest

from kubelab.model.failure import ApiFailure
from kubelab.storage.listing import (
    EVERYTHING,
    ListOptions,
    ReadPlan,
    check_watch_options,
    continue_token,
    list_options,
    plan_list,
    watch_version,
)

CURRENT, FLOOR = 100, 40


def plan(options: ListOptions) -> ReadPlan:
    return plan_list(options, CURRENT, FLOOR)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (EVERYTHING, ReadPlan(None, None, 0)),
        (ListOptions(limit=3), ReadPlan(None, None, 3)),
        (ListOptions(resource_version="0", limit=3), ReadPlan(None, None, 0)),
        (ListOptions(resource_version="50"), ReadPlan(None, None, 0)),
        (ListOptions(resource_version="50", limit=3), ReadPlan(50, None, 3)),
        (
            ListOptions(resource_version="50", limit=3, resource_version_match="NotOlderThan"),
            ReadPlan(None, None, 3),
        ),
        (ListOptions(resource_version="50", resource_version_match="Exact"), ReadPlan(50, None, 0)),
        (ListOptions(resource_version="40", resource_version_match="Exact"), ReadPlan(40, None, 0)),
        (ListOptions(limit=2, continue_token=continue_token(60, ("a", "x"))), ReadPlan(60, ("a", "x"), 2)),
    ],
)
def test_which_version_a_list_reads_W_01(options: ListOptions, expected: ReadPlan) -> None:
    assert plan(options) == expected


@pytest.mark.parametrize(
    ("options", "status", "reason"),
    [
        (ListOptions(resource_version_match="Exact"), 422, "Invalid"),
        (ListOptions(resource_version="0", resource_version_match="Exact"), 422, "Invalid"),
        (ListOptions(resource_version="5", resource_version_match="Newest"), 422, "Invalid"),
        (ListOptions(send_initial_events=True), 422, "Invalid"),
        (ListOptions(resource_version="abc"), 400, "BadRequest"),
        (ListOptions(resource_version="-1"), 400, "BadRequest"),
        (ListOptions(resource_version="101"), 504, "Timeout"),
        (ListOptions(resource_version="39", resource_version_match="Exact"), 410, "Expired"),
        (ListOptions(continue_token="nonsense"), 400, "BadRequest"),
        (ListOptions(continue_token="é"), 400, "BadRequest"),
        (
            ListOptions(continue_token=continue_token(60, ("a", "x")), resource_version="60"),
            400,
            "BadRequest",
        ),
    ],
)
def test_what_a_list_refuses_W_02_W_03_W_04_W_06(options: ListOptions, status: int, reason: str) -> None:
    with pytest.raises(ApiFailure) as caught:
        plan(options)
    assert (caught.value.status, caught.value.reason) == (status, reason)


def test_a_list_from_the_future_says_when_to_come_back_W_03() -> None:
    with pytest.raises(ApiFailure) as caught:
        plan(ListOptions(resource_version="101"))
    assert caught.value.retry_after == 1
    assert [cause.reason for cause in caught.value.causes] == ["ResourceVersionTooLarge"]


def test_an_expired_token_offers_an_inconsistent_way_on_W_05() -> None:
    with pytest.raises(ApiFailure) as caught:
        plan(ListOptions(continue_token=continue_token(39, ("a", "x")), limit=7))
    assert caught.value.status == 410
    assert plan(ListOptions(continue_token=caught.value.continue_token, limit=7)) == ReadPlan(None, ("a", "x"), 7)


def test_where_a_watch_starts_W_10() -> None:
    assert watch_version(EVERYTHING) is None
    assert watch_version(ListOptions(resource_version="0")) is None
    assert watch_version(ListOptions(resource_version="7")) == 7


def test_a_watch_from_nonsense_is_500_where_a_list_is_400_W_02() -> None:
    with pytest.raises(ApiFailure) as caught:
        watch_version(ListOptions(resource_version="abc"))
    assert (caught.value.status, caught.value.reason) == (500, "")


@pytest.mark.parametrize(
    "options",
    [
        ListOptions(resource_version="1", resource_version_match="NotOlderThan"),
        ListOptions(send_initial_events=True),
        ListOptions(send_initial_events=False, resource_version_match="Exact"),
    ],
)
def test_what_a_watch_refuses_W_12(options: ListOptions) -> None:
    with pytest.raises(ApiFailure) as caught:
        check_watch_options(options)
    assert caught.value.status == 422


def test_initial_events_may_be_asked_for_W_12() -> None:
    check_watch_options(ListOptions(send_initial_events=True, resource_version_match="NotOlderThan"))


def test_all_wrong_options_of_a_list_are_told_W_02() -> None:
    with pytest.raises(ApiFailure) as caught:
        plan(ListOptions(resource_version_match="Newest", continue_token="t", send_initial_events=True))
    assert [(cause.field, cause.reason) for cause in caught.value.causes] == [
        ("resourceVersionMatch", "FieldValueForbidden"),
        ("resourceVersionMatch", "FieldValueForbidden"),
        ("resourceVersionMatch", "FieldValueNotSupported"),
        ("sendInitialEvents", "FieldValueForbidden"),
    ]


def test_all_wrong_options_of_a_watch_are_told_W_12() -> None:
    with pytest.raises(ApiFailure) as caught:
        check_watch_options(ListOptions(resource_version_match="Exact", continue_token="t"))
    assert [cause.reason for cause in caught.value.causes] == [
        "FieldValueForbidden",
        "FieldValueNotSupported",
        "FieldValueForbidden",
    ]


def test_a_negative_limit_is_no_limit() -> None:
    assert list_options({"limit": "-1"}).limit == 0
