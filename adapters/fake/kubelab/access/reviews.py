"""Answers to access reviews, about the caller itself or about others."""

from collections.abc import Mapping
from typing import Any

from kubelab.access.authorization import review_attributes
from kubelab.access.rbac import Rbac
from kubelab.access.request_filter import RequestFilter
from kubelab.model.calls import ADMIN, Caller
from kubelab.model.failure import FailureCause, bad_request, invalid
from kubelab.model.records import encode
from kubelab.model.replies import Reply
from purekube.apimachinery.manifest import get_path


class Reviewer:
    """The answers to access reviews. A caller may review itself; to review other users it needs a right."""

    def __init__(self, rbac: Rbac, request_filter: RequestFilter) -> None:
        self._rbac = rbac
        self._gate = request_filter

    def answer(self, kind: str, body: Any, caller: Caller) -> Reply:
        """Return the review with its status. Raises ApiFailure 400 for a body that is no review."""
        if not isinstance(body, Mapping):
            raise bad_request("a review is an object")
        status = self._status(kind, body, caller)
        return Reply(201, encode({**body, "metadata": {"creationTimestamp": None}, "status": status}))

    def _status(self, kind: str, body: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        match kind:
            case "SelfSubjectReview":
                return {"userInfo": {"username": caller.user, "groups": list(caller.groups)}}
            case "SelfSubjectAccessReview":
                return self._access(body, caller)
            case "SubjectAccessReview":
                return self._access(body, _subject_of(body))
            case _:
                reviewed = ADMIN if self._gate.authorize is None else caller
                held = [dict(rule) for rule in self._rbac.rules(reviewed, get_path(body, "spec", "namespace") or "")]
                paths = {"verbs": ["get"], "nonResourceURLs": ["*"]}
                return {"resourceRules": held, "nonResourceRules": [paths], "incomplete": False}

    def _access(self, body: Mapping[str, Any], subject: Caller) -> dict[str, Any]:
        asked = review_attributes(get_path(body, "spec", "resourceAttributes") or {})
        return {"allowed": self._gate.authorize is None or self._gate.authorize(subject, asked)}


def _subject_of(body: Mapping[str, Any]) -> Caller:
    """Return the caller a SubjectAccessReview is about.

    Raises ApiFailure 422 if it names none, as kube-apiserver does.
    """
    user, groups = str(get_path(body, "spec", "user") or ""), get_path(body, "spec", "groups") or ()
    if not user and not groups:
        cause = FailureCause(
            "spec.user", 'Invalid value: "": at least one of user or group must be specified', "FieldValueInvalid"
        )
        raise invalid("authorization.k8s.io", "SubjectAccessReview", "", [cause])
    return Caller(user, tuple(map(str, groups)))
