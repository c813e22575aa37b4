"""The door of a package: public names whose modules are imported on first use, since most programs need few of them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_door(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for `package`, which import each public name on first use (PEP 562).

    `modules` maps each public name to the module that defines it.
    """

    def load(name: str) -> Any:
        if (module := modules.get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module), name)

    return load, lambda: sorted(modules)
