"""Checks for controllers of every kind, from Kubernetes' API conventions, KEP-1623, and known mistakes of controllers.

A controller's children are the objects that it created according to its recorded requests.
"""

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio

from purekube.apimachinery.conditions import conditions_by_type
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube_run.examination.audit import RecordedRequest
from purekube_run.examination.controller_case import ControllerCase
from purekube_run.examination.examination import HUMAN
from purekube_run.examination.objects import (
    APART,
    FOREIGN_CONDITION,
    holds_form,
    holds_times,
    is_owned_by,
    observed_generation,
    shown,
)
from purekube_run.examination.patience import no_wait
from purekube_run.examination.verdicts import Broken, Catalogue, NotTried, holds

_SUMMARIES: Final = ("Ready", "Available", "Succeeded", "Healthy", "Synced")
"""The usual types of a condition that summarizes all others."""

CHECKS: Final[Catalogue[ControllerCase]] = Catalogue()
"""The checks for controllers of every kind."""
check = CHECKS.check


# --- progress and idempotency ----------------------------------------------------------------------------------------


@check("progress", "a new object causes a write: of a child, a status, a finalizer")
async def progress(c: ControllerCase) -> None:
    await c.create()
    await c.works("a write of the controller")


@check("progress", "an object that was created while the controller was down is worked on", alone=True)
async def down(c: ControllerCase) -> None:
    c.examination.operator.kill()
    await c.create()
    await c.examination.start()
    await c.works("a write about an object that was created while it was down")


@check("idempotency", "a deleted child is created again")
async def deleted_child(c: ControllerCase) -> None:
    ref = await c.owned_child()
    number = c.audit.number
    former = get_path(await c.get(ref) or {}, "metadata", "uid")
    await c.delete(ref)

    async def again() -> bool:
        uid = get_path(await c.get(ref) or {}, "metadata", "uid")
        return uid not in (None, former) or bool(c.made(number))

    await c.until(f"another {ref}", again)


@check("idempotency", "the same object, created again, has as many children of the same kinds")
async def same_twice(c: ControllerCase) -> None:
    children = await c.children()
    await c.removed()
    for ref in children:
        await c.delete(ref)
        await c.absent(ref)
    number = c.audit.number
    await c.create()
    await c.worked(number)
    await c.settled()
    first, second = _plurals(children), _plurals(c.made(number))
    holds(first == second, f"first {first}, then {second}")


def _plurals(refs: Mapping[ObjectRef, RecordedRequest]) -> list[str]:
    return sorted(ref.kind.plural for ref in refs)


# --- silence ---------------------------------------------------------------------------------------------------------


@check("silence", "the controller comes to rest")
async def rest(c: ControllerCase) -> None:
    await c.create()
    await c.worked()
    await c.settled()


@check("silence", "an annotation that means nothing causes no write")
async def touched(c: ControllerCase) -> None:
    await c.managed()
    number = c.audit.number
    for turn in range(3):
        await c.edit(c.ref, {"metadata": {"annotations": {"example.com/touched": str(turn)}}})
        await anyio.sleep(c.quiet / 3)
    await anyio.sleep(c.quiet / 2)
    wrote = [call for call in c.writes(number) if not _is_bookkeeping(call)]
    holds(not wrote, f"{len(wrote)} writes after nothing that matters had changed", *wrote[:3])


def _is_bookkeeping(call: RecordedRequest) -> bool:
    """Report whether a write changes only annotations, in which controllers such as kopf store their own state."""
    body: Any = call.body
    only = isinstance(body, Mapping) and set(body) == {"metadata"} and isinstance(body["metadata"], Mapping)
    return only and set(body["metadata"]) <= {"annotations", "resourceVersion"}


@check("silence", "a restart writes nothing", alone=True)
async def restart(c: ControllerCase) -> None:
    await c.managed()
    number = c.audit.number
    await c.examination.restart()
    await c.at_work()
    await anyio.sleep(c.quiet)
    wrote = c.writes(number)
    holds(not wrote, f"{len(wrote)} writes after a restart", *wrote[:3])


# --- generation and conditions ---------------------------------------------------------------------------------------


@check("generation", "the status names the generation that it was made from", needs=["status"])
async def generation(c: ControllerCase) -> None:
    live = await c.managed()
    holds(observed_generation(live), "neither status nor a condition has observedGeneration", shown(live))


@check("generation", "after an edit observedGeneration follows, and does not go back", needs=["status", "edited"])
async def generation_follows(c: ControllerCase) -> None:
    if not observed_generation(await c.managed()):
        raise NotTried("its status has no observedGeneration")
    generation = await c.edit_spec()

    async def follows() -> bool:
        return observed_generation(await c.live()) >= generation  # a controller may fill in the spec itself

    await c.until(f"observedGeneration {generation}", follows)
    numbers = [observed_generation(call.answer) for call in c.work() if call.concerns(c.ref)]
    seen = [number for number in numbers if number]
    holds(seen == sorted(seen), f"observedGeneration went {seen}")


@check("generation", "an edit of the spec causes a write", needs=["edited"])
async def edit(c: ControllerCase) -> None:
    await c.managed()
    number = c.audit.number
    await c.edit_spec()
    await c.works("a write after an edit of the spec", number)


async def _conditions(c: ControllerCase) -> Mapping[str, Mapping[str, Any]]:
    conditions = conditions_by_type(await c.managed())
    if not conditions:
        raise Broken("the status has no conditions", *await c.evidence_now())
    return conditions


@check(
    "conditions",
    "conditions have the fields of KEP-1623: type, status, reason, message, lastTransitionTime",
    needs=["status"],
)
async def form(c: ControllerCase) -> None:
    holds_form(await _conditions(c))


@check(
    "conditions", "lastTransitionTime moves with the status of a condition, and only then", needs=["status", "edited"]
)
async def transition_time(c: ControllerCase) -> None:
    await _conditions(c)
    await anyio.sleep(APART + 0.1)
    number = c.audit.number
    await c.edit_spec()
    await c.worked(number)
    await c.settled()
    holds_times([call for call in c.work() if call.concerns(c.ref)])


@check("conditions", "there is a condition that sums up", needs=["status"])
async def summary(c: ControllerCase) -> None:
    conditions = await _conditions(c)
    holds(set(_SUMMARIES) & conditions.keys(), f"none of {', '.join(_SUMMARIES)} is among {', '.join(conditions)}")


@check("conditions", "a condition of another writer stays", needs=["status", "edited"])
async def foreign_condition(c: ControllerCase) -> None:
    await _conditions(c)
    status = {"conditions": [*get_path(await c.live(), "status", "conditions"), FOREIGN_CONDITION]}
    try:
        await c.edit(c.ref, {"status": status}, "status")
    except OperatorError as error:
        raise NotTried(f"the schema has no room for another condition: {error.message}") from error
    number = c.audit.number
    await c.edit_spec()
    wrote = no_wait(lambda: any(call.concerns(c.ref, "status") for call in c.work(number)))
    await c.required("a write of the status after the edit", wrote)
    await c.settled()
    holds(FOREIGN_CONDITION["type"] in conditions_by_type(await c.live()), "the condition of another writer is gone")


# --- ownership -------------------------------------------------------------------------------------------------------


@check("ownership", "children have an owner reference to their object, with its uid")
async def owners(c: ControllerCase) -> None:
    for ref, call in (await c.children()).items():
        live = await c.get(ref)
        if live is not None and ref.namespace == c.ref.namespace:
            holds(is_owned_by(live, c.uid), f"{ref} has no owner reference with the uid of its object", call)


@check("ownership", "every write has a field manager of its own, and one only")
async def managers(c: ControllerCase) -> None:
    await c.managed()
    managers = {call.manager for call in c.work() if call.verb != "delete"}
    holds(len(managers) == 1, f"the field managers are {sorted(managers)}")
    holds(not managers & {"", "Mozilla", "python-requests", "main"}, f"the field manager is {sorted(managers)}")


@check("ownership", "labels and annotations of others on a child stay", needs=["edited"])
async def foreign_metadata(c: ControllerCase) -> None:
    ref = await c.owned_child()
    marks = {"annotations": {"example.com/note": "mine"}, "labels": {"example.com/team": "ours"}}
    await c.edit(ref, {"metadata": marks})
    number = c.audit.number
    await c.edit_spec()
    await c.worked(number)
    await c.settled()
    live = await c.get(ref) or {}
    values = (
        get_path(live, "metadata", "annotations", "example.com/note"),
        get_path(live, "metadata", "labels", "example.com/team"),
    )
    holds(values == ("mine", "ours"), f"annotation and label of a person on {ref} are now {values}")


@check("ownership", "an unrelated object that has a child's name is not overwritten")
async def foreign_child(c: ControllerCase) -> None:
    ref = await c.owned_child()
    former = {_place(each) for each in c.made()}
    theirs = copy.deepcopy(dict(await c.get(ref) or {}))
    await c.removed()
    await c.absent(ref)
    meta = {"name": ref.name, "namespace": ref.namespace, "annotations": {"example.com/owner": "another team"}}
    theirs = {key: value for key, value in theirs.items() if key != "status"} | {"metadata": meta}
    made = await c.api.create(theirs, kind=ref.kind, field_manager=HUMAN)
    number = c.audit.number
    await c.create()
    await c.required("a write about the object, or an Event", c.acted(number))
    await anyio.sleep(c.quiet)
    others = [each for each in c.made(number) if each.kind.plural == ref.kind.plural and _place(each) not in former]
    if others:
        raise NotTried(f"its children have other names each time, as {others[0]}")
    live = await c.get(ref) or {}
    same = get_path(live, "metadata", "uid") == get_path(made, "metadata", "uid")
    taken = [call for call in c.work(number) if call.concerns(ref)]
    holds(same and not is_owned_by(live, c.uid), f"{ref}, which was made by others, was taken over", *taken)


def _place(ref: ObjectRef) -> tuple[str, str | None, str]:
    return ref.kind.plural, ref.namespace, ref.name


# --- deletion --------------------------------------------------------------------------------------------------------


async def _finalizers(c: ControllerCase) -> list[str]:
    """Create the sample, and return its finalizers once the controller is at rest. Raises NotTried if it has none."""
    names: Any = get_path(await c.managed(), "metadata", "finalizers") or []
    if not names:
        raise NotTried("the controller uses no finalizer")
    return list(names)


@check("finalizers", "finalizers have a name with a domain, and others' finalizers stay")
async def finalizers(c: ControllerCase) -> None:
    names = await _finalizers(c)
    holds(all("/" in name for name in names), f"a finalizer without a domain: {names}")
    await c.edit(c.ref, {"metadata": {"finalizers": [*names, "example.com/hold"]}})
    number = c.audit.number
    await c.delete(c.ref)
    await c.required("a write of the object after its deletion", no_wait(lambda: bool(c.work(number))))
    await anyio.sleep(c.quiet)
    live = await c.get(c.ref)
    left: Any = get_path(live or {}, "metadata", "finalizers") or []
    if live is not None:
        await c.edit(c.ref, {"metadata": {"finalizers": [name for name in left if name != "example.com/hold"]}})
    holds("example.com/hold" in left, "the finalizer of another writer was removed")


@check("finalizers", "the finalizer is there before the first child")
async def finalizer_first(c: ControllerCase) -> None:
    await _finalizers(c)
    children = list((await c.children()).values())
    protected = [
        call for call in c.work() if call.concerns(c.ref) and get_path(call.answer or {}, "metadata", "finalizers")
    ]
    early = not protected or protected[0].number > children[0].number
    holds(not early, "a child came before the finalizer", *protected[:1], children[0])


@check("deletion", "a deleted object goes")
async def deletion(c: ControllerCase) -> None:
    await c.managed()
    await c.removed()


@check("deletion", "what was made for an object goes with it")
async def children_go(c: ControllerCase) -> None:
    children = await c.children()
    await c.removed()
    for ref in children:
        await c.collected(ref)


@check("deletion", "an object that is deleted while it is being made goes, with everything")
async def early_deletion(c: ControllerCase) -> None:
    await c.create()
    await c.worked()
    await c.removed()
    await c.settled()
    for ref in c.made():
        await c.collected(ref)


@check("deletion", "an object that is deleted while the controller is down goes", alone=True)
async def deleted_while_down(c: ControllerCase) -> None:
    await c.managed()
    c.examination.operator.kill()
    await c.delete(c.ref)
    await c.examination.start()
    await c.gone(c.ref, "the end of an object that was deleted while it was down")


# --- faults ----------------------------------------------------------------------------------------------------------


@check("crash", "killed before or after each of its writes, it ends where it would have ended", alone=True)
async def crashes(c: ControllerCase) -> None:
    await c.managed()
    expected = _plurals(c.made())
    points = dict.fromkeys((call.verb, call.path.plural, call.path.subresource) for call in c.work())
    for point in points:
        for after in (False, True):
            await _killed_at(c, point, after, expected)


async def _killed_at(c: ControllerCase, point: tuple[str, str, str], after: bool, expected: Sequence[str]) -> None:
    verb, plural, subresource = point
    text = f"killed {'after' if after else 'before'} {verb} {plural}{'/' * bool(subresource)}{subresource}"
    await c.removed()
    for ref in c.made():
        await c.absent(ref)
    number = c.audit.number

    def matches(call: RecordedRequest) -> bool:
        return c.is_work(call) and (call.verb, call.path.plural, call.path.subresource) == point

    with c.proxy.fault(text, matches, kill=True, after=after, times=1) as fault:
        await c.create()
        await c.met(fault, f"a write {verb} {plural}")
    await c.examination.start()

    async def there() -> list[str]:
        return sorted([ref.kind.plural for ref in c.made(number) if await c.get(ref) is not None])

    async def complete() -> bool:
        return await there() == list(expected)

    await c.seen(complete, 2 * c.patience)
    await anyio.sleep(c.quiet / 3)
    plurals = await there()
    holds(plurals == list(expected), f"{text}: there is {plurals}, not {list(expected)}", *fault.hits)


@check("staleness", "while its cache is stale the controller makes nothing twice", alone=True, needs=["edited"])
async def stale(c: ControllerCase) -> None:
    plurals = set(_plurals(await c.children()))
    before, number = c.proxy.events_held, c.audit.number
    with c.proxy.watches_held(lambda call: call.path.plural in plurals):
        await c.edit_spec()
        await c.worked(number)
        await anyio.sleep(c.quiet)
    again = c.made(number)
    if c.proxy.events_held == before:
        raise NotTried("its stimulus did not come about: an event of a watch of its children")
    c.evidence.append(f"{c.proxy.events_held - before} watches were held back")
    await c.settled()
    kinds = Counter(_plurals(again))
    if max(kinds.values(), default=0) > 1:  # the edit itself may ask for several
        holds(kinds <= await _made_by_the_edit(c), "objects were made twice from a stale cache", *again.values())


async def _made_by_the_edit(c: ControllerCase) -> Counter[str]:
    """Return how many objects of which kinds the edit makes on a new sample, when nothing disturbs the controller."""
    former = c.made()
    await c.removed()
    for ref in former:
        await c.absent(ref)
    await c.managed()
    number = c.audit.number
    await c.edit_spec()
    await c.worked(number)
    await c.settled()
    return Counter(_plurals(c.made(number)))


@check("staleness", "an edit while the watches are cut is seen", alone=True, needs=["edited"])
async def cut(c: ControllerCase) -> None:
    await c.managed()
    if not c.proxy.cut_watches(lambda call: True):
        raise NotTried("its stimulus did not come about: there was no watch to cut")
    number = c.audit.number
    await c.edit_spec()
    await c.works("a write after an edit while the watches were cut", number)


@check("retries", "refused writes are tried again with growing pauses, and succeed in the end")
async def retries(c: ControllerCase) -> None:
    with c.proxy.fault("500 for every write", c.is_work, status=500) as fault:
        await c.create()
        await c.met(fault, "a write")
        await c.seen(no_wait(lambda: len(fault.hits) >= 2))  # one that never comes is missed after the recovery
        await anyio.sleep(2 * c.quiet)
        tries = len(fault.hits)
        holds(tries <= 6 + 6 * c.quiet, f"{tries} tries in {2 * c.quiet:g} s", *fault.hits[-2:])
    number = c.audit.number
    await c.works("a write after the API server recovered", number, 2 * c.patience)


@check("retries", "a write that met a conflict is tried again")
async def conflicts(c: ControllerCase) -> None:
    with c.proxy.fault("409 for the first three writes", c.is_work, status=409, times=3) as fault:
        await c.create()
        await c.met(fault, "a write")
        await c.works("a write after conflicts", seconds=2 * c.patience)


@check("retries", "the process survives refused reads and writes", alone=True)
async def survives(c: ControllerCase) -> None:
    number = c.examination.operator.number
    with c.proxy.fault("503 for everything", lambda call: call.verb != "watch", status=503) as fault:
        c.proxy.cut_watches(lambda call: True)
        await c.create()
        await anyio.sleep(c.quiet)
    if not fault.hits:
        raise NotTried("its stimulus did not come about: no request was refused")
    await c.works("a write after the API server recovered", seconds=3 * c.patience)
    holds(c.examination.operator.number == number and c.examination.operator.status is None, "the process ended")
