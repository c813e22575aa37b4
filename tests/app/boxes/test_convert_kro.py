"""How many of kro's own definitions a conversion makes boxes of that can be run (PH-6).

They are read from a checkout of kro's repository that the variable KRO_REPOSITORY names, and skipped without it:

    KRO_REPOSITORY=../kro make test PYTEST_ARGS="tests/app/boxes/test_convert_kro.py -rP"
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from purekube_run.boxes.load import load_box
from vworkspace_app.commands.box.convert import convert_file, write_files

FOLDERS: Final = ("examples", "test")
OUTCOMES: Final = Path(__file__).parent / "convert" / "kro.outcomes"
"""What became of each definition at kro's 0302e659: `checks`, `trusts` (with `trustParents`), or `refused` and why."""
RANKS: Final = ("refused", "trusts", "checks")
LEAST: Final = (54, 78)
"""Definitions that check without `trustParents`, and all that check, at least; these numbers may only rise."""


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


def recorded() -> Mapping[str, tuple[str, str]]:
    """The outcome of each definition by its name, with the reason of a refusal."""
    rows = (line.split("  ") for line in OUTCOMES.read_text(encoding="utf-8").splitlines())
    return {name: (outcome, "  ".join(reason)) for outcome, name, *reason in rows}


def outcome_of(file: Path, out: Path) -> tuple[str, str]:
    """Convert a definition, and return its outcome. What is said to check can be run."""
    converted_file = convert_file(str(file), trusting=False)
    box, *_ = write_files(converted_file.files, out)
    checks = load_box(str(box)).box is not None
    assert not (checks and converted_file.refused), file
    assert checks or converted_file.problems or converted_file.refused, file
    if not (converted_file.problems or converted_file.refused):
        return "checks", ""
    trusted = convert_file(str(file))
    told = (*trusted.problems, *trusted.refused)
    assert all(PLACE.match(line) for line in told), told
    return ("refused", PLACE.sub("", told[0])) if told else ("trusts", "")


PLACE: Final = re.compile(r"\S+:\d+:\d+: ")


def test_what_is_said_to_be_converted_can_be_run_and_no_outcome_gets_worse(tmp_path: Path) -> None:
    folder = os.environ.get("KRO_REPOSITORY", "")
    if not folder:
        pytest.skip("KRO_REPOSITORY names no checkout of kro's repository")
    found: dict[str, tuple[str, str]] = {}
    for number, (name, document) in enumerate(definitions(Path(folder))):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        found[name] = outcome_of(file, tmp_path / str(number))
    print("\n".join("  ".join(filter(None, (outcome, name, why))) for name, (outcome, why) in found.items()))
    before = recorded()
    worse = [name for name in before if RANKS.index(found[name][0]) < RANKS.index(before[name][0])]
    assert worse == []
    assert found == before, "an outcome is better, or a reason another: record what is printed"


def test_the_recorded_numbers_have_risen_and_stand_on_the_page() -> None:
    outcomes = [outcome for outcome, _ in recorded().values()]
    checks, trusts = outcomes.count("checks"), len(outcomes) - outcomes.count("refused")
    assert checks >= LEAST[0]
    assert trusts >= LEAST[1]
    page = " ".join((Path(__file__).parents[3] / "contrib/README.md").read_text(encoding="utf-8").split())
    assert f"Of the {len(outcomes)} definitions in kro's own repository {trusts} convert" in page
    assert f"{trusts - checks} of them with `trustParents`" in page
    assert all(why for outcome, why in recorded().values() if outcome == "refused")
