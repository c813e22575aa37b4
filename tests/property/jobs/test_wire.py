"""Jobs on the wire: what can be read, and what is wrong with the rest (PULL-1, PULL-7)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.timestamps import format_time, parse_time
from tests.support.jobs import delete_payload, instance, job, operation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.control_plane.outbox import generation_in
from vworkspace_core.control_plane.untrusted_json import DEEPEST, flaws
from vworkspace_core.jobs.wire import (
    ApplyRequest,
    BadJob,
    DeleteRequest,
    Job,
    RotateRequest,
    job_id_of,
    parse_job,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from(["id", "kind", "payload", "idempotencyKey", "createdAt", "expiresAt", "intent", "metadata"])


def problems_of(raw: Any) -> dict[str, str]:
    bad = parse_job(raw)
    assert isinstance(bad, BadJob), bad
    return {problem.path: problem.message for problem in bad.problems}


def test_an_apply_job_is_read_whole() -> None:
    found = parse_job(job())

    assert found == Job(
        "job-1",
        ApplyRequest(instance(), "payload"),
        "ApplicationInstance/org-myteam/nextcloud-myteam@1",
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("payload", "request_"),
    [
        (
            {"intent": "ensure-application-instance", "applicationInstance": instance()},
            ApplyRequest(instance(), "payload.applicationInstance", "ApplicationInstance"),
        ),
        (
            {"intent": "request-operation", "operation": operation()},
            ApplyRequest(operation(), "payload.operation", "Operation"),
        ),
        (
            {"intent": "delete-application-instance", "name": "a", "namespace": "b"},
            DeleteRequest("apps.vworkspace.io/v1alpha1", "ApplicationInstance", "b", "a"),
        ),
        ({"intent": "rotate-operator-credentials"}, RotateRequest()),
    ],
)
def test_every_intent_of_PULL_1_is_read(payload: Any, request_: Any) -> None:
    found = parse_job(job(kind="intent", payload=payload))

    assert isinstance(found, Job)
    assert found.request == request_


def test_a_delete_job_is_read() -> None:
    found = parse_job(job(kind="delete", payload=delete_payload()))

    assert isinstance(found, Job)
    assert found.request == DeleteRequest(
        "apps.vworkspace.io/v1alpha1", "ApplicationInstance", "org-myteam", "nextcloud-myteam"
    )


def test_unknown_fields_are_ignored() -> None:
    assert parse_job(job(traceId="x", nested={"a": [1]})) == parse_job(job())


def test_all_problems_are_named_at_once_with_their_paths() -> None:
    problems = problems_of({"id": "j", "kind": "delete", "payload": {"name": 5, "kind": ""}, "expiresAt": "tomorrow"})

    assert problems == {
        "createdAt": "is required",
        "expiresAt": "must be an RFC 3339 time such as 2026-01-31T12:00:00Z, not 'tomorrow'",
        "idempotencyKey": "is required",
        "payload.apiVersion": "is required",
        "payload.kind": "is required",
        "payload.name": "must be a string, not a number",
        "payload.namespace": "is required",
    }


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (job(kind="upgrade"), "kind"),
        (job(kind="intent", payload={"intent": "sing"}), "payload.intent"),
        (job(kind="intent", payload={"intent": "request-operation"}), "payload.operation"),
        (job(payload=[1]), "payload"),
        (job(payload="text"), "payload"),
        (job(expires="2026-01-01T00:00:00"), "expiresAt"),
        (job(expires="9999-12-31T23:59:59-14:00"), "expiresAt"),
        (job(key="a\x00b"), "idempotencyKey"),
        (job(key="k" * 1025), "idempotencyKey"),
        ({name: value for name, value in job().items() if name != "payload"}, "payload"),
    ],
)
def test_a_bad_job_with_an_id_names_the_path(raw: Any, path: str) -> None:
    bad = parse_job(raw)

    assert isinstance(bad, BadJob)
    assert bad.id == "job-1"
    assert path in {problem.path for problem in bad.problems}


@pytest.mark.parametrize("raw", [None, 5, "job", [job()], {}, job(job_id=None), job(job_id=""), job(job_id=True)])
def test_a_job_that_nobody_could_answer_has_no_id(raw: Any) -> None:
    bad = parse_job(raw)

    assert isinstance(bad, BadJob)
    assert bad.id == ""
    assert bad.problems


@pytest.mark.parametrize("job_id", [None, "", True])
def test_a_job_without_an_id_is_told_which_field_is_wrong(job_id: Any) -> None:
    message = "must be a non-empty string of at most 512 printable characters, or an integer"
    assert problems_of(job(job_id=job_id)) == {"id": message}


@pytest.mark.parametrize(
    ("found", "usable"),
    [
        *((42, "42"), ("a/b c", "a/b c"), (".", ""), ("..", ""), ("a\nb", ""), ("x" * 513, "")),
        *(((1 << 128) - 1, str((1 << 128) - 1)), (1 << 128, ""), (1 << 20_000, "")),
    ],
    ids=["row number", "text", "dot", "dots", "line break", "too long", "most digits", "more", "too many digits"],
)
def test_ids_that_a_path_cannot_carry_are_no_ids(found: Any, usable: str) -> None:
    assert job_id_of({"id": found}) == usable


@pytest.mark.parametrize("item", [{}, []])
@pytest.mark.parametrize(("levels", "is_flawed"), [(DEEPEST - 1, False), (DEEPEST, False), (DEEPEST + 1, True)])
def test_a_value_may_have_just_as_many_levels_as_are_named(item: Any, levels: int, is_flawed: bool) -> None:
    deep: Any = item
    for _ in range(levels - 1):
        deep = [deep]

    assert bool(flaws(deep)) is is_flawed


def test_an_absurdly_nested_payload_is_refused_with_its_path() -> None:
    deep: Any = "leaf"
    for _ in range(100_000):
        deep = {"a": deep}

    problems = problems_of(job(payload={"spec": deep}))

    assert list(problems) == ["payload.spec.a.a.a.a.a.a.a.a.a.a"]
    assert problems["payload.spec.a.a.a.a.a.a.a.a.a.a"] == f"is nested more than {DEEPEST} levels deep"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "is not a finite number"),
        (float("inf"), "is not a finite number"),
        (2**64, "is an integer of more than 64 bits"),
        ("\ud800", "is not text: it has half of a surrogate pair"),
        (object(), "is not JSON: object"),
    ],
)
def test_what_no_JSON_reader_need_accept_is_refused_with_its_path(value: Any, message: str) -> None:
    assert problems_of(job(payload={"spec": [{"x": value}]})) == {"payload.spec[0].x": message}


def test_names_that_are_no_text_are_refused() -> None:
    assert [str(problem) for problem in flaws({"a": {"\udc00": 1}})] == ["a: has a name that is not text"]


@given(json_values | st.dictionaries(fields, json_values))
@example({"id": 0, "kind": [], "payload": {"intent": {}}})
def test_parsing_never_raises_and_answers_what_has_an_id(raw: Any) -> None:
    found = parse_job(raw)

    assert found.id == job_id_of(raw)
    if isinstance(found, BadJob):
        assert found.problems


@given(st.dictionaries(fields, json_values), st.sampled_from(["apply", "delete", "intent"]))
def test_a_damaged_job_is_refused_or_says_what_the_undamaged_one_said(damage: dict[str, Any], kind: str) -> None:
    found = parse_job({**job(kind=kind, payload=delete_payload()), **damage})

    assert isinstance(found, Job | BadJob)


@given(st.datetimes(timezones=st.just(UTC)))
@example(datetime(999, 1, 1, tzinfo=UTC))
def test_times_survive_the_wire_in_whole_seconds(instant: datetime) -> None:
    assert parse_time(format_time(instant)) == instant.replace(microsecond=0)


@pytest.mark.parametrize(
    ("key", "generation"),
    [
        ("ApplicationInstance/org/app@7", 7),
        ("applicationinstance/org/app@7", 7),
        ("ApplicationInstance/org/other@7", None),
        ("ApplicationInstance/org/app@0", None),
        ("ApplicationInstance/org/app@-1", None),
        ("ApplicationInstance/org/app@\u0667", None),
        ("ApplicationInstance/org/app@" + "9" * 19, None),
        ("ApplicationInstance/org/app", None),
        ("sha256:0a1b", None),
    ],
)
def test_a_key_gives_a_generation_for_its_own_object_only(key: str, generation: int | None) -> None:
    assert generation_in(key, ObjectRef(APPLICATION_INSTANCE, "org", "app")) == generation


@pytest.mark.parametrize(("given_", "kept"), [("00-a-b-01", "00-a-b-01"), (None, ""), (3, ""), (["x"], "")])
def test_the_trace_of_the_control_plane_goes_on_where_it_is_a_text(given_: Any, kept: str) -> None:
    found = parse_job(job(traceparent=given_))
    assert isinstance(found, Job)
    assert found.traceparent == kept


@pytest.mark.parametrize(
    ("value", "is_flaw"),
    [
        (2**64 - 1, False),
        (2**64, True),
        (-(2**63), False),
        (-(2**63) - 1, True),
        (1.5, False),
        (float("inf"), True),
        (float("nan"), True),
        ("é", False),
        ("\ud800", True),
        (True, False),
        (None, False),
        ((), False),
        (b"x", True),
        ({1: "x"}, True),
        ({"\udfff": 1}, True),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_what_some_parsers_of_json_refuse_is_a_flaw_at_its_place_PULL_7(
    value: Any, is_flaw: bool, inside: bool
) -> None:
    found = flaws({"a": [0, value]} if inside else value)
    assert bool(found) is is_flaw
    assert not inside or [problem.path for problem in found] == ["a[1]"] * len(found)
