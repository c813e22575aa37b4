"""The name of an installation, in a module of its own for code that needs nothing else."""

from typing import Final

NAME: Final = "vworkspace-operator"
