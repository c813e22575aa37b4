"""A box that cannot be run is refused with what is wrong, counted as a person counts."""

import re
from pathlib import Path

import pytest

from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.process.command_line import CommandError

HEAD = "apiVersion: box.vworkspace.io/v1alpha1\nkind: OperatorBox\nmetadata: {name: cache}\n"


@pytest.mark.parametrize("spec", ["spec: 5\n", "spec: {nope: 1, other: 2}\n"])
def test_problems_are_counted_in_words(tmp_path: Path, spec: str) -> None:
    file = tmp_path / "cache.yaml"
    file.write_text(HEAD + spec, encoding="utf-8")
    (loaded,) = load_boxes([str(file)])
    number = len(loaded.problems)
    words = "1 problem" if number == 1 else f"{number} problems"

    with pytest.raises(CommandError, match=re.escape(f"{file}: {words}; see `box check`")):
        runnable([loaded])
