"""What the demo tells: lines with times, payloads and verdicts; colour on a terminal, plain text elsewhere."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.syntax import Syntax

from vworkspace_app.documents import Format, dump

__all__ = ["Stage", "Verdicts"]


@attrs.define
class Verdicts:
    """Every check that the demo made of what it showed."""

    passed: int = 0
    failures: list[str] = attrs.field(factory=list)

    def note(self, what: str, wanted: object, found: object) -> bool:
        """Compare; a difference is kept with both sides."""
        if wanted == found:
            self.passed += 1
            return True
        self.failures.append(f"{what}: wanted {wanted!r}, found {found!r}")
        return False


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Called while a BrokenPipeError is handled: it is the command's, which has more to tidy up than rich knows."""
        raise


class Stage:
    """Prints the timeline. `plain` turns colour and the live spinner off; so does output that is no terminal."""

    def __init__(self, *, plain: bool, payloads: bool) -> None:
        self._console = _Console(
            no_color=plain or None, force_terminal=False if plain else None, highlight=False, soft_wrap=True
        )
        self._payloads = payloads
        self._waiting_for = ""
        self.verdicts = Verdicts()

    @property
    def is_live(self) -> bool:
        """Whether somebody watches on a terminal."""
        return self._console.is_terminal

    def say(self, text: str) -> None:
        """A plain line."""
        self._console.print(escape(text))

    def act(self, title: str, about: str = "") -> None:
        """The heading of a part of the story."""
        self._console.print(f"\n[bold]{escape(title)}[/bold]" + (f"  {escape(about)}" if about else ""))

    def step(self, number: int | str, at: float, title: str, payload: Mapping[str, Any] | None = None) -> None:
        """One step with its time in milliseconds, and what was sent or stored."""
        self._console.print(f"[cyan]{at * 1000:7.0f} ms[/cyan]  [bold]{number}[/bold]  {escape(title)}")
        if payload is not None and self._payloads:
            self._show(payload)

    def _show(self, payload: Mapping[str, Any]) -> None:
        text = dump([payload], Format.YAML).rstrip()
        indented = "\n".join(" " * 15 + line for line in text.splitlines())
        if self.is_live:
            self._console.print(Syntax(indented, "yaml", background_color="default", word_wrap=False))
        else:
            self._console.print(escape(indented))

    def check(self, what: str, *, wanted: object, found: object) -> None:
        """Compare what was shown with what it should be, and say so."""
        if self.verdicts.note(what, wanted, found):
            self._console.print(f"            [green]ok[/green]  {escape(what)}")
        else:
            self._console.print(f"        [bold red]WRONG[/bold red]  {escape(self.verdicts.failures[-1])}")

    @contextmanager
    def live(self, draw: Callable[[str], RenderableType]) -> Iterator[None]:
        """Keep what `draw` gives (it is told what is waited for) below the lines; nothing where nobody watches."""
        if not self.is_live:
            yield
            return
        with Live(
            console=self._console, get_renderable=lambda: draw(self._waiting_for), refresh_per_second=10, transient=True
        ):
            yield

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Tell the live part what is waited for."""
        self._waiting_for = what
        try:
            yield
        finally:
            self._waiting_for = ""
