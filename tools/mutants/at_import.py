"""Sites that run when the core is imported: `python -m tools.mutants.at_import` prints a byte for each.

Classes and tables are built by functions of the core; no mutant of these can be swapped in later, and no test is needed
to reach them.
"""

import importlib
import importlib.abc
import importlib.machinery
import subprocess
import sys
from pathlib import Path
from types import CodeType
from typing import Any

from tools.mutants.sites import CORE, REACHED, ROOT, modules, parsed, sites_of, with_probes


class _Probing(importlib.machinery.SourceFileLoader):
    """A loader of a module of the core with probes, numbered from `offset`."""

    def __init__(self, name: str, path: str, offset: int, reached: bytearray) -> None:
        super().__init__(name, path)
        self._offset, self._reached = offset, reached

    def get_code(self, fullname: str) -> CodeType:
        """Compile the module with its probes."""
        return compile(with_probes(parsed(Path(self.path)), self._offset), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: Any) -> None:
        """Run the module with the bytes that its probes set."""
        vars(module)[REACHED] = self._reached
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """A finder of modules of the core."""

    def __init__(self) -> None:
        self.offsets: dict[str, int] = {}
        offset = 0
        for path in modules():
            self.offsets[str(path)] = offset
            offset += len(sites_of(parsed(path)))
        self.reached = bytearray(offset)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Find a module of the core, to be loaded with probes."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin in self.offsets:
            spec.loader = _Probing(fullname, spec.origin, self.offsets[spec.origin], self.reached)
        return spec


def reached_at_import() -> bytes:
    """Return for each site whether it runs when every module of the core is imported, in a process of its own."""
    command = [sys.executable, "-m", "tools.mutants.at_import"]
    return bytes.fromhex(subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout)


def main() -> None:
    """Import the core with probes, and print what they have set."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    for path in modules():
        name = ".".join(path.relative_to(CORE).with_suffix("").parts).removesuffix(".__init__")
        importlib.import_module(name)
    print(finder.reached.hex())


if __name__ == "__main__":
    main()
