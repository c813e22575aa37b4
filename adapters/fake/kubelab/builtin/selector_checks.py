"""The rules of the selectors of labels and nodes in the built-in kinds that have them.

Messages are those of apimachinery (`pkg/apis/meta/v1/validation`) and of kube-apiserver (`pkg/apis/core/validation`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubelab.writes.metadata import label_causes, label_value_problems, qualified_causes
from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import forbidden_value, invalid_value, required

Fields = Mapping[str, Any]
Causes = Iterator[StatusCause]


def selector_causes(selector: Fields | None, path: str) -> Causes:
    """Yield the problems of a selector of labels that may be absent."""
    if selector:
        yield from label_causes(selector.get("matchLabels") or {}, f"{path}.matchLabels")
        for index, asked in enumerate(selector.get("matchExpressions") or ()):
            yield from requirement_causes(asked, f"{path}.matchExpressions[{index}]")


def node_selector_causes(selector: Fields | None, path: str) -> Causes:
    """Yield the problems of a selector of nodes that may be absent. It needs at least one term."""
    if selector is None:
        return
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from node_term_causes(term, f"{path}.nodeSelectorTerms[{index}]")


def node_term_causes(term: Fields, path: str) -> Causes:
    """Yield the problems of the labels that one term of a selector of nodes asks for."""
    for index, asked in enumerate(term.get("matchExpressions") or ()):
        yield from requirement_causes(asked, f"{path}.matchExpressions[{index}]", compares=True)


def requirement_causes(asked: Fields, path: str, *, compares: bool = False) -> Causes:
    """Yield the problems of a requirement of a label. Those that nodes have to meet may compare numbers."""
    operator, values = asked.get("operator", ""), asked.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden_value(f"{path}.values", text)
        case "Gt" | "Lt" if compares:
            if len(values) != 1:
                yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    yield from qualified_causes(asked.get("key", ""), f"{path}.key")
    for index, value in enumerate(values):
        for text in label_value_problems(value):
            yield invalid_value(f"{path}.values[{index}]", value, text)
