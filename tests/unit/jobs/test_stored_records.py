"""PULL-4: the Secrets of the job store, field by field, and what is said of one that cannot be read."""

import base64
import json
from typing import Any

import pytest

from purekube.apimachinery.errors import Invalid
from vworkspace_core.jobs.job_store import JobRecord
from vworkspace_core.jobs.store.codec import (
    CorruptSecret,
    ForeignSecret,
    Head,
    PayloadChunk,
    corrupt_record,
    first_line,
    head_manifest,
    head_name,
    later_format,
    part_manifests,
    payload_of,
    read_record,
    record_of,
    role_of,
    secret_manifest,
    value_of,
)

ROLE, ID = "vworkspace.io/job-store", "vworkspace.io/job-id"
JOB = JobRecord("job-1", {"id": "job-1", "n": 1}, {"verdict": None})


def stored(value: Any, **meta: Any) -> dict[str, Any]:
    """The head of job-1 with this JSON, as a server sends it."""
    secret = head_manifest("ns", JOB, payload_of(JOB), 7)
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return {
        **secret,
        "metadata": {**secret["metadata"], "uid": "uid-of-the-head", "resourceVersion": "12", **meta},
        "data": {"record": base64.b64encode(data).decode()},
    }


@pytest.mark.parametrize("value", [{}, {"v": None}, {"v": 0}, {"v": -1}, {"v": "1"}, {"v": 1.5}, [], None, "v"])
def test_a_value_without_a_known_format_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^it does not say in which format it is$"):
        later_format(value)


def test_only_a_later_format_is_told() -> None:
    assert later_format({"v": 1}) is None
    assert later_format({"v": 2}) == "it has format 2, this version reads 1"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError(""), "ValueError"),
        (KeyError(), "KeyError"),
        (ValueError("x" * 200), "x" * 200),
        (ValueError("x" * 200 + "y"), "x" * 200),
    ],
)
def test_an_error_is_told_in_one_line(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_a_secret_of_the_store_has_one_value_under_its_role() -> None:
    secret = secret_manifest("ns", "a", "part", b"\xff\x00")

    assert secret == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a", "namespace": "ns", "labels": {ROLE: "part"}},
        "type": "vworkspace.io/job",
        "data": {"part": "/wA="},
    }
    assert (role_of(secret), value_of(secret, "part")) == ("part", b"\xff\x00")
    assert role_of({**secret, "type": "Opaque"}) == ""
    assert role_of({**secret, "metadata": {"labels": {ROLE: 3}}}) == ""
    assert role_of({**secret, "metadata": {}}) == ""
    for data in ({}, {"part": None}, {"part": 3}):
        with pytest.raises(ValueError, match=r"^it has no data\.part$"):
            value_of({**secret, "data": data}, "part")
    for text in ("/wA", "/w A="):
        with pytest.raises(ValueError, match=r"base64|padding"):
            value_of({**secret, "data": {"part": text}}, "part")


def test_the_head_of_a_record_has_the_payload_or_the_names_of_its_parts() -> None:
    whole, split = payload_of(JOB), payload_of(JOB, room=12)
    head = head_manifest("ns", JOB, whole, 7)

    assert head["metadata"] == {
        "name": head_name("job-1"),
        "namespace": "ns",
        "labels": {ROLE: "record"},
        "annotations": {ID: "job-1"},
    }
    assert json.loads(value_of(head, "record")) == {
        "v": 1,
        "order": 7,
        "state": JOB.state,
        "digest": whole.digest,
        "raw": JOB.raw,
    }
    begun = head_manifest("ns", JOB, split, 8, whole=False)
    assert json.loads(value_of(begun, "record")) == {
        "v": 1,
        "order": 8,
        "state": JOB.state,
        "digest": split.digest,
        "parts": [],
        "whole": False,
    }
    done = json.loads(value_of(head_manifest("ns", JOB, split, 8, parts=("a", "b")), "record"))
    assert (done["parts"], done["whole"]) == (["a", "b"], True)


def test_a_name_of_a_head_is_a_hash_of_the_id() -> None:
    assert head_name("job-1") == "vworkspace-job-026ab639c21df8aa80e5789370a9db1b8b524b77"
    assert head_name("Ä/b c") != head_name("job-1")


def test_each_chunk_has_a_secret_that_the_head_owns() -> None:
    payload = payload_of(JOB, room=12)
    head = Head("job-1", "h", "0123456789", "1", 7, {})
    parts = part_manifests("ns", head, payload)

    owner = {"apiVersion": "v1", "kind": "Secret", "name": "h", "uid": "0123456789"}
    names = [f"h-01234567-{payload.digest[:8]}-{at}" for at in (0, 1)]
    assert [part["metadata"] for part in parts] == [
        {"name": name, "namespace": "ns", "labels": {ROLE: "part"}, "ownerReferences": [owner]} for name in names
    ]
    assert [value_of(part, "part") for part in parts] == list(payload.chunks)
    assert [read_record(part) for part in parts] == [
        PayloadChunk(name, chunk) for name, chunk in zip(names, payload.chunks, strict=True)
    ]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"v": 1, "state": {}, "digest": ""}, "order, state or digest is missing"),
        ({"v": 1, "order": 1, "digest": ""}, "order, state or digest is missing"),
        ({"v": 1, "order": 1, "state": {}}, "order, state or digest is missing"),
        ({"v": 1, "order": 1, "state": {}, "digest": ""}, "it has neither a job nor parts of one"),
        ({"v": 1, "order": 1, "state": {}, "digest": "", "parts": ["a", 1]}, "it has neither a job nor parts of one"),
        ({"order": 1, "state": {}, "digest": "", "raw": {}}, "it does not say in which format it is"),
        ({"v": 0, "order": 1, "state": {}, "digest": "", "raw": {}}, "it does not say in which format it is"),
    ],
)
def test_a_head_that_lacks_something_is_corrupt_and_says_what(value: Any, why: str) -> None:
    found = read_record(stored(value))

    assert found == CorruptSecret(head_name("job-1"), why, "job-1", "uid-of-the-head", "12")


def test_a_head_is_read_whole_or_in_parts() -> None:
    name, where = head_name("job-1"), ("uid-of-the-head", "12")
    value = {"v": 1, "order": 3, "state": {"a": 1}, "digest": "d"}

    assert read_record(stored({**value, "raw": {"id": "x"}})) == Head(
        "job-1", name, *where, 3, {"a": 1}, {"id": "x"}, (), "d", True
    )
    for whole, is_whole in ((True, True), (False, False), (1, False), (None, False)):
        assert read_record(stored({**value, "parts": ["p", "q"], "whole": whole})) == Head(
            "job-1", name, *where, 3, {"a": 1}, None, ("p", "q"), "d", is_whole
        )
    assert read_record(stored({**value, "parts": []})) == Head("job-1", name, *where, 3, {"a": 1}, None, (), "d", False)


def test_a_head_of_a_later_format_or_of_another_job_is_told_from_a_damaged_one() -> None:
    name = head_name("job-1")
    good = {"v": 1, "order": 3, "state": {}, "digest": "d", "raw": {}}

    assert read_record(stored({"v": 2})) == ForeignSecret(name, "it has format 2, this version reads 1")
    for annotations in ({}, {ID: "job-2"}, {ID: 3}):
        found = read_record(stored(good, annotations=annotations))
        assert found == CorruptSecret(name, f"its annotation {ID} does not fit its name", "", "uid-of-the-head", "12")
    bare = stored({}, annotations={ID: "job-1"})
    for field in ("uid", "resourceVersion"):
        del bare["metadata"][field]
    assert read_record(bare) == CorruptSecret(name, "it does not say in which format it is", "job-1", "", "")


@pytest.mark.parametrize(
    ("kind", "shown"), [("Opaque", "Opaque"), ("x" * 64, "x" * 64), ("x" * 65, "x" * 64), (None, "None")]
)
def test_a_secret_of_another_type_is_foreign(kind: str | None, shown: str) -> None:
    secret = {**stored({}), "type": kind}

    assert read_record(secret) == ForeignSecret(head_name("job-1"), f"it is no job record: its type is {shown}")


def test_a_role_that_no_record_has_is_foreign_and_a_part_without_content_corrupt() -> None:
    other, part = secret_manifest("ns", "a", "tombstones", b""), secret_manifest("ns", "p", "part", b"")

    assert read_record(other) == ForeignSecret("a", "it is no job record: its type is vworkspace.io/job")
    assert read_record({**part, "data": {}}) == CorruptSecret("p", "it has no data.part")


def test_a_record_is_put_together_from_the_parts_in_the_order_of_the_head() -> None:
    payload = payload_of(JOB, room=12)
    head = Head("job-1", "h", "u", "9", 7, JOB.state, None, ("p0", "p1"), payload.digest)
    parts = dict(zip(("p0", "p1"), payload.chunks, strict=True))

    def damaged(why: str) -> CorruptSecret:
        return CorruptSecret("h", why, "job-1", "u", "9")

    assert record_of(head, dict(reversed(parts.items()))) == JOB
    assert record_of(head, {"p1": parts["p1"]}) == damaged("Secret p0 is missing")
    assert record_of(head, {"p0": parts["p0"]}) == damaged("Secret p1 is missing")
    assert record_of(head, {}) == damaged("Secret p0 is missing")
    assert record_of(head, {**parts, "p1": b"x"}) == damaged("its parts do not fit together")
    assert record_of(Head("job-1", "h", "u", "9", 7, JOB.state, JOB.raw), {}) == JOB


def test_a_damaged_record_becomes_a_job_that_failed() -> None:
    why = "RecordDamaged: Secret h cannot be read (why): whether the job had its effect is not known; ask again"

    assert corrupt_record(CorruptSecret("h", "why", "job-1")) == JobRecord(
        "job-1", {"id": "job-1"}, {"verdict": {"outcome": "failed", "error": why}}
    )


def test_a_payload_is_cut_where_the_room_ends() -> None:
    """The state is in the head, beside a payload that fits, so that both share its room."""
    content = b'{"id":"job-1","n":1}'
    both = len(content) + len(b'{"verdict":null}')

    assert payload_of(JOB, room=both).chunks == [content]
    assert not payload_of(JOB, room=both).is_split
    split = payload_of(JOB, room=both - 1)
    assert (split.chunks, split.is_split) == ([content], True)
    assert payload_of(JOB, room=len(content) - 1).chunks == [content[:-1], content[-1:]]
    with pytest.raises(Invalid, match=f"^the record of job job-1 has {both} bytes, at most {both - 1} can be kept$"):
        payload_of(JOB, longest=both - 1)
