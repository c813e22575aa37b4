"""`tests/mutants.toml`: mutants that no test can kill, and functions that no fast test reaches, with reasons."""

import tomllib
from typing import Any, Final

import attrs

from tools.mutants.mutants import Mutant, Place
from tools.mutants.sites import ROOT

LIST: Final = ROOT / "tests" / "mutants.toml"


@attrs.frozen
class Equivalent:
    """A mutant that behaves as the original does."""

    module: str
    function: str
    statement: str
    mutant: str
    reason: str


@attrs.frozen
class Unreached:
    """The most statements of a room that no fast test of `tests/property` and `tests/unit` reaches, and what does."""

    room: str
    most: int
    reason: str


@attrs.frozen
class Listed:
    """The content of the file."""

    equivalent: tuple[Equivalent, ...]
    unreached: tuple[Unreached, ...]

    def allows(self, mutant: Mutant) -> bool:
        """Return whether a mutant is listed as equivalent."""
        place = mutant.place
        key = (module_of(place), place.site.function, place.site.text, mutant.after)
        return any(key == (entry.module, entry.function, entry.statement, entry.mutant) for entry in self.equivalent)


def listed() -> Listed:
    """Read the file."""
    content: dict[str, list[dict[str, Any]]] = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return Listed(
        tuple(Equivalent(**entry) for entry in content.get("equivalent", ())),
        tuple(Unreached(**entry) for entry in content.get("unreached", ())),
    )


def module_of(place: Place) -> str:
    """Return the path of the place's module below `core/`."""
    return str(place.path.relative_to(ROOT / "core"))


def entry_of(mutant: Mutant) -> str:
    """Return the entry for a mutant, without its reason, to be copied into the file."""
    place = mutant.place
    rows = {
        "module": module_of(place),
        "function": place.site.function,
        "statement": place.site.text,
        "mutant": mutant.after,
    }
    return "\n".join(["[[equivalent]]", *(f"{name} = '''{text}'''" for name, text in rows.items())])
