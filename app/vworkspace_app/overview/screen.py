"""The width of the screen, apart from what is drawn on it."""

import os
import sys
from typing import Final

WIDEST: Final = 100_000
"""The width without a screen: nothing is folded."""


def columns() -> int:
    """Return the terminal's width in columns. Output to another program has no limit unless COLUMNS is set."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return os.get_terminal_size().columns if sys.stdout.isatty() else WIDEST
