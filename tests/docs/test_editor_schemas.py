"""SEE-5: the JSON Schemas for editors take the examples, and find what is wrong in them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {
    kind: Draft202012Validator(json.loads((ROOT / f"docs/schemas/{kind.lower()}.schema.json").read_text("utf-8")))
    for kind in ("ApplicationInstance", "Operation", "Cluster")
}


def examples() -> Iterator[tuple[str, Any]]:
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document and document.get("kind") in SCHEMAS:
                yield path.relative_to(ROOT).as_posix(), document


EXAMPLES = list(examples())


@pytest.mark.parametrize(("place", "document"), EXAMPLES, ids=[place for place, _ in EXAMPLES])
def test_every_example_is_valid(place: str, document: Any) -> None:
    assert [error.message for error in SCHEMAS[document["kind"]].iter_errors(document)] == []


def test_what_is_wrong_is_found() -> None:
    (good, *_) = (document for _, document in EXAMPLES if document["kind"] == "ApplicationInstance")
    for wrong in (
        {**good, "apiVersion": "apps.vworkspace.io/v2"},
        {**good, "spce": {}},
        {**good, "spec": {**good["spec"], "chrat": {}}},
        {**good, "spec": {**good["spec"], "chart": {"nmae": "x"}}},
        {key: value for key, value in good.items() if key != "spec"},
    ):
        assert list(SCHEMAS["ApplicationInstance"].iter_errors(wrong)), wrong


def test_each_schema_is_one() -> None:
    for schema in SCHEMAS.values():
        schema.check_schema(schema.schema)
