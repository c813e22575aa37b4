"""The operator as an application: its command line, the controllers that it runs, and embedded test servers."""

from typing import Final

__all__ = ["USER_AGENT", "VERSION"]

VERSION: Final = "0.1.0"
"""The version of the package. It is not read from the package metadata, which would make `--help` slow."""
USER_AGENT: Final = f"vworkspace-operator/{VERSION}"
"""The name in the audit log of the API server, for every request of the operator and its commands."""
