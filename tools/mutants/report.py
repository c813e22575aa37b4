"""The table of `make mutants`, room by room."""

from collections import Counter
from collections.abc import Iterable

from tools.mutants.mutants import Mutant, Place, Verdict

Results = dict[Mutant, tuple[Verdict, str]]


def table(places: Iterable[Place], reached: bytes, results: Results) -> str:
    """Return a row for each room, the worst first, and one for the whole core."""
    sites, hit, tried, killed = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for place in places:
        for room in (place.room, "all rooms"):
            sites[room] += 1
            hit[room] += bool(reached[place.reach])
    for mutant, (verdict, _) in results.items():
        for room in (mutant.place.room, "all rooms"):
            tried[room] += 1
            killed[room] += verdict is not Verdict.SURVIVED

    def share(room: str) -> float:
        return killed[room] / tried[room] if tried[room] else 1.0

    rooms = sorted(sites, key=lambda room: (room == "all rooms", share(room), room))
    rows: list[tuple[str, ...]] = [("room", "statements", "unreached", "mutants", "survived", "killed")]
    for room in rooms:
        score = f"{share(room):.0%}" if tried[room] else ""
        survived = tried[room] - killed[room]
        rows.append((room, *map(str, (sites[room], sites[room] - hit[room], tried[room], survived)), score))
    return "\n".join(f"{row[0]:16}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows)


def unreached(places: Iterable[Place], reached: bytes) -> dict[tuple[str, str], list[Place]]:
    """Return the places that no test reaches, by module and function."""
    found: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        if not reached[place.reach]:
            found.setdefault((str(place.path), place.site.function), []).append(place)
    return found
