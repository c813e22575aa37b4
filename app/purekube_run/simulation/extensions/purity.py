"""The check that a reconciler's function is pure: two calls with equal arguments must return the same result."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import attrs

from purekube.apimachinery.manifest import canonical_json, same_json
from purekube.reconcilers import Children, Desired, Object


@attrs.define
class AskedTwice:
    """A wrapper that checks whether a function is pure: it calls the function twice with equal arguments.

    `different` describes how the results differ or that the function changed its arguments, or is "" if it is pure.
    """

    function: Callable[[Object[Any, Any], Children], Desired[Any]]
    different: str = ""

    def __call__(self, object: Object[Any, Any], children: Children) -> Desired[Any]:
        """Call the function twice and return the first result. Errors of the function are passed on."""
        given = deepcopy((object, children.found))
        first = self.function(object, children)
        self.different = self.different or _changed(given, (object, children.found))
        if not self.different:
            self.different = _difference(first, self.function(given[0], Children(given[1], children.schemas)))
        return first


def _difference(first: Desired[Any], second: Desired[Any]) -> str:
    one, other = ([node.id for node in answer.nodes] for answer in (first, second))
    if one != other:
        return f"the nodes {', '.join(one)} the first time, {', '.join(other)} the second"
    for node, again in zip(first.nodes, second.nodes, strict=True):
        if canonical_json(node.manifest) != canonical_json(again.manifest) or node.when != again.when:
            return f"another {node.id} the second time"
    return "" if first.status == second.status else f"the status {first.status!r}, then {second.status!r}"


def _changed(before: Any, after: Any) -> str:
    (one, children), (other, its_children) = before, after
    same = one == other and same_json(one.manifest, other.manifest) and same_json(children, its_children)
    return "" if same else "it changed what it was given"
