"""A box with computed values, and clusters in which its webhook or its policy fills them in (PH-10)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from kubelab.model.calls import RequestTarget
from kubelab.model.failure import ApiFailure
from kubelab.server import ApiServer
from kubelab.writes.writer import AdmissionPlugin
from purekube.apimachinery.admission_review import patched, read_review, refused
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.boxes.box import Box
from purekube.boxes.webhooks.admission_policy import policy_of
from purekube.boxes.webhooks.kind_webhooks import BoxAdmission
from tests.support.boxes import box_of, config, crd

LABEL: Final = "self.metadata.?labels"
VALUES: Final[Mapping[str, Any]] = {
    "spec.host": "${self.metadata.name + '.x' // for all\n}",
    "spec.free.deep.name": {
        "a": f"${{{LABEL}[?'a']}}",
        "b": 3,
        "k-${self.metadata.name}": [f"${{{LABEL}[?'a']}}", '$${i}-${self.spec.image}-"\\é', 1.5, True, None, -1],
    },
    "spec.free.deep.other": f"${{{LABEL}[?'b']}}",
    "spec.free.more": "${self.spec.?host.orValue('unset')}",
    "spec.ratio": f"${{{LABEL}[?'n'].optMap(n, double(n))}}",
    "spec.port": "${size(self.spec.parts) + self.spec.replicas}",
}
"""Values that end in a comment, lack a value, have several types, need parents, read each other, read a default."""
Outcome = tuple[int, Any]


def filling(values: Mapping[str, Any], group: str = "example.com") -> Box:
    """A box that fills in these fields, whose kind is Shop of this group."""
    kind = {**crd(group=group), "metadata": {"name": f"shops.{group}"}}
    return box_of(config("settings"), kind=kind, mutation=[{"field": at, "value": one} for at, one in values.items()])


@attrs.frozen
class Shops:
    """A cluster in memory that serves the box's kind, and nothing that fills in values."""

    box: Box
    server: ApiServer = attrs.field(factory=lambda: ApiServer(now=lambda: datetime(2026, 1, 1, tzinfo=UTC)))

    def __attrs_post_init__(self) -> None:
        self._create(CUSTOM_RESOURCE_DEFINITION, self.box.crd)

    def _create(self, kind: Kind, manifest: Manifest) -> None:
        self.server.create(RequestTarget(self.server.resource(kind)), manifest)

    def with_policy(self) -> "Shops":
        """The API server fills in the values."""
        for kind, manifest in policy_of(self.box).items():
            self._create(kind, manifest)
        return self

    def with_webhook(self) -> "Shops":
        """The box's webhook fills in the values."""
        admission = BoxAdmission.of(self.box)

        def review(body: Manifest) -> Manifest:
            request = read_review(body)
            assert request.written is not None
            patch, problems = admission.patch(request.written)
            return refused(request, problems) if problems else patched(request, patch)

        self.server.plugins.append(AdmissionPlugin("box", self.box.kind, review))
        return self

    def outcome(self, *written: Manifest) -> Sequence[Outcome]:
        """The status and the spec for each of several writes of one object; the status is 0 for any refusal."""
        target = RequestTarget(self.server.resource(self.box.kind), "default")
        found: list[Outcome] = []
        version = ""
        for manifest in written:
            meta = {**manifest["metadata"], **({"resourceVersion": version} if version else {})}
            one, body = attrs.evolve(target, name=meta["name"]), {**manifest, "metadata": meta}
            try:
                reply = self.server.update(one, body) if version else self.server.create(target, body)
            except ApiFailure as failure:
                found.append((0 if failure.status in (403, 422) else failure.status, None))
            else:
                version = reply.object()["metadata"]["resourceVersion"]
                found.append((reply.status, reply.object().get("spec")))
        return found


def shop(box: Box, spec: Any, labels: Mapping[str, str]) -> dict[str, Any]:
    """An object of the box's kind as somebody writes it."""
    return {**box.kind.manifest("shop", "default"), "metadata": {"name": "shop", "labels": labels}, "spec": spec}
