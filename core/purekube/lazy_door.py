"""Lazy exports of a package: a public name's module is imported on first use, since most programs need few names."""

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any


def lazy_door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the module `package`; the former imports a name on first use (PEP 562).

    The public names and their modules are those of the imports under `if TYPE_CHECKING` in the package's source.
    """

    @cache
    def modules() -> Mapping[str, str]:
        tree = ast.parse(inspect.getsource(sys.modules[package]))
        blocks = (node.body for node in tree.body if isinstance(node, ast.If))
        imports = (node for block in blocks for node in block if isinstance(node, ast.ImportFrom))
        return {alias.name: str(node.module) for node in imports for alias in node.names}

    def load(name: str) -> Any:
        # Python looks up `__path__` and similar names on every package: the source is not parsed for those.
        if name.startswith("__") or (module := modules().get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module), name)

    return load, lambda: sorted(modules())
