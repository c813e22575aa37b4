"""A `KubeApi` that fails where a test says, before or after the call had its effect, or ends the process there."""

from collections.abc import Callable
from typing import Any

import attrs

from purekube.apimachinery.errors import Unavailable

__all__ = ["Crash", "Cut", "FaultyKube", "calm"]


class Crash(BaseException):
    """The process ended here: no handler of the product may catch this."""


@attrs.frozen
class Cut:
    """What befalls one call: an end of the process or no answer, before or after its effect."""

    after: bool
    crash: bool


Fault = Callable[[str], Cut | None]


def calm(verb: str) -> Cut | None:
    """No fault."""
    return None


class FaultyKube:
    """The calls of `api`, each asked for its fault first. `calls` are the verbs so far; `watch` has no faults."""

    def __init__(self, api: Any, fault: Fault = calm) -> None:
        self._api = api
        self.fault = fault
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._api, name)
        if name not in ("get", "list", "create", "update", "apply", "apply_status", "patch", "delete"):
            return call

        async def faulty(*args: Any, **named: Any) -> Any:
            self.calls.append(name)
            cut = self.fault(name)
            if cut is not None and not cut.after:
                raise _strike(cut)
            found = await call(*args, **named)
            if cut is not None:
                raise _strike(cut)
            return found

        return faulty

    def strike_at(self, number: int, cut: Cut) -> None:
        """Have `cut` at the call of that number from now on, counted from 1."""
        left = number

        def fault(verb: str) -> Cut | None:
            nonlocal left
            left -= 1
            return cut if left == 0 else None

        self.fault = fault


def _strike(cut: Cut) -> BaseException:
    return Crash() if cut.crash else Unavailable("no answer")
