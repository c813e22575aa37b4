"""RUN-11: bytes of others cost bounded work and memory before anybody knows what they are.

Bombs, depth without end, and lists that others fill, through every decoder. What comes after a decoder is held in
`tests/property/security/test_bounds.py`.
"""

import base64
import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubelab.flux.storage import release_secret
from kubelab.inprocess import run_sync
from purekube.apimachinery.admission_review import MalformedReview
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.nesting import decode_answer, too_deep
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import parse_yaml, read_documents
from tests.support.instance_worlds import instance_manifest
from tests.support.operation_worlds import released
from tests.support.work import MIB, calls_of, peak_of
from tests.support.worst import DEEP_IN_THE_STORE, deep_json
from vworkspace_app.webhooks.webhook_answers import _review
from vworkspace_core.operations.engines.helm_hook_job import UnreadableRelease, proved_hooks
from vworkspace_odoo.decoding import decode

pytestmark = pytest.mark.slow

MOST_CALLS = 1_500_000
MOST_BYTES = 64 * MIB
REFUSED = (ValueError, OperatorError, CommandError, UnreadableRelease, MalformedReview, msgspec.DecodeError)


def page(worst: bytes) -> bytes:
    """A list of three objects, of which the second is the worst."""
    good = msgspec.json.encode(instance_manifest())
    bad = good[:-1] + b',"data":' + worst + b"}"
    return b'{"items":[' + b",".join((good, bad, good)) + b"]}"


def review(worst: bytes) -> bytes:
    """What an API server, or anybody who reaches the port, may post."""
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    request = {"uid": "u", "operation": "CREATE", "namespace": "n", "name": "n"}
    text = msgspec.json.encode({**body, "request": {**request, "object": "@"}})
    return text.replace(b'"@"', b'{"data":' + worst + b"}")


def helm(document: bytes) -> dict[str, Any]:
    """A release Secret that holds this."""
    secret = release_secret(released(), "org-myteam")
    packed = base64.b64encode(gzip.compress(document))
    return {**secret, "data": {"release": base64.b64encode(packed).decode()}}


def aliases(levels: int) -> str:
    """YAML that means nine times as much with every line."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


BODIES: dict[str, Callable[[], bytes]] = {
    "objects without end": lambda: deep_json(DEEP_IN_THE_STORE, b'{"a":', b"}"),
    "lists without end": lambda: deep_json(DEEP_IN_THE_STORE, b"[", b"]"),
    "lists that nobody closes": lambda: b"[" * 1_000_000,
    "small objects": lambda: b"[" + b",".join([b"{}"] * 100_000) + b"]",
    "small lists": lambda: b"[" + b",".join([b"[]"] * 100_000) + b"]",
    "keys": lambda: msgspec.json.encode({str(n): n for n in range(100_000)}),
    "a long text": lambda: b'"' + b"a" * 1_400_000 + b'"',
    "a text of escapes": lambda: b'"' + b"\\u0061" * 230_000 + b'"',
    "a text of backslashes that does not end": lambda: b'"' + b"\\" * 1_400_000,
    "a long number": lambda: b"1" * 1_400_000,
    "a number with an exponent": lambda: b"1e" + b"9" * 1_000,
}


def read_by_informer(raw: bytes) -> Any:
    return decode_answer(page(raw), "items")


def read_by_webhook(raw: bytes) -> Any:
    async def rest() -> None: ...

    return run_sync(_review(review(raw), rest))


def read_by_agent(raw: bytes) -> Any:
    return decode(b'{"jobs":[' + raw + b"]}", "jobs")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("read", [read_by_informer, read_by_webhook, read_by_agent])
def test_a_body_costs_bounded_work_and_memory(read: Callable[[bytes], Any], body: str) -> None:
    raw = BODIES[body]()

    def attempt() -> None:
        with suppress(*REFUSED):
            read(raw)

    calls_of(attempt, MOST_CALLS)
    assert peak_of(attempt) <= MOST_BYTES


@pytest.mark.parametrize("body", ["objects without end", "lists without end"])
def test_an_object_without_end_leaves_its_neighbours_alone(body: str) -> None:
    items = read_by_informer(BODIES[body]())["items"]

    assert [bool(too_deep(item)) for item in items] == [False, True, False]
    assert items[0] == items[2] == instance_manifest()


DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "a bomb": lambda: b'{"manifest":"' + b"a" * 100 * MIB + b'"}',
    "lists without end": lambda: b"[" * MIB,
    "hooks": lambda: b'{"hooks":[' + b"{}," * 100_000 + b"{}]}",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_release_of_helm_costs_bounded_work_and_memory(name: str) -> None:
    secret = helm(DOCUMENTS[name]())

    def attempt() -> None:
        with suppress(*REFUSED):
            proved_hooks(secret, {"digest": "sha256:0"})

    calls_of(attempt, MOST_CALLS)
    assert peak_of(attempt) <= MOST_BYTES


MANIFESTS: dict[str, Callable[[], str]] = {
    "aliases": lambda: aliases(10),
    "lists without end": lambda: "[" * 200_000,
    "indentation without end": lambda: "\n".join(" " * n + "a:" for n in range(2_000)),
    "values": lambda: "a: [" + "1, " * 85_000 + "1]",
    "anchors": lambda: "\n".join(f"a{n}: &a{n} 1" for n in range(20_000)),
    "a long text": lambda: "a: " + "x" * 262_000,
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_of_a_hook_costs_bounded_work_and_memory(name: str) -> None:
    text = MANIFESTS[name]()

    def attempt() -> None:
        with suppress(ValueError):
            parse_yaml(text)

    calls_of(attempt, MOST_CALLS)
    assert peak_of(attempt) <= MOST_BYTES


@pytest.mark.parametrize("name", ["aliases", "lists without end"])
def test_a_bomb_given_to_plan_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(MANIFESTS[name](), encoding="utf-8")

    def attempt() -> None:
        with pytest.raises(CommandError):
            read_documents([str(file)])

    calls_of(attempt, MOST_CALLS)
    assert peak_of(attempt) <= MOST_BYTES


def test_json_is_not_read_by_recursion_of_ours() -> None:
    """The control: what these bodies do to a reader without a bound."""
    with pytest.raises(RecursionError):
        json.loads(BODIES["objects without end"]())
