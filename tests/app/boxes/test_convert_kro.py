"""How many of kro's own definitions a conversion makes boxes of that can be run (PH-6).

They are read from a checkout of kro's repository that the variable KRO_REPOSITORY names, and skipped without it:

    KRO_REPOSITORY=../kro make test PYTEST_ARGS="tests/app/boxes/test_convert_kro.py -rP"
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from purekube_run.boxes.load import load_box
from vworkspace_app.commands.box.convert import convert_file, write_files

FOLDERS: Final = ("examples", "test")
LEAST: Final = (47, 76)
"""Of 89 different definitions at kro's 0302e659, without and with --trust-parents; these numbers may only rise."""


def definitions(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every definition of a graph with a schema, each once, with the file that it stands in."""
    seen: set[str] = set()
    for file in sorted(file for name in FOLDERS for file in (folder / name).rglob("*.y*ml")):
        try:
            documents = [one for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if isinstance(one, dict)]
        except yaml.YAMLError:
            continue  # a template of Helm
        for document in documents:
            spec = document.get("spec")
            whole = isinstance(spec, dict) and {"schema", "resources"} <= spec.keys()
            if document.get("kind") == "ResourceGraphDefinition" and whole and repr(document) not in seen:
                seen.add(repr(document))
                yield str(file.relative_to(folder)), document


def test_what_is_said_to_be_converted_can_be_run_and_the_number_only_rises(tmp_path: Path) -> None:
    folder = os.environ.get("KRO_REPOSITORY", "")
    if not folder:
        pytest.skip("KRO_REPOSITORY names no checkout of kro's repository")
    good, trusting, others = 0, 0, []
    for number, (name, document) in enumerate(definitions(Path(folder))):
        file, out = tmp_path / f"{number}.yaml", tmp_path / str(number)
        file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        converted_file = convert_file(str(file))
        box, *_ = write_files(converted_file.files, out)
        runs = load_box(str(box)).box is not None
        assert runs is (converted_file.refused == ()), name
        trusted = convert_file(str(file), trusting=True)
        good += not (converted_file.problems or converted_file.refused)
        if trusted.problems or trusted.refused:
            others.append(f"{name}: {(*trusted.problems, *trusted.refused)[0]}")
        else:
            trusting += 1
    told = f"{good} of {trusting + len(others)} definitions are converted and pass the check, with --trust-parents"
    print(f"{told} {trusting}; the others:")
    print("\n".join(others))
    assert (good, trusting) >= LEAST
