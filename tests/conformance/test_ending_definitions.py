"""How a definition ends, measured on a kube-apiserver: what its objects and itself answer meanwhile (RUN-8, RUN-9).

Definitions are everybody's in a cluster, so this is no conversation in a namespace: each test has a definition of its
own.
"""

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.support.conversations import definition
from tests.support.effort import unused_name
from tests.support.plain_http import WIRES, until
from tests.support.server_thread import Answer, Wire

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOLDER = "talks.vworkspace.test/held"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


@attrs.frozen
class Ending:
    """A definition of this group, and how it and its objects are reached."""

    wire: Wire
    group: str

    @property
    def name(self) -> str:
        return f"samples.{self.group}"

    @property
    def objects(self) -> str:
        return f"/apis/{self.group}/v1/namespaces/default/samples"

    def manifest(self) -> dict[str, Any]:
        found = definition()
        return {**found, "metadata": {"name": self.name}, "spec": {**found["spec"], "group": self.group}}

    def sample(self, name: str, **meta: Any) -> dict[str, Any]:
        return {"apiVersion": f"{self.group}/v1", "kind": "Sample", "metadata": {"name": name, **meta}}

    def get(self) -> Answer:
        return self.wire.send("GET", f"{DEFINITIONS}/{self.name}")

    def create(self) -> Answer:
        return self.wire.send("POST", DEFINITIONS, self.manifest())

    def apply(self, name: str) -> Answer:
        path = f"{self.objects}/{name}?fieldManager=one"
        return self.wire.send("PATCH", path, self.sample(name), content_type="application/apply-patch+yaml")

    def free(self, name: str) -> Answer:
        patch = {"metadata": {"finalizers": None}}
        return self.wire.send("PATCH", f"{self.objects}/{name}", patch, content_type="application/merge-patch+json")

    def terminating(self) -> tuple[str, str]:
        """Status and reason of the condition."""
        conditions = self.get().json["status"]["conditions"]
        found = [
            (condition["status"], condition["reason"]) for condition in conditions if condition["type"] == "Terminating"
        ]
        return found[0] if found else ("", "")


@pytest.fixture(params=WIRES)
def held(request: pytest.FixtureRequest) -> Iterator[Ending]:
    """A definition whose only object, `held`, has a finalizer, and whose deletion has been asked for."""
    with request.param() as wire:
        ending = Ending(wire, f"{unused_name('x')}.vworkspace.test")
        assert ending.create().status == 201
        until(lambda: wire.send("GET", ending.objects).status == 200)
        assert "finalizers" not in ending.get().json["metadata"]
        assert wire.send("POST", ending.objects, ending.sample("held", finalizers=[HOLDER])).status == 201
        answer = wire.send("DELETE", f"{DEFINITIONS}/{ending.name}")
        assert (answer.status, answer.json["metadata"]["finalizers"]) == (200, [CLEANUP])
        try:
            yield ending
        finally:
            ending.free("held")
            wire.send("DELETE", f"{DEFINITIONS}/{ending.name}")


def test_it_goes_when_its_last_object_has_gone(held: Ending) -> None:
    until(lambda: held.terminating() == ("True", "InstanceDeletionInProgress"))
    meta = held.get().json["metadata"]
    assert (meta["generation"], meta["finalizers"]) == (1, [CLEANUP])
    until(lambda: "deletionTimestamp" in held.wire.send("GET", f"{held.objects}/held").json["metadata"])

    assert held.free("held").status == 200

    until(lambda: held.get().status == 404)
    until(lambda: held.wire.send("GET", held.objects).raw == b"404 page not found\n")
    assert held.create().status == 201


def test_meanwhile_nothing_new_comes_and_what_is_there_can_be_written(held: Ending) -> None:
    until(lambda: held.terminating()[0] == "True")
    until(lambda: held.apply("probe").status == 403)
    posted = held.wire.send("POST", held.objects, held.sample("new"))

    for name, refused in (("new", posted), ("other", held.apply("other"))):
        why = "create not allowed while custom resource definition is terminating"
        assert refused.json["message"] == f'{held.name} "{name}" is forbidden: {why}'
        assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
        assert refused.json["details"] == {"name": name, "group": held.group, "kind": "samples"}
    assert held.apply("held").status == 200


def test_until_then_another_of_its_name_is_refused(held: Ending) -> None:
    refused = held.create()

    assert (refused.status, refused.json["reason"]) == (409, "AlreadyExists")
    assert refused.json["message"].startswith("object is being deleted: customresourcedefinitions.")
