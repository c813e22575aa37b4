"""The printer of the demo's output: steps with their times, payloads and checks, and on a terminal a live display."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import attrs
from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape

from purekube_run.process.yaml_documents import Format, dump


@attrs.define
class Verdicts:
    """The results of all checks that the demo makes: how many passed, and a text for each that failed.

    `passed_over` counts the parts of the demo that were left out.
    """

    passed: int = 0
    passed_over: int = 0
    failures: list[str] = attrs.field(factory=list)

    def note(self, what: str, desired: object, actual: object) -> bool:
        """Record a check named `what`. Return True if it passes, which means that the two values are equal.

        For a failed check both values are recorded.
        """
        if desired == actual:
            self.passed += 1
            return True
        self.failures.append(f"{what}: wanted {desired!r}, found {actual!r}")
        return False


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError again that is being handled.

        The method of rich would exit, but the command handles it.
        """
        raise


_MARGIN: Final = 15
_WIDEST: Final = 100


class Stage:
    """The printer of the demo: steps with their times, payloads, and results of checks.

    `plain` turns off colours and the live display; both are also off if the output is not a terminal. `payloads` prints
    the payloads of steps. Long lines are wrapped at the terminal's width.
    """

    def __init__(self, *, plain: bool, payloads: bool) -> None:
        self._console = _Console(
            no_color=plain or None, force_terminal=False if plain else None, highlight=False, soft_wrap=True
        )
        self._payloads = payloads
        self._waiting_for = ""
        self.verdicts = Verdicts()

    @property
    def is_live(self) -> bool:
        """Report whether the live display is possible: the output is a terminal, and not plain."""
        return self._console.is_terminal

    def say(self, text: str) -> None:
        """Print a line unchanged, so that a command can be copied."""
        self._console.print(text, markup=False)

    def act(self, title: str, about: str = "") -> None:
        """Print the heading of an act of the story, and below it the text `about`."""
        self._console.print(f"\n[bold]{escape(title)}[/bold]")
        if about:
            self._console.print(escape(self._wrapped(about, 0)))

    def _wrapped(self, text: str, margin: int) -> str:
        """Return a text wrapped to the terminal's width.

        All lines except the first are indented by `margin` columns.
        """
        width = max(40, min(self._console.width, _WIDEST)) - margin
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
        return ("\n" + " " * margin).join(lines)

    def step(self, number: int | str, at: float, title: str, payload: Mapping[str, Any] | None = None) -> None:
        """Print one step of the story: its time, number and title, and `payload` if the stage is to show payloads.

        `at` is the time since the start in seconds.
        """
        margin = len(f"{at * 1000:7.0f} ms  {number}  ")
        text = escape(self._wrapped(title, margin))
        self._console.print(f"[dim]{at * 1000:7.0f} ms[/dim]  [bold]{number}[/bold]  {text}")
        if payload is not None and self._payloads:
            self._show(payload)

    def _show(self, payload: Mapping[str, Any]) -> None:
        text = dump([payload], Format.YAML).rstrip()
        self._console.print(textwrap.indent(text, " " * _MARGIN), markup=False)

    def check(self, what: str, *, wanted: object, actual: object) -> None:
        """Check that `actual` equals `wanted`, and print the result with the check's name `what`."""
        if self.verdicts.note(what, wanted, actual):
            self._console.print(f"            [green]ok[/green]  {escape(self._wrapped(what, 16))}")
        else:
            text = self._wrapped(self.verdicts.failures[-1], _MARGIN)
            self._console.print(f"        [bold red]WRONG[/bold red]  {escape(text)}")

    def passed_over(self, what: str, why: str) -> None:
        """Print that a part of the demo is left out, and why. This does not count as a check."""
        self.verdicts.passed_over += 1
        self.say(self._wrapped(f"passed over: {what}: {why}", 0))

    def verdict(self) -> None:
        """Print the result of all checks, with each failed check."""
        passed, failures = self.verdicts.passed, self.verdicts.failures
        self.say("")
        if not failures:
            skipped = self.verdicts.passed_over
            self.say(f"all {passed} checks hold" + (f"; {skipped} parts were passed over" if skipped else ""))
            return
        self.say(f"{len(failures)} of {passed + len(failures)} checks do not hold:")
        for failure in failures:
            self.say(f"  {failure}")

    @contextmanager
    def live(self, draw: Callable[[str], RenderableType]) -> Iterator[None]:
        """Show a live display below the printed lines while the block runs.

        `draw` gets a text about the event for which the story waits, and returns the drawing. Without a terminal
        nothing is drawn.
        """
        if not self.is_live:
            yield
            return
        with Live(
            console=self._console, get_renderable=lambda: draw(self._waiting_for), refresh_per_second=10, transient=True
        ):
            yield

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """While the block runs, show in the live display that the story waits for `what`."""
        self._waiting_for = what
        try:
            yield
        finally:
            self._waiting_for = ""
