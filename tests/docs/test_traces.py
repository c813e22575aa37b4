"""docs/traces.md: its picture is of a trace that the operator sent (SEE-7).

`python -m tests.docs.test_traces` draws the picture again.
"""

from collections.abc import Iterator
from typing import Any, Final

from kubelab.flux import FluxBehaviour
from tests.app.manager.test_tracer import Collector, traced
from tests.docs.markdown import ROOT
from tests.e2e.day.picture import IMAGES, drawn, words
from tests.support.e2e_world import World
from vworkspace_core.overview.traces import _STAGES

PICTURE: Final = IMAGES / "trace.svg"
FLUX: Final = FluxBehaviour(source_fetch_seconds=2, install_seconds=6)
_NAMES, _BARS = 36, 40


def picture() -> str:
    """Return the picture of a job's trace."""

    async def story(world: World, _: Collector) -> None:
        await world.ready()
        await world.clock.sleep(10)

    seen = traced(story, behaviour=FLUX)
    return drawn("a trace of one job", "trace", _lines(seen, seen.named("job")))


def _lines(seen: Collector, whole: Any) -> Iterator[str]:
    seconds = (whole.end_time_unix_nano - whole.start_time_unix_nano) / 1e9
    yield f"{'':{_NAMES}}0 s{f'{seconds:.1f} s':>{_BARS - 3}}"
    yield from _below(seen, whole, whole, 0)


def _below(seen: Collector, span: Any, whole: Any, depth: int) -> Iterator[str]:
    total = whole.end_time_unix_nano - whole.start_time_unix_nano
    start, end = (
        round(_BARS * (at - whole.start_time_unix_nano) / total)
        for at in (span.start_time_unix_nano, span.end_time_unix_nano)
    )
    bar = "█" * (end - start) or "▏"
    yield f"{'  ' * depth + span.name:{_NAMES}}{' ' * min(start, _BARS - 1)}{bar}"
    children = [each for each in seen.spans if each.parent_span_id == span.span_id]
    for child in sorted(children, key=lambda each: each.start_time_unix_nano):
        yield from _below(seen, child, whole, depth + 1)


def test_the_picture_is_of_a_trace_that_was_sent() -> None:
    assert words(picture()) == words(PICTURE.read_text(encoding="utf-8"))


def test_the_page_names_every_stage_of_a_job() -> None:
    page = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
    assert [name for name in (*_STAGES.values(), "delete") if f"`{name}`" not in page] == []


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
