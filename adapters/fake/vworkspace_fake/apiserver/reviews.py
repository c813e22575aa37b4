"""Answering the reviews: what callers ask about their own access."""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.manifest import dig
from vworkspace_fake.apiserver.authorization import review_attributes
from vworkspace_fake.apiserver.calls import ADMIN, Caller
from vworkspace_fake.apiserver.failure import bad_request
from vworkspace_fake.apiserver.gate import Gate
from vworkspace_fake.apiserver.rbac import Rbac
from vworkspace_fake.apiserver.records import encode
from vworkspace_fake.apiserver.replies import Reply

__all__ = ["Reviewer"]


class Reviewer:
    """Answers what callers ask about themselves."""

    def __init__(self, rbac: Rbac, gate: Gate) -> None:
        self._rbac = rbac
        self._gate = gate

    def answer(self, kind: str, body: Any, caller: Caller) -> Reply:
        """The review with its status. Raises ApiFailure 400 for what is no review."""
        if not isinstance(body, Mapping):
            raise bad_request("a review is an object")
        status = self._status(kind, body, caller)
        return Reply(201, encode({**body, "metadata": {"creationTimestamp": None}, "status": status}))

    def _status(self, kind: str, body: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        match kind:
            case "SelfSubjectReview":
                return {"userInfo": {"username": caller.user, "groups": list(caller.groups)}}
            case "SelfSubjectAccessReview":
                asked = review_attributes(dig(body, "spec", "resourceAttributes") or {})
                return {"allowed": self._gate.authorize is None or self._gate.authorize(caller, asked)}
            case _:
                judged = ADMIN if self._gate.authorize is None else caller
                held = [dict(rule) for rule in self._rbac.rules(judged, dig(body, "spec", "namespace") or "")]
                paths = {"verbs": ["get"], "nonResourceURLs": ["*"]}
                return {"resourceRules": held, "nonResourceRules": [paths], "incomplete": False}
