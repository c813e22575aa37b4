"""The page docs/modules.md: every module of the product by room, with the first sentence of its docstring."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_PACKAGES: Final = (
    ("core", "core/vworkspace_core"),
    ("the app", "app/vworkspace_app"),
    ("adapter: Kubernetes", "adapters/kube/purekube_http"),
    ("adapter: Odoo", "adapters/odoo/vworkspace_odoo"),
    ("laboratory: the embedded API server", "adapters/fake/kubelab"),
    ("laboratory: simulated controllers and control plane", "adapters/fake/vworkspace_fake"),
    ("kit for users' tests", "kit/purekube_kit"),
    ("tools of the repository", "tools"),
)


def modules_page() -> str:
    """Return the page as Markdown."""
    parts = [_HEAD, *(_package(title, _ROOT / folder) for title, folder in _PACKAGES)]
    return "\n\n".join(parts) + "\n"


def _package(title: str, folder: Path) -> str:
    rooms = "\n\n".join(_room(room, folder) for room in _rooms(folder))
    return f"## {title[0].upper()}{title[1:]}: `{folder.relative_to(_ROOT)}`\n\n{rooms}"


def _rooms(folder: Path) -> Iterator[Path]:
    """Yield every folder with modules in it, the package itself first."""
    yield from (path for path in (folder, *sorted(folder.rglob("*/"))) if any(_modules(path)))


def _modules(room: Path) -> Iterator[Path]:
    yield from (path for path in sorted(room.glob("*.py")) if path.name != "__init__.py")


def _room(room: Path, folder: Path) -> str:
    name = room.relative_to(folder).as_posix()
    said = _first_sentence(room / "__init__.py")
    head = f"### {folder.name if name == '.' else name}"
    rows = "\n".join(f"| `{path.stem}` | {_first_sentence(path)} |" for path in _modules(room))
    return "\n\n".join(part for part in (head, said, f"| module | what it is |\n|---|---|\n{rows}") if part)


def _first_sentence(path: Path) -> str:
    """Return the first paragraph of a module's docstring; empty without one."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "" if path.exists() else ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


_HEAD: Final = """# Modules, room by room

Printed from the code by `make manifests`: what each module says of itself in its first sentence. One concept has one
word on every floor: what `core/…/jobs` decides, `app/…/jobs` drives, and `tests/property/jobs` attacks.
[architecture.md](architecture.md) says how the rooms stand to each other."""
