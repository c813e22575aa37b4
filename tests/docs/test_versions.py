"""docs/versions.md runs as it stands there (PH-8)."""

import re
from pathlib import Path

import pytest
import yaml

from purekube.boxes.model import BoxVersion

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "versions.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found


@pytest.mark.parametrize("text", blocks("python"))
def test_the_functions_convert_as_the_page_says(text: str) -> None:
    exec(compile(text, "docs/versions.md", "exec"), {})


@pytest.mark.parametrize("text", blocks("yaml"))
def test_the_words_of_a_box_are_those_of_its_classes(text: str) -> None:
    known = {field.name for field in BoxVersion.__attrs_attrs__}
    assert all(set(version) <= known for version in yaml.safe_load(text)["versions"])
