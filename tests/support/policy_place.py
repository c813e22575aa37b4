"""A namespace in which admission policies are tried on ConfigMaps, on either server (RUN-8, PH-10)."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind
from tests.support.effort import unused_name
from tests.support.patience import PATIENCE
from tests.support.server_thread import Answer, Wire

GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
MAPS: Final = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}


@attrs.frozen
class PolicyPlace:
    """A namespace of the test's own, and what the test has made outside it. A case names a policy and its objects."""

    wire: Wire
    name: str
    made: list[str] = attrs.field(factory=list)

    def policy(self, case: str) -> str:
        return f"{self.name}-{case}"

    def create(self, kind: Kind, manifest: Mapping[str, Any]) -> Answer:
        """Create a cluster-scoped object, which goes with the place."""
        path = f"/apis/{kind.group}/{kind.version}/{kind.plural}"
        answer = self.wire.send("POST", path, manifest)
        self.made.append(f"{path}/{manifest['metadata']['name']}")
        return answer

    def bind(self, case: str, kinds: tuple[Kind, Kind], spec: Mapping[str, Any], binding: Mapping[str, Any]) -> None:
        """Create a policy on ConfigMaps of this namespace with a label of the case's name, and its binding."""
        selected = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}}}
        chosen = {**selected, "objectSelector": {"matchLabels": {"case": case}}, "resourceRules": [MAPS]}
        specs = ({"matchConstraints": chosen, **spec}, {"policyName": self.policy(case), **binding})
        for kind, one in zip(kinds, specs, strict=True):
            answer = self.create(kind, {**kind.manifest(self.policy(case)), "spec": one})
            assert answer.status == 201, answer

    def config(self, case: str, **data: str) -> Answer:
        """The answer to a dry run that creates a ConfigMap."""
        meta = {"name": case, "labels": {"case": case}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        return self.wire.send("POST", f"/api/v1/namespaces/{self.name}/configmaps?dryRun=All", body)

    def until(self, case: str, **data: str) -> Answer:
        """The answer to a ConfigMap once the case's policy is in force: it is refused, or has other data."""
        until = time.monotonic() + PATIENCE
        while (answer := self.config(case, **data)).status == 201 and answer.json["data"] == data:
            assert time.monotonic() < until, case
            time.sleep(0.1)
        return answer


@contextmanager
def policy_place(wires: Callable[[], AbstractContextManager[Wire]], prefix: str) -> Iterator[PolicyPlace]:
    """A place of its own for the block, of which nothing is left but the namespace."""
    with wires() as wire:
        name = unused_name(prefix)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert wire.send("POST", "/api/v1/namespaces", body).status == 201
        place = PolicyPlace(wire, name)
        yield place
        for path in reversed(place.made):
            wire.send("DELETE", path)
