"""A write request in the form that admission webhooks receive."""

from collections.abc import Mapping
from typing import Any

import attrs

from kubelab.model.calls import Caller, RequestTarget
from purekube.apimachinery.manifest import Manifest, get_path


@attrs.frozen
class AdmissionAttributes:
    """A write request in the form that admission webhooks and policies judge.

    `operation` is CREATE, UPDATE or DELETE. `object` is the new object, None for DELETE; `old_object` is the stored
    one, None for CREATE.
    """

    operation: str
    target: RequestTarget
    name: str
    caller: Caller
    object: Manifest | None
    old_object: Manifest | None
    dry_run: bool = False
    matched: str = ""
    """The API version that the webhook's rules match, if it is not the version of the request; otherwise empty."""

    def in_version(self, version: str) -> "AdmissionAttributes":
        """Return this request with its objects converted to `version`.

        Raises ApiFailure if the conversion fails, and ConversionNeeded if a webhook has to convert them first.
        """
        versions = self.target.resource.definition.versions
        if version in ("", self.target.resource.version) or versions is None:
            return self
        desired = f"{self.target.resource.group}/{version}"
        states = (None if one is None else versions.convert(one, desired) for one in (self.object, self.old_object))
        new, old = states
        return attrs.evolve(self, matched=version, object=new, old_object=old)

    @property
    def labels(self) -> tuple[Mapping[str, str], ...]:
        """The labels of the new and of the old object.

        A selector matches the request if it selects one of the two objects.
        """
        states = (self.object, self.old_object)
        # apiserver: admission/plugin/webhook/predicates/object/matcher.go: either state may match, so that a change of
        # labels cannot evade a webhook.
        return tuple(get_path(state, "metadata", "labels") or {} for state in states if state is not None)

    def variables(self) -> dict[str, Any]:
        """Return the variables that match conditions can read: `object`, `oldObject` and `request`."""
        return {"object": self.object, "oldObject": self.old_object, "request": self.review("", "v1")["request"]}

    def review(self, uid: str, version: str) -> dict[str, Any]:
        """Return the AdmissionReview that asks a webhook about this request. Its id is `uid`.

        `version` is the version of AdmissionReview itself, `v1` or `v1beta1`.
        """
        resource = self.target.resource
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        place = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        shown = self.matched or resource.version
        request = {
            "uid": uid,
            "kind": {**kind, "version": shown},
            "resource": {**place, "version": shown},
            "subResource": self.target.subresource,
            "requestKind": kind,
            "requestResource": place,
            "requestSubResource": self.target.subresource,
            "name": self.name,
            "namespace": self.target.namespace or "",
            "operation": self.operation,
            "userInfo": {"username": self.caller.user, "groups": list(self.caller.groups)},
            "object": self.object,
            "oldObject": self.old_object,
            "dryRun": self.dry_run,
            "options": None,
        }
        # kubernetes: the JSON tags of AdmissionRequest omit empty strings, but object, oldObject and options are sent
        # as null.
        fields = {key: value for key, value in request.items() if value != ""}
        return {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "request": fields}
