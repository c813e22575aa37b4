"""The framework and the laboratory serve everybody: no word of theirs is about the product."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERIC = ("core/purekube", "adapters/kube/purekube_http", "adapters/fake/kubelab")
PRODUCT = re.compile(r"odoo|application_?instance", re.IGNORECASE)


@pytest.mark.parametrize("folder", GENERIC)
def test_framework_and_laboratory_name_neither_odoo_nor_application_instances(folder: str) -> None:
    modules = sorted((ROOT / folder).rglob("*.py"))
    naming = [
        f"{module.relative_to(ROOT)}:{number}: {line.strip()}"
        for module in modules
        for number, line in enumerate(module.read_text(encoding="utf-8").splitlines(), 1)
        if PRODUCT.search(line)
    ]

    assert len(modules) > 5
    assert naming == []
