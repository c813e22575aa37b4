"""PH-9: ownership, drift, prune, teardown and create once have one implementation each, whoever uses it.

That the decisions stayed what they were, to the byte, is held by `tests/corpus`.
"""

import ast
from pathlib import Path

import pytest

import vworkspace_core
from purekube.apimachinery.manifest import metadata
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.graph.removal import PruneCandidate, next_wave
from tests.support.instance_worlds import deployed, scene

CORE = Path(vworkspace_core.__file__).parent
USERS = ("instances", "boxes", "operations")


def calls(room: str) -> set[tuple[str, str]]:
    """Names that are called in a room, each with its module."""
    return {
        (node.func.id, path.stem)
        for path in sorted((CORE / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


@pytest.mark.parametrize("room", USERS)
def test_only_the_engine_decides_on_deletes_PH_9(room: str) -> None:
    """But for the one engine object of an Operation, which is stopped at exactly the version that was looked at."""
    assert {module for name, module in calls(room) if name == "Delete"} <= {"lifecycle"}


@pytest.mark.parametrize("room", USERS)
def test_the_lock_of_create_once_is_written_in_one_place_PH_9(room: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (CORE / room).rglob("*.py")]

    assert not any("vworkspace.io/unrecorded" in text for text in texts)


def test_a_release_goes_before_what_it_read_as_a_wave_does_PH_9() -> None:
    """REC-10 by the engine's waves: the release has one of its own."""
    world = scene(deployed())
    prune_candidates = [
        PruneCandidate(ref, live, int(ref.kind == HELM_RELEASE)) for ref, live in world.observed.objects.items()
    ]

    assert [prune_candidate.ref.kind for prune_candidate in next_wave(prune_candidates)] == [HELM_RELEASE]
    assert all(not metadata(prune_candidate.live).get("deletionTimestamp") for prune_candidate in prune_candidates)
