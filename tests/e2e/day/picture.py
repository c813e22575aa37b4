"""The part of the day that README and the quickstart show as a picture: a failing upgrade, and what helps.

Drawn from what was recorded, by rich; the same on every machine. Fonts are the reader's own: nothing is fetched.
"""

import html
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.e2e.day.story import HERE, WIDTHS, golden

PICTURE: Final = HERE.parents[2] / "docs" / "images" / "day.svg"
_WIDTH: Final = WIDTHS[0]
_BEGINS: Final = "$ kubectl apply -f podinfo.yaml"
_ENDS: Final = "$ vworkspace-operator diff podinfo.yaml"
_EVENTS: Final = "last events:"
"""What stands below is more than a picture needs."""
_COLOURS: Final = (
    (r"^\$ .*", "bold white"),
    (r"^# .*", "dim"),
    (r"\b(?:Ready|Succeeded)\b(?=  )", "green"),
    (r"\b(?:Stalled|Failed)\b(?=  )", "bold red"),
    (r"vworkspace-operator retry \S+ -n \S+", "cyan"),
)


def picture() -> str:
    """The SVG."""
    screen = Console(width=_WIDTH, record=True, file=StringIO(), force_terminal=True, highlight=False)
    for line in _lines(golden(_WIDTH)):
        text = Text(line)
        for pattern, style in _COLOURS:
            text.highlight_regex(pattern, style)
        screen.print(text)
    drawn = screen.export_svg(title="vworkspace-operator", theme=MONOKAI, unique_id="day")
    own = re.sub(r"@font-face \{.*?\}\s*|<!-- Generated .*?-->\s*", "", drawn, flags=re.DOTALL)
    return own.replace("Fira Code,", "ui-monospace, Menlo,")


def words(drawn: str) -> str:
    """What can be read in a picture: how it is drawn, each version of rich decides."""
    return html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", drawn)))


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
    """Draw it anew."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
