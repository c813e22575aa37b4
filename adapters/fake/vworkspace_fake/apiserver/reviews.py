"""The reviews: requests that ask what a caller may do, and are answered instead of stored."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from vworkspace_core.manifest import Kind, dig
from vworkspace_fake.apiserver.behaviour import Behaviour, Generation
from vworkspace_fake.apiserver.calls import Caller
from vworkspace_fake.apiserver.definition import Definition
from vworkspace_fake.apiserver.resources import Resource, resource_of
from vworkspace_fake.apiserver.schema.node import ANYTHING
from vworkspace_fake.apiserver.store import GroupResource

__all__ = ["REVIEWS", "Allowed", "answer_review", "review_resources"]

Allowed = Callable[[Mapping[str, Any]], bool]
"""Whether the caller may do what these resource attributes say."""

Rules = Callable[[str], list[Mapping[str, Any]]]
"""The rules that hold for the caller in a namespace."""

_OPENAPI: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_KINDS: Final = (
    Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False),
    Kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False),
    Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False),
)
REVIEWS: Final[frozenset[GroupResource]] = frozenset((kind.group, kind.plural) for kind in _KINDS)
"""Where a POST is answered and nothing is stored."""


def review_resources() -> tuple[Resource, ...]:
    """The review kinds as resources that can only be created."""
    return tuple(resource_of(_definition(kind), verbs=("create",)) for kind in _KINDS)


def _definition(kind: Kind) -> Definition:
    return Definition(
        kind=kind,
        schema=ANYTHING,
        openapi=_OPENAPI,
        served_versions=frozenset({kind.api_version}),
        behaviour=Behaviour(generation=Generation.NEVER),
        singular=kind.kind.lower(),
        list_kind=f"{kind.kind}List",
    )


def answer_review(kind: str, body: Mapping[str, Any], caller: Caller, allowed: Allowed, rules: Rules) -> dict[str, Any]:
    """The review with its status."""
    return {**body, "metadata": {"creationTimestamp": None}, "status": _status(kind, body, caller, allowed, rules)}


def _status(kind: str, body: Mapping[str, Any], caller: Caller, allowed: Allowed, rules: Rules) -> dict[str, Any]:
    match kind:
        case "SelfSubjectReview":
            return {"userInfo": {"username": caller.user, "groups": list(caller.groups)}}
        case "SelfSubjectAccessReview":
            return {"allowed": allowed(dig(body, "spec", "resourceAttributes") or {})}
        case _:
            held = [dict(rule) for rule in rules(str(dig(body, "spec", "namespace") or ""))]
            paths = {"verbs": ["get"], "nonResourceURLs": ["*"]}
            return {"resourceRules": held, "nonResourceRules": [paths], "incomplete": False}
