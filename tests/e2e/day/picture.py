"""What README and the pages show as pictures: a failing upgrade of the day and what helps, and how the demo begins.

Drawn by rich from what was recorded. Fonts are the reader's own: nothing is fetched.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.e2e.day.story import HERE, WIDTHS, golden
from tests.support.commands import run

IMAGES: Final = HERE.parents[2] / "docs" / "images"
DEMO: Final = HERE / "demo.txt"
"""What the demo printed when it was recorded, on a screen of 80 columns."""
_WIDTH: Final = WIDTHS[0]
_BEGINS: Final = "$ kubectl apply -f podinfo.yaml"
_ENDS: Final = "$ vworkspace-operator diff podinfo.yaml"
_EVENTS: Final = "last events:"
"""What stands below is more than a picture needs."""
_HEAD: Final = 3
"""Lines of the demo before its first act."""
_COLOURS: Final = (
    (r"^            ok .*", "green"),
    (r"^An intent becomes.*", "bold white"),
    (r"^\$ .*", "bold white"),
    (r"^# .*", "dim"),
    (r"\b(?:Ready|Succeeded)\b(?=  )", "green"),
    (r"\b(?:Stalled|Failed)\b(?=  )", "bold red"),
    (r"^(?:▲|broken).*", "bold red"),
    (r"vworkspace-operator retry \S+ -n \S+", "cyan"),
)


def pictures() -> Mapping[Path, str]:
    """Each SVG by its file."""
    told = DEMO.read_text(encoding="utf-8").splitlines()
    first_act = told[: next(number for number, line in enumerate(told) if number > _HEAD and not line)]
    return {
        IMAGES / "day.svg": drawn("vworkspace-operator", "day", _lines(golden(_WIDTH))),
        IMAGES / "demo.svg": drawn("make demo", "demo", first_act),
    }


def demo() -> str:
    """What the demo prints now. It really runs, over HTTP: only its addresses and times differ from run to run."""
    ended = run("demo", "--plain", COLUMNS=str(_WIDTH))
    assert ended.status == 0, ended.err
    return ended.out


def timeless(told: str) -> str:
    """Without addresses and times."""
    return re.sub(
        r"\b\d+(?= ms)", "0", re.sub(r"(?<=127\.0\.0\.1:)\d+", "0", re.sub(r"^ *(?=\d+ ms)", "", told, flags=re.M))
    )


def drawn(title: str, name: str, lines: Iterable[str]) -> str:
    """Return lines of a terminal as an SVG."""
    screen = Console(width=_WIDTH, record=True, file=StringIO(), force_terminal=True, highlight=False)
    for line in lines:
        text = Text(line)
        for pattern, style in _COLOURS:
            text.highlight_regex(pattern, style)
        screen.print(text)
    picture = screen.export_svg(title=title, theme=MONOKAI, unique_id=name)
    own = re.sub(r"@font-face \{.*?\}\s*|<!-- Generated .*?-->\s*", "", picture, flags=re.DOTALL)
    return own.replace("Fira Code,", "ui-monospace, Menlo,")


def words(picture: str) -> str:
    """What can be read in a picture: how it is drawn, each version of rich decides."""
    return html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture)))


def _lines(recorded: Path) -> Iterator[str]:
    """From the upgrade to the end of its trouble, without events."""
    told = recorded.read_text(encoding="utf-8").splitlines()
    first = max(number for number, line in enumerate(told) if line == _BEGINS)
    last = next(number for number, line in enumerate(told) if number > first and line == _ENDS)
    events = False
    for line in told[first:last]:
        events = line == _EVENTS or (events and line.startswith(" "))
        if not events:
            yield line


def main() -> None:
    """Run the demo, and draw all anew; one that differs by its times alone is kept as it was."""
    now = demo()
    if not DEMO.exists() or timeless(DEMO.read_text(encoding="utf-8")) != timeless(now):
        DEMO.write_text(now, encoding="utf-8")
    for file, picture in pictures().items():
        file.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
