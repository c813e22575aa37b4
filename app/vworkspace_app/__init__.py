"""Wiring: the command line, the operator's drivers, and the embedded servers as processes."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]


def _version() -> str:
    try:
        return version("vworkspace-operator")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0.0.0+source"


VERSION = _version()
"""The version of the installed distribution, from its wheel."""
