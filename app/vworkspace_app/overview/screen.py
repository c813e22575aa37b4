"""The properties of the output's screen: its width, and whether it shows colours."""

import os
import sys
import textwrap
from typing import Final, Self

import attrs

WIDEST: Final = 100_000
"""The width in columns of output to a file or program, so large that no text is wrapped."""


@attrs.frozen
class Screen:
    """The screen for which text is wrapped and coloured: its width in columns, and whether it shows colours."""

    width: int = WIDEST
    colours: bool = False

    @classmethod
    def of_output(cls) -> Self:
        """Return the screen of standard output."""
        shown = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(columns(), shown)

    def less(self, columns: int) -> "Screen":
        """Return a screen that is narrower by this number of columns."""
        return attrs.evolve(self, width=max(self.width - columns, 1))

    def folded(self, text: str, indent: str = "") -> list[str]:
        """Return a text as lines wrapped to the screen, each indented by `indent`."""
        if len(indent) + len(text) <= self.width and "\n" not in text:
            return [f"{indent}{text}"]
        inside = max(self.width - len(indent), 1)
        return [f"{indent}{line}" for line in textwrap.wrap(text, inside, break_on_hyphens=False)]

    def coloured(self, text: str, colour: str) -> str:
        """Return a text in a colour, which is the number of an SGR sequence.

        The text is unchanged if the screen shows no colours.
        """
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colours else text


def columns() -> int:
    """Return the terminal's width in columns.

    Output to another program has no limit unless the variable COLUMNS is set.
    """
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return os.get_terminal_size().columns if sys.stdout.isatty() else WIDEST
