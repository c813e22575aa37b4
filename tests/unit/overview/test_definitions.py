"""What a CustomResourceDefinition says of its kind, and by which words people ask for it (SEE-1)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from vworkspace_core.overview.definitions import kind_of, words_of

NAMES = {"kind": "Shop", "plural": "shops", "singular": "shop", "shortNames": ["sh", "SP"]}
VERSIONS = [{"name": "v1", "storage": False}, {"name": "v2", "storage": True}]
SPEC: dict[str, Any] = {"group": "example.com", "names": NAMES, "versions": VERSIONS}
KIND = Kind("example.com", "v2", "Shop", "shops")


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (SPEC, KIND),
        ({**SPEC, "scope": "Namespaced"}, KIND),
        ({**SPEC, "scope": "Cluster"}, Kind("example.com", "v2", "Shop", "shops", namespaced=False)),
        ({**SPEC, "versions": []}, None),
        ({**SPEC, "versions": [{"name": "v1", "storage": "true"}]}, None),
        ({**SPEC, "versions": "v1"}, None),
        ({**SPEC, "group": ""}, None),
        ({**SPEC, "group": 5}, None),
        ({**SPEC, "names": {**NAMES, "kind": None}}, None),
        ({**SPEC, "names": {**NAMES, "plural": None}}, None),
        (None, None),
    ],
)
def test_a_definition_has_the_kind_of_its_storage_version(spec: Any, kind: Kind | None) -> None:
    assert kind_of({"spec": spec}) == kind


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (NAMES, ["shop", "shops", "shop", "sh", "sp", "shops.example.com"]),
        ({**NAMES, "singular": "", "shortNames": None}, ["shop", "shops", "shops.example.com"]),
        ({**NAMES, "shortNames": [5, "x"]}, ["shop", "shops", "shop", "x", "shops.example.com"]),
        (None, ["shops.example.com"]),
    ],
)
def test_a_kind_is_asked_for_by_its_names_in_lower_case(names: Any, words: list[str]) -> None:
    assert list(words_of({"metadata": {"name": "shops.example.com"}, "spec": {"names": names}})) == words
