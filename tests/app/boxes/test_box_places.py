"""A message about a field of a file says its line and column, whatever the style it is written in (PH-6)."""

from pathlib import Path

import pytest

from purekube_run.boxes.document import MarkedDocument, read_marked

TEXT = """\
# a comment
spec:
  image: nginx
  quoted: "a ${b}"
  list:
    - one
    - {flow: [x, yz]}
  block: |
    first ${a}
      second
  folded.key: >-
    text
  empty:
---
other: document
"""


@pytest.fixture
def places(tmp_path: Path) -> list[MarkedDocument]:
    file = tmp_path / "box.yaml"
    file.write_text(TEXT, encoding="utf-8")
    return read_marked(str(file))


@pytest.mark.parametrize(
    ("path", "offset", "line", "column"),
    [
        ("", None, 2, 1),
        ("spec", None, 2, 1),
        ("spec.image", None, 3, 10),
        ("spec.image", 2, 3, 12),
        ("spec.quoted", 2, 4, 14),
        ("spec.list", None, 5, 3),
        ("spec.list[0]", None, 6, 7),
        ("spec.list[1].flow[1]", 1, 7, 19),
        ("spec.block", 6, 9, 11),
        ("spec.block", 13, 10, 7),
        ("spec['folded.key']", None, 11, 15),
        ("spec.list[1].none.at[3].all", 4, 7, 7),
        ("nothing", None, 2, 1),
    ],
)
def test_a_field_is_found(places: list[MarkedDocument], path: str, offset: int | None, line: int, column: int) -> None:
    found = places[0].at(path, offset)

    assert (found.line, found.column, found.path) == (line, column, path)


def test_each_document_of_a_file_has_its_own_places(places: list[MarkedDocument]) -> None:
    assert places[1].at("other").line == 15
    assert str(places[1].at("other")).endswith("box.yaml:15:8: other")
