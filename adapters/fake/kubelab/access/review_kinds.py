"""The review kinds: requests about what a user may do, which are answered instead of stored."""

from typing import Final

from kubelab.model.behaviour import Behaviour, Generation
from kubelab.model.definition import ServedKind
from kubelab.model.records import GroupResource
from kubelab.model.resources import ServedResource, resource_of
from purekube.apimachinery.manifest import Kind
from purekube.schema.node import ANYTHING

_OPENAPI: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_KINDS: Final = (
    Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False),
    Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False),
    Kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False),
    Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False),
)
REVIEWS: Final[frozenset[GroupResource]] = frozenset((kind.group, kind.plural) for kind in _KINDS)
"""The review resources: a POST to them is answered, and nothing is stored."""

OPEN_REVIEWS: Final = REVIEWS - {("authorization.k8s.io", "subjectaccessreviews")}
"""Reviews of the caller itself, open to every caller as by the ClusterRole `system:basic-user`.

Reviews of others need a right.
"""


def review_resources() -> tuple[ServedResource, ...]:
    """Return the review kinds as resources that can only be created."""
    return tuple(resource_of(_definition(kind), verbs=("create",)) for kind in _KINDS)


def _definition(kind: Kind) -> ServedKind:
    return ServedKind(
        kind=kind,
        schema=ANYTHING,
        openapi=_OPENAPI,
        served_versions=frozenset({kind.api_version}),
        behaviour=Behaviour(generation=Generation.NEVER),
        singular=kind.kind.lower(),
        list_kind=f"{kind.kind}List",
    )
