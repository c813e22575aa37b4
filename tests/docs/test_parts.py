"""The parts: framework and laboratory name nothing of the product, and each test belongs to one part."""

import re
from pathlib import Path

import pytest

from tests.support.parts import PARTS, part_of

ROOT = Path(__file__).parents[2]
PRODUCT = r"odoo|application_?instance"
GENERIC = {
    "core/purekube": PRODUCT,
    "adapters/kube/purekube_http": PRODUCT,
    "adapters/fake/kubelab": f"{PRODUCT}|vworkspace",  # the others still have labels and commands of that name
}


@pytest.mark.slow
@pytest.mark.parametrize("folder", GENERIC)
def test_framework_and_laboratory_name_neither_odoo_nor_application_instances(folder: str) -> None:
    modules = sorted((ROOT / folder).rglob("*.py"))
    naming = [
        f"{module.relative_to(ROOT)}:{number}: {line.strip()}"
        for module in modules
        for number, line in enumerate(module.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(GENERIC[folder], line, re.IGNORECASE)
    ]

    assert len(modules) > 5
    assert naming == []


@pytest.mark.parametrize(
    ("test", "part"),
    [
        ("unit/apiserver/test_listing.py", "kubelab"),
        ("e2e/test_kubelab.py", "kubelab"),
        ("property/graph/test_graph_build.py", "purekube"),  # the laboratory is its world
        ("property/expressions/test_regular_expressions.py", "purekube"),  # the ground alone
        ("e2e/test_kit_plugin.py", "purekube"),
        ("property/instances/test_machine.py", "product"),
        ("docs/test_links.py", "product"),  # about the repository
    ],
)
def test_a_test_belongs_to_the_uppermost_part_that_it_imports(test: str, part: str) -> None:
    assert part_of(ROOT / "tests" / test) == part


@pytest.mark.slow
def test_every_part_has_tests() -> None:
    assert {part_of(path) for path in (ROOT / "tests").rglob("test_*.py")} == set(PARTS)
