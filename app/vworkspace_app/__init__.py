"""The application: the command line, the operator's drivers, and the embedded servers as processes."""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
"""The version of the distribution. It is not read from the wheel, which would take most of the time of `--help`."""
