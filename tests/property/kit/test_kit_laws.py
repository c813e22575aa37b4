"""Laws that a controller should keep: one that keeps them passes, each mistake is told by the law that it breaks."""

from collections.abc import Callable
from itertools import count
from typing import Any, TypeAlias

import attrs
import pytest

from purekube import Manifest
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.ports import KubeApi
from purekube.reconcilers import (
    Cause,
    Children,
    Desired,
    Node,
    Object,
    PureReconciler,
    Reconciler,
    Removal,
    Request,
    Result,
    Watcher,
    pure_reconciler,
    resource,
)
from purekube_kit import laws
from tests.support.box_site import example

NUMBERS = count()


@attrs.frozen
class NoteSpec:
    """A note."""

    text: str = ""


@attrs.frozen
class NoteStatus:
    """What is said of it."""

    said: str = ""


Note: TypeAlias = Object[NoteSpec, NoteStatus]
NOTE = resource("example.com", "v1", "Note", NoteSpec, NoteStatus)
HELLO = NOTE.new("hello", NoteSpec("hello"), namespace="default")


@attrs.frozen
class Notes(Reconciler[Note, str]):
    """Keeps a ConfigMap for each note, and a line in a book outside."""

    api: KubeApi
    book: dict[str, str] = attrs.field(factory=dict)
    kind = NOTE
    owns = (CONFIG_MAP,)

    async def reconcile(self, request: Request[Note, str]) -> Result[str]:
        note = request.object
        if request.deleting:
            self.book.pop(note.metadata.uid, None)
            return Result()
        self.book[note.metadata.uid] = note.spec.text
        await self.write(request)
        return Result(status=NoteStatus(note.spec.text))

    async def write(self, request: Request[Note, str]) -> None:
        await self.api.apply(self.wanted(request.object), kind=CONFIG_MAP, field_manager="notes", force=True)

    def wanted(self, note: Note) -> Manifest:
        meta = note.metadata
        owner = {
            "apiVersion": "example.com/v1",
            "kind": "Note",
            "name": meta.name,
            "uid": meta.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        manifest = {**CONFIG_MAP.manifest(meta.name, meta.namespace), "data": {"text": note.spec.text}}
        return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


class Restless(Notes):
    """Says something new each time, and asks to be called again."""

    async def reconcile(self, request: Request[Note, str]) -> Result[str]:
        await super().reconcile(request)
        return Result(requeue_after=30, status=NoteStatus(str(next(NUMBERS))))


class Pulsing(Notes):
    """The same, but seldom."""

    async def reconcile(self, request: Request[Note, str]) -> Result[str]:
        await super().reconcile(request)
        return Result(requeue_after=500, status=NoteStatus(str(next(NUMBERS)))) if not request.deleting else Result()


class Busy(Notes):
    """Cannot wait."""

    async def reconcile(self, request: Request[Note, str]) -> Result[str]:
        await super().reconcile(request)
        return Result(requeue_after=0)


class Numbered(Notes):
    """Says which process it is."""

    async def reconcile(self, request: Request[Note, str]) -> Result[str]:
        await super().reconcile(request)
        return Result(status=NoteStatus(request.state or str(next(NUMBERS))), state=request.state or "1")


class Hopeful(Notes):
    """Makes the ConfigMap once, and believes that it stays."""

    async def write(self, request: Request[Note, str]) -> None:
        if request.cause is Cause.CREATED:
            await super().write(request)


class Clinging(Notes):
    """Never lets go."""

    async def reconcile(self, request: Request[Note, str]) -> Result[str]:
        if request.deleting:
            raise ConnectionError("the book is locked")
        return await super().reconcile(request)


class Orphaning(Notes):
    """Forgets who owns what it makes."""

    def wanted(self, note: Note) -> Manifest:
        return {**CONFIG_MAP.manifest(note.metadata.name, note.metadata.namespace), "data": {"text": note.spec.text}}


class Littering(Notes):
    """Leaves its line in the book."""

    async def reconcile(self, request: Request[Note, str]) -> Result[str]:
        return Result() if request.deleting else await super().reconcile(request)


class Doubling(Notes):
    """Writes one more line each time."""

    async def write(self, request: Request[Note, str]) -> None:
        self.book[str(next(NUMBERS))] = ""
        await super().write(request)


def made(cls: type[Notes]) -> Any:
    """One without an API: it is given one where it runs."""
    api: Any = None
    return cls(api)


BOOK: Callable[[Any], Any] = lambda notes: sorted(notes.book.values())  # noqa: E731


def test_kit_finds_no_fault_with_a_reconciler_that_keeps_the_laws() -> None:
    laws.hold(made(Notes), HELLO, outside=BOOK)


@pytest.mark.parametrize(
    ("cls", "law"),
    [
        (Restless, "comes to rest"),
        pytest.param(Busy, "comes to rest", marks=pytest.mark.slow),
        (Pulsing, "writes nothing in the steady state"),
        (Numbered, "writes nothing after a restart"),
        (Hopeful, "forgets faults"),
        (Clinging, "goes when it is deleted"),
        (Orphaning, "takes everything with it"),
        (Littering, "leaves nothing outside"),
        (Doubling, "writes nothing after a restart"),
    ],
)
def test_kit_tells_which_law_is_broken(cls: type[Notes], law: str) -> None:
    with pytest.raises(laws.LawBroken) as broken:
        laws.hold(made(cls), HELLO, outside=BOOK)

    told = str(broken.value)
    assert told.startswith(f"the law “{law}” does not hold: ")
    assert "again: laws.hold(controller, object, seed=" in told
    assert "somebody creates Note default/hello" in told


def test_kit_lets_stay_what_a_pure_reconciler_declares_an_orphan() -> None:
    def noted(removal: Removal) -> PureReconciler[NoteSpec, NoteStatus]:
        @pure_reconciler(NOTE, owns=[CONFIG_MAP])
        def notes(self: Note, children: Children) -> Desired[NoteStatus]:
            return Desired([Node("text", CONFIG_MAP.manifest(self.metadata.name), removal=removal)], NoteStatus())

        return notes

    laws.hold(noted(Removal.DELETE), HELLO)
    laws.hold(noted(Removal.ORPHAN), HELLO)


class Readers(Watcher[Note]):
    """Hears of notes, and writes nothing."""

    kind = NOTE


@pytest.mark.slow
def test_kit_holds_watchers_and_boxes_to_their_laws() -> None:
    laws.hold(Readers(), HELLO)
    laws.hold(
        example("webapp"),
        {
            "apiVersion": "example.com/v1",
            "kind": "WebApp",
            "metadata": {"name": "shop", "namespace": "default"},
            "spec": {"image": "r/x:1"},
        },
    )


def test_kit_tries_the_same_faults_on_the_same_object() -> None:
    def told() -> str:
        with pytest.raises(laws.LawBroken) as broken:
            laws.hold(made(Hopeful), HELLO, seed=3)
        return str(broken.value)

    assert told() == told()
