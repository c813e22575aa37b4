"""A whole number that no API server takes is an error with its line, for every command that reads files."""

from pathlib import Path

import pytest

from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import parse_yaml, read_documents


@pytest.mark.parametrize("number", ["9" * 5_000, "0x" + "f" * 9_000, "-" + "1" * 81])
def test_a_huge_number_of_a_tenant_is_told_with_its_line(number: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"a: 1\nb: {number}\n", encoding="utf-8")
    with pytest.raises(CommandError, match=r"a\.yaml:2: not valid YAML: a number of \d+ digits"):
        read_documents([str(file)])
    with pytest.raises(ValueError, match="not valid YAML"):
        parse_yaml(f"b: {number}")


def test_the_same_digits_in_quotes_are_a_text() -> None:
    assert parse_yaml(f'a: "{"9" * 5_000}"') == {"a": "9" * 5_000}
