"""The name of an installation, apart from its options, for those who only look for one."""

from typing import Final

NAME: Final = "vworkspace-operator"
