"""PULL-4: the log of closed jobs, as values: what is known of a key, and what may be forgotten."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import canonical_json
from vworkspace_core.jobs.job_store import JobRecord, Tombstone
from vworkspace_core.jobs.store.codec import CorruptSecret, ForeignSecret, payload_of
from vworkspace_core.jobs.store.tombstones import (
    RETENTION,
    Segment,
    TombstoneEntry,
    TombstoneIndex,
    encoded,
    outdated,
    read_segment,
    segment_manifest,
    segment_name,
)

START = datetime(2026, 6, 1, tzinfo=UTC)

entries = st.lists(
    st.builds(
        lambda name, generation, outcome, uid: TombstoneEntry(
            Tombstone(f"{name}@{generation}", outcome, "u", generation, "2026-06-01T00:00:00Z"), uid
        ),
        st.sampled_from(["A/ns/a", "a/ns/A", "A/ns/b"]),
        st.integers(1, 4),
        st.sampled_from(["succeeded", "noop", "failed"]),
        st.sampled_from(["", "r1", "r2", "r3"]),
    ),
    max_size=8,
)


@given(entries, st.lists(st.integers(0, 7), max_size=8, unique=True))
def test_the_last_of_a_key_counts_and_what_is_forgotten_leaves_no_trace_PULL_4(
    added: list[TombstoneEntry], places: list[int]
) -> None:
    index = TombstoneIndex()
    index.add(added)
    last = {entry.tombstone.idempotency_key: entry.tombstone for entry in added}
    assert index.by_key == last
    assert index.closed == {entry.record_uid for entry in added if entry.record_uid}
    assert [index.counts(entry) for entry in added] == [
        last[entry.tombstone.idempotency_key] == entry.tombstone for entry in added
    ]
    of_objects: dict[str, int] = {}
    for entry in added:
        name = entry.tombstone.idempotency_key.partition("@")[0].lower()
        of_objects[name] = max(of_objects.get(name, 0), entry.tombstone.generation)
    assert {name: tombstone.generation for name, tombstone in index.newest.items()} == of_objects

    gone = [added[place] for place in places if place < len(added)]
    index.forget(gone)

    left = {key: kept for key, kept in last.items() if not any(entry.tombstone is kept for entry in gone)}
    assert index.by_key == left
    assert index.closed.isdisjoint(entry.record_uid for entry in gone)
    names = {key.partition("@")[0].lower() for key in left}
    assert names <= index.newest.keys()
    touched = {
        entry.tombstone.idempotency_key.partition("@")[0].lower()
        for entry in gone
        if last[entry.tombstone.idempotency_key] is entry.tombstone
    }
    for name in touched:
        generations = [kept.generation for key, kept in left.items() if key.partition("@")[0].lower() == name]
        found = index.newest.get(name)
        assert (None if found is None else found.generation) == max(generations, default=None)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=6), st.integers(0, 12))
def test_a_segment_goes_when_the_next_one_is_old_or_when_there_are_too_many_PULL_4(
    sizes: list[tuple[int, int]], remembered: int
) -> None:
    tombstone = TombstoneEntry(Tombstone("A/ns/a@1", "succeeded", "u", 1, ""), "")
    days, segments = 0, []
    for number, (later, size) in enumerate(sizes):
        days += later
        segments.append(Segment(number, "1", START + timedelta(days=days), [tombstone] * size))

    gone, early = outdated(segments, RETENTION, remembered)

    assert gone == segments[: len(gone)], "the oldest"
    assert len(gone) < len(segments), "never the last one"
    is_old = [segments[-1].created - after.created >= RETENTION for after in segments[1:]]
    counts = [len(segment.entries) for segment in segments]
    for at in range(len(segments) - 1):
        must_go = is_old[at] or sum(counts[at:]) > remembered
        assert (at < len(gone)) is must_go
    assert early == sum(count for count, old in zip(counts[: len(gone)], is_old, strict=False) if not old)


@given(entries, st.integers(1, 99_999_999))
def test_a_segment_is_read_as_it_was_written_PULL_4(given_entries: list[TombstoneEntry], number: int) -> None:
    secret = segment_manifest("ns", number, encoded(given_entries), "7")
    stored = {**secret, "metadata": {**secret["metadata"], "creationTimestamp": "2026-06-01T00:00:00Z"}}
    assert read_segment(stored) == Segment(number, "7", START, given_entries)
    assert read_segment(stored).name == segment_name(number) == secret["metadata"]["name"]
    assert "resourceVersion" not in segment_manifest("ns", number, b"{}")["metadata"]


def test_a_segment_that_a_later_version_wrote_is_foreign_and_says_so_PULL_4() -> None:
    secret = segment_manifest("ns", 3, json.dumps({"v": 2, "entries": []}).encode(), "7")
    assert read_segment(secret) == ForeignSecret(segment_name(3), "it has format 2, this version reads 1")


ROW: list[Any] = ["A/ns/a@1", "succeeded", "u", 1, "2026-06-01T00:00:00Z", "r"]


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("value", [None, 1.5, [], {}])
def test_an_entry_of_another_type_is_corrupt_and_breaks_nothing_PULL_4(place: int, value: Any) -> None:
    row = [*ROW[:place], value, *ROW[place + 1 :]]
    secret = segment_manifest("ns", 1, json.dumps({"v": 1, "entries": [row]}).encode(), "7")
    secret["metadata"]["creationTimestamp"] = "2026-06-01T00:00:00Z"
    assert isinstance(read_segment(secret), CorruptSecret)


@pytest.mark.parametrize("name", ["vworkspace-job-1", "vworkspace-job-tombstones-x", "vworkspace-job-tombstones-"])
def test_a_secret_of_another_name_is_none_of_ours_PULL_4(name: str) -> None:
    secret = segment_manifest("ns", 1, encoded([]))
    assert isinstance(read_segment({**secret, "metadata": {**secret["metadata"], "name": name}}), ForeignSecret)


@given(st.text("ab", max_size=40), st.integers(-2, 2), st.integers(4, 40))
def test_a_record_is_whole_or_split_or_refused_by_its_size_PULL_4(text: str, spare: int, room: int) -> None:
    record = JobRecord("j", {"text": text}, {"at": 1})
    content = canonical_json(record.raw)
    size = len(content) + len(canonical_json(record.state))
    if spare < 0:
        with pytest.raises(Invalid, match=f"job j has {size} bytes"):
            payload_of(record, size + spare, room)
        return
    payload = payload_of(record, size + spare, room)
    assert b"".join(payload.chunks) == content
    assert payload.digest == hashlib.sha256(content).hexdigest()
    assert payload.is_split is (size > room)
    assert all(0 < len(chunk) <= room for chunk in payload.chunks) or not payload.is_split
    assert payload_of(attrs.evolve(record), size, size).is_split is False
