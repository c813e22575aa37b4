"""Checks of an examined operator, their verdicts, and the evidence for them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar

import attrs

C = TypeVar("C", contravariant=True)


class Verdict(StrEnum):
    """The outcome of a check: passed, failed, or not tried because a precondition was missing."""

    PASS = "pass"
    FAIL = "FAIL"
    NOT_TRIED = "not tried"


class Broken(Exception):
    """The error raised when the examined operator does not meet the clause (numbered requirement) of a check.

    `evidence` lists the requests, objects and times that show it.
    """

    def __init__(self, message: str, *evidence: object) -> None:
        super().__init__(message)
        self.message = message
        self.evidence = tuple(str(each) for each in evidence if each is not None)


class NotTried(Exception):
    """The error raised when a check could not be made, because a precondition is missing or an event did not happen."""


@attrs.frozen
class Check(Generic[C]):
    """A check whether an operator meets a clause (a numbered requirement).

    `sentence` states how a correct operator behaves. `needs` names what the check needs of the examination, such as
    `status` (a kind with a status subresource); without it the check is not tried. A check that is `alone` disturbs the
    process or the entire cluster, so no other check runs at the same time.
    """

    clause: str
    sentence: str
    body: Callable[[C], Awaitable[None]]
    needs: frozenset[str] = frozenset()
    alone: bool = False

    @property
    def name(self) -> str:
        """The name of the check's function, which is unique."""
        return getattr(self.body, "__name__", "")


@attrs.frozen
class Finding:
    """The result of one check: its verdict, a message, the evidence, and how many seconds the check took."""

    clause: str
    sentence: str
    verdict: Verdict
    message: str = ""
    evidence: tuple[str, ...] = ()
    seconds: float = 0.0
    check: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON data for a report."""
        data = attrs.asdict(self)
        return {**data, "verdict": self.verdict.value, "seconds": round(self.seconds, 2)}


class Catalogue(Generic[C]):
    """A collection of checks.

    The decorator `check` adds a function to it. The checks are in the order of their definition.
    """

    def __init__(self) -> None:
        self.checks: list[Check[C]] = []

    def check(
        self, clause: str, sentence: str, *, needs: Iterable[str] = (), alone: bool = False
    ) -> Callable[[Callable[[C], Awaitable[None]]], Callable[[C], Awaitable[None]]]:
        """Return a decorator that adds a function to this catalogue as a check.

        The arguments are the fields of `Check`.
        """

        def add(body: Callable[[C], Awaitable[None]]) -> Callable[[C], Awaitable[None]]:
            self.checks.append(Check(clause, sentence, body, frozenset(needs), alone))
            return body

        return add


def holds(condition: object, message: str, *evidence: object) -> None:
    """Raise Broken with the message and the evidence, unless the condition is true."""
    if not condition:
        raise Broken(message, *evidence)


def counts(findings: Sequence[Finding]) -> Mapping[Verdict, int]:
    """Return the number of findings for each verdict."""
    return {verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict}
