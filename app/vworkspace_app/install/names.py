"""The name of the operator's Deployment and other objects. The module imports nothing else, so it is fast to import."""

from typing import Final

NAME: Final = "vworkspace-operator"
