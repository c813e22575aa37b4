"""The attributes of a request that authorization judges, and the refusal in kube-apiserver's words."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kubelab.model.calls import Caller, RequestTarget, RequestVerb
from kubelab.model.failure import ApiFailure, forbidden


@attrs.frozen
class Attributes:
    """A verb on a resource. `namespace` is empty for cluster-scoped requests, `name` for collections."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


Authorize = Callable[[Caller, Attributes], bool]
"""A function that reports whether the caller may do what the attributes describe."""


def attributes_of(verb: RequestVerb, target: RequestTarget, only: str = "") -> Attributes:
    """Return the attributes of a request. `only` is the single name that a list or watch selects, if any."""
    resource = target.resource
    return Attributes(
        verb.value, resource.group, resource.plural, target.subresource, target.namespace or "", target.name or only
    )


def review_attributes(asked: Mapping[str, Any]) -> Attributes:
    """Return the attributes that an access review asks about."""
    texts = {
        key: str(asked.get(key) or "") for key in ("verb", "group", "resource", "subresource", "namespace", "name")
    }
    return Attributes(**texts)


def denied(caller: Caller, asked: Attributes) -> ApiFailure:
    """Return the 403 failure in kube-apiserver's words: which user cannot do what, where."""
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    why = f'User "{caller.user}" cannot {asked.verb} resource "{resource}" in API group "{asked.group}" {where}'
    return forbidden(asked.group, asked.resource, asked.name, why)
