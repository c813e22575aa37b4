"""Simulated controllers as a pollable machine: `tick(now)` does everything that is due, and nothing runs in between.

What the machine observes and does is its own; here is what every one of them needs: listing what it watches, working
until nothing follows from it any more, and letting time pass until it comes to rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Final

from vworkspace_apiserver.inprocess import run_sync
from vworkspace_core.apimachinery.errors import KindMissing
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from vworkspace_core.ports import KubeApi

_MAX_STEPS: Final = 10_000
_PAGE: Final = 500


class Polled(ABC):
    """A set of simulated controllers on one API. `title` names them in errors."""

    title: ClassVar[str] = "the simulated controllers"

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._look_again: Callable[[], None] = lambda: None

    def tell_with(self, look_again: Callable[[], None]) -> None:
        """Have `look_again` called when something came to be due other than by what is observed."""
        self._look_again = look_again

    @property
    @abstractmethod
    def watched(self) -> Sequence[tuple[Kind, str]]:
        """The kinds that are listed and watched, each with its label selector."""

    @abstractmethod
    def observe(self, kind: Kind, manifest: Manifest, now: datetime) -> None:
        """Take in one object as it is now."""

    @abstractmethod
    def forget(self, ref: ObjectRef, now: datetime) -> None:
        """Take in that an object is gone."""

    @abstractmethod
    async def work(self, now: datetime) -> bool:
        """Do what is due at `now`; whether there was anything."""

    @abstractmethod
    def next_work(self) -> datetime | None:
        """When something other than a regular interval is due next: an action's end, a retry, a wait."""

    @property
    @abstractmethod
    def world(self) -> Mapping[ObjectRef, Manifest]:
        """The objects as they were last observed."""

    def known(self, kind: Kind) -> Sequence[ObjectRef]:
        """References to the observed objects of a kind."""
        return tuple(ref for ref in self.world if ref.kind == kind)

    def tick(self, now: datetime) -> None:
        """Observe and do everything that is due at `now`. Only for an API that never suspends."""
        run_sync(self.advance(now))

    def run_until_quiet(self, now: datetime, *, horizon: float = 86_400.0) -> datetime:
        """Let time pass until no work is left but regular intervals; the time then.

        Raises TimeoutError when that takes more than `horizon` seconds. Only for an API that never suspends.
        """
        limit = now + timedelta(seconds=horizon)
        self.tick(now)
        while (following := self.next_work()) is not None:
            now = max(now, following)
            if now > limit:
                raise TimeoutError(f"{self.title} still had work after {horizon} seconds")
            self.tick(now)
        return now

    async def advance(self, now: datetime) -> None:
        """Observe, and do everything that is due at `now`, until nothing more follows from it."""
        for _ in range(_MAX_STEPS):
            await self.refresh(now)
            if not await self.work(now):
                return
        raise RuntimeError(f"no end of work for {self.title}")

    async def refresh(self, now: datetime) -> None:
        """List everything that is watched and take in what changed."""
        seen: set[ObjectRef] = set()
        for kind, selector in self.watched:
            for manifest in await self.list_all(kind, selector=selector):
                seen.add(ref_of(manifest, kind))
                self.observe(kind, manifest, now)
        for ref in self.world.keys() - seen:
            self.forget(ref, now)

    async def list_all(self, kind: Kind, namespace: str | None = None, selector: str = "") -> Sequence[Manifest]:
        """Every object of a kind; none where the kind is not served."""
        items: list[Manifest] = []
        token = ""
        while True:
            try:
                page = await self._api.list(
                    kind, namespace=namespace, label_selector=selector, limit=_PAGE, continue_token=token
                )
            except KindMissing:
                return ()
            items.extend(page.items)
            token = page.continue_token
            if not token:
                return items
