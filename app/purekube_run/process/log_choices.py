"""The levels and forms of log lines, apart from `logs`, since help and settings name them without logging anything."""

from typing import Final

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("auto", "json", "text")
