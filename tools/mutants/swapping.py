"""The core in memory with other code in its functions.

A function keeps its identity, its globals and its closure, so nothing is imported again, and each module that has
imported it calls the new code.
"""

import ast
import gc
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import attrs

from tools.mutants.sites import CORE, REACHED, modules, parsed, sites_of, with_probes

_OUR_PACKAGES: Final = ("purekube", "kubelab", "vworkspace", "tests")


@attrs.frozen
class Inventory:
    """The imports of a process: functions of the core by module, and the caches of our packages and of the tests."""

    functions: dict[str, list[FunctionType]]
    caches: list[Any]

    @classmethod
    def taken(cls) -> "Inventory":
        """Look through the memory of this process, which takes a moment."""
        gc.unfreeze()  # tests/conftest.py has put everything where the collector does not look
        functions: dict[str, list[FunctionType]] = defaultdict(list)
        caches = []
        for item in gc.get_objects():
            if type(item) is FunctionType:
                functions[item.__code__.co_filename].append(item)
            elif hasattr(type(item), "cache_clear") and str(item.__module__).startswith(_OUR_PACKAGES):
                caches.append(item)
        gc.freeze()
        return cls(functions, caches)

    def forget(self) -> None:
        """Clear the caches, so that a test calls what it would call alone."""
        for cache in self.caches:
            cache.cache_clear()

    def swap(self, path: Path, tree: ast.Module) -> int:
        """Give the functions of a module the code of the tree; return how many have another one now."""
        original = compile(parsed(path), str(path), "exec", dont_inherit=True)
        altered = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
        pairs = [(old, new) for old, new in _pairs(original, altered) if old != new]
        codes = {old: new for old, new in pairs if old.co_freevars == new.co_freevars}
        swapped = [function for function in self.functions.get(str(path), ()) if function.__code__ in codes]
        for function in swapped:
            function.__code__ = codes[function.__code__]
        return len(swapped)

    def put_probes(self) -> bytearray:
        """Put probes into every imported module of the core; return the bytes that they set, in the order of sites."""
        offset, reached = 0, bytearray(sum(len(sites_of(parsed(path))) for path in modules()))
        for path in modules():
            tree = parsed(path)
            count = len(sites_of(tree))
            names = _globals_of(path)
            if names is not None:
                names[REACHED] = reached
                self.swap(path, with_probes(tree, offset))
            offset += count
        return reached


def _globals_of(path: Path) -> dict[str, Any] | None:
    """Return the names of a module, if it has been imported."""
    name = ".".join(path.relative_to(CORE).with_suffix("").parts).removesuffix(".__init__")
    return vars(sys.modules[name]) if name in sys.modules else None


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the code of each function with its successor; of a function that lost a lambda, only the outer code."""
    yield old, new
    inner = [[constant for constant in code.co_consts if isinstance(constant, CodeType)] for code in (old, new)]
    if [code.co_qualname for code in inner[0]] == [code.co_qualname for code in inner[1]]:
        for before, after in zip(*inner, strict=True):
            yield from _pairs(before, after)
