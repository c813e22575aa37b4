"""The published schemas of a box's file say what its reader says (PH-6)."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.schema import compile_schema, prune, validate
from purekube.schema.objectmeta import with_type_meta
from purekube_run.boxes.document import read_marked
from tools.box_schemas import json_schema

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "boxes"
BOXES = [path for path in sorted(EXAMPLES.glob("*.yaml")) if not path.stem.endswith(("-crd", "-test"))]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def document(path: Path) -> Any:
    return read_marked(str(path))[0].value


@pytest.mark.parametrize("path", BOXES, ids=lambda path: path.stem)
def test_box_schemas_take_every_example(path: Path) -> None:
    VALIDATOR.validate(document(path))
    (version,) = applied_box_definition()["spec"]["versions"]
    schema = with_type_meta(compile_schema(version["schema"]["openAPIV3Schema"]))
    whole = document(path)
    assert validate(schema, whole) == []
    assert prune(schema, whole)[1] == ()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "crt"), "x"),
        (("spec", "phases", 0, "on"), "never"),
        (("spec", "phases", 0, "resources", 0, "dependsOn"), [{"id": "a", "until": "Gone"}]),
        (("spec", "phases", 0, "resources", 0, "forEach"), {"key": "${a}"}),
        (("spec", "phases", 0, "resources", 0, "id"), "Web-1"),
        (("spec", "resync"), "soon"),
    ],
)
def test_box_schema_for_editors_refuses_what_the_reader_refuses(path: tuple[Any, ...], value: Any) -> None:
    changed = document(EXAMPLES / "webapp.yaml")
    around = changed
    for step in path[:-1]:
        around = around[step]
    around[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(changed)
