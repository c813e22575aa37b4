"""RES-7: what a log line or a traceback shows of a value is never a body, a manifest or a token."""

import importlib
import pkgutil
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs

import vworkspace_core.control_plane
import vworkspace_core.credentials
import vworkspace_core.jobs
from tests.support.jobs import instance
from vworkspace_core.credentials.messages import Issued, RequestRegistration, UseToken, WriteSecret
from vworkspace_core.credentials.secret import StoredCredential
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.job_store import JobRecord
from vworkspace_core.jobs.machine import AgentState, step
from vworkspace_core.jobs.scope import JobScope

ROOMS = (vworkspace_core.jobs, vworkspace_core.credentials, vworkspace_core.control_plane)
BODIES = ("Manifest", "Mapping[str, Any]", "Any", "Sequence[Any]", "bytes", "list[Any]")
SECRET_NAMES = ("token", "previous", "in_use", "private_key", "decryption_key", "signing_key", "rid")
MARK = "hunter2-hunter2"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def classes() -> Iterator[type[Any]]:
    for room in ROOMS:
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and attrs.has(value) and value.__module__ == module.name:
                    yield value


def bodies(cls: type[Any]) -> list[str]:
    """The fields that may hold what others wrote."""
    attrs.resolve_types(cls)
    found = []
    for field in attrs.fields(cls):
        kind = str(field.type).replace("typing.", "").replace("collections.abc.", "")
        is_body = any(
            kind == body or kind.startswith(f"{body} |") or kind == f"Mapping[str, {body}]" for body in BODIES
        )
        if is_body or field.name in SECRET_NAMES:
            found.append(field.name)
    return found


def test_the_fields_that_hold_bodies_are_found() -> None:
    """Without this the law below might say nothing."""
    assert bodies(m.ApplyForJob) == ["manifest"]
    assert bodies(m.PostResult) == ["body"]
    assert bodies(Issued) == ["token"]


def test_no_field_with_a_body_is_in_a_repr_RES_7() -> None:
    for cls in set(classes()):
        shown = [field.name for field in attrs.fields(cls) if field.repr]
        assert not set(bodies(cls)) & set(shown), cls


def test_nothing_of_a_job_is_in_the_repr_of_its_events_effects_and_state_RES_7() -> None:
    manifest = instance(name="shop", values={"source": "inline", "inline": {"note": MARK}})
    raw = {"id": "j-1", "kind": "apply", "idempotencyKey": "k", "payload": {"intent": MARK, "instance": manifest}}
    offered = m.Offered(raw)
    state, effects = step(AgentState(JobScope("c")), offered, NOW)
    record = JobRecord("j-1", raw, {"note": MARK})
    values: list[object] = [
        offered,
        state,
        *effects,
        m.Resumed(record),
        m.PutRecord("j-1", record),
        m.PostResult("j-1", raw),
    ]
    values += [Issued(MARK), UseToken(MARK), WriteSecret(1, MARK, StoredCredential(MARK, MARK))]
    values += [RequestRegistration(1, MARK, "c")]

    assert not [value for value in values if MARK in repr(value)]
