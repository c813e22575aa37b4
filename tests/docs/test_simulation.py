"""docs/simulation.md does what it says: its reconciler breaks the law that it names, and its picture shows that run.

`python -m tests.docs.test_simulation` draws the picture again.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs.markdown import ROOT
from tests.docs.tutorial import Tutorial
from tests.e2e.day.picture import IMAGES, drawn, words

PAGE: Final = ROOT / "docs" / "simulation.md"
PICTURE: Final = IMAGES / "simulation.svg"
MOST_ACTS: Final = 10


def followed(folder: Path) -> tuple[str, list[str]]:
    """Return what the commands about the reconciler print: of the simulation, and of the replay."""
    tutorial = Tutorial(PAGE, folder)
    (folder / "notes.py").write_text(tutorial.block("python", "notes.py"), encoding="utf-8")
    simulated = tutorial.shell(f"{tutorial.block('sh', 'simulate').strip()} || test $? = 1")
    return simulated, tutorial.shell(tutorial.block("sh", "replay")).splitlines()


def picture(replayed: list[str]) -> str:
    """Return the picture of a replay."""
    lines = (part for line in replayed for part in wrapped(line))
    return drawn("vworkspace-operator simulate replay", "simulation", lines)


def wrapped(line: str, width: int = 80) -> Iterator[str]:
    """Yield a line in parts that fit a picture."""
    while len(line) > width:
        at = line.rfind(" ", 0, width)
        yield line[:at]
        line = f"{'broken' if line.startswith(('▲', 'broken')) else ''}{' ' * 10}{line[at + 1 :]}"
    yield line


@pytest.mark.slow
def test_the_reconciler_of_the_page_breaks_a_law_and_the_picture_shows_the_shrunk_run(tmp_path: Path) -> None:
    """SIM-5, SIM-3."""
    simulated, replayed = followed(tmp_path)
    assert 'broken   REC-10 "a delete names the uid"' in simulated
    assert "decision: CallController(cause=" in simulated
    acts = [line for line in replayed if "  people  " in line or "  fault  " in line]
    assert len(acts) == 2 <= MOST_ACTS
    assert words(picture(replayed)) == words(PICTURE.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_law_of_the_page_about_a_box_breaks_as_the_page_prints_it(tmp_path: Path) -> None:
    """SIM-5."""
    for path in (ROOT / "examples" / "boxes").glob("webapp*.yaml"):
        shutil.copy(path, tmp_path)
    tutorial = Tutorial(PAGE, tmp_path)
    (tmp_path / "your_law.py").write_text(tutorial.block("python", "your_law.py"), encoding="utf-8")
    printed = tutorial.shell("python your_law.py")
    assert printed.strip()
    assert f"```\n{printed}```\n" in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        PICTURE.write_text(picture(followed(Path(name))[1]), encoding="utf-8")
