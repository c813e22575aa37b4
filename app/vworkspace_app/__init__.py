"""Wiring: the command line, the operator's drivers, and the embedded servers as processes."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]

try:
    VERSION = version("vworkspace-operator")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0.0.0+source"
