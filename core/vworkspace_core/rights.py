"""A right that the API server says is missing, and the command that prints the role that holds it (REC-14, RES-4)."""

import re
from typing import Final

import attrs

__all__ = ["Right", "refused_right"]

_REFUSED: Final = re.compile(
    r'User "[^"]*" cannot (?P<verb>[a-z]+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)" '
    r'(?:in the namespace "(?P<namespace>[^"]+)"|at the cluster scope)'
)
"""Every authorizer's refusal has these words: the API server puts them together, not the authorizer."""


@attrs.frozen(order=True)
class Right:
    """A verb on a resource (`helmreleases`, `operations/status`). `namespace` is empty at the cluster's scope."""

    verb: str
    group: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        resource, _, below = self.resource.partition("/")
        name = f"{resource}.{self.group}" if self.group else resource
        return f"{self.verb} {name}{'/' if below else ''}{below} {where}"


def refused_right(message: str) -> Right | None:
    """The right that an authorizer's refusal names; None for any other 403, such as a quota's or a webhook's."""
    found = _REFUSED.search(message)
    if found is None:
        return None
    return Right(found["verb"], found["group"], found["resource"], found["namespace"] or "")
