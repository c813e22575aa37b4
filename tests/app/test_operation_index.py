"""How Operations are found by the namespaces that they reach into, whatever stands in their parameters (OPS-7)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.strategies import json_values
from vworkspace_app.operator.operation_index import OPEN_ACROSS, OPERATION_INDEXES

anything = json_values()


def across(parameters: Any, phase: str = "Pending") -> set[str]:
    manifest = {"metadata": {"name": "x", "namespace": "a"}, "spec": {"parameters": parameters}}
    return set(OPERATION_INDEXES[OPEN_ACROSS]({**manifest, "status": {"phase": phase}}))


@given(anything | st.fixed_dictionaries({"includeNamespaces": anything, "namespaceMapping": anything}))
def test_whatever_the_parameters_are_only_texts_are_names(parameters: Any) -> None:
    assert all(isinstance(name, str) for name in across(parameters))


def test_both_sides_of_a_mapping_and_every_included_namespace_count_H3() -> None:
    assert across({"includeNamespaces": ["b", "c", "b"]}) == {"b", "c"}
    assert across({"namespaceMapping": {"a": "d", "e": "a"}}) == {"a", "d", "e"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Cancelled"])
def test_nothing_wakes_what_has_ended(phase: str) -> None:
    assert across({"includeNamespaces": ["b"]}, phase) == set()
