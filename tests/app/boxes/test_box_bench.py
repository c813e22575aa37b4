"""What `bench.boxes` measures is a box that works: five objects, and no write once they are there (REC-6)."""

import pytest

from bench.boxes import large_box, plain_box, settled_world


@pytest.mark.slow
def test_the_measured_box_comes_to_be_ready_and_writes_nothing_then() -> None:
    with settled_world() as world:
        applies = sum("apply " in line for line in world.timeline)
        written = world.writes

        world.run(3600)

        assert (applies, world.writes - written) == (5, 0)
    assert written <= 10, "finalizer, five applies, a status whenever another child is waited for"


def test_the_large_boxes_are_as_large_as_they_say() -> None:
    assert large_box(20).count("${") >= 200
    assert plain_box("plain", 5, "crd.yaml").count('"kind": "ConfigMap"') == 5
