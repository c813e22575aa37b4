"""The name of the operator's installation, in a module without imports for code that needs nothing else."""

from typing import Final

NAME: Final = "vworkspace-operator"
