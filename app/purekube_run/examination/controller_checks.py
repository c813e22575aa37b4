"""Checks for controllers of every kind: what Kubernetes' conventions, KEP-1623 and the lessons of others ask of them.

A controller's children are the objects that it created, as its requests show.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import anyio

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube_run.examination.audit import Call
from purekube_run.examination.controller_case import ControllerCase, ref_of_call
from purekube_run.examination.examination import HUMAN, conditions_of, is_owned_by, shown
from purekube_run.examination.verdicts import Broken, Catalogue, NotTried, holds

_CAMEL: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_POSITIVE: Final = ("Ready", "Available", "Succeeded", "Healthy", "Synced")
"""Types of conditions by which objects usually tell that all is well."""

CHECKS: Final[Catalogue[ControllerCase]] = Catalogue()
"""The checks for controllers of every kind."""
check = CHECKS.check


# --- progress and idempotency ----------------------------------------------------------------------------------------


@check("progress", "a new object causes something: a child, a status, a finalizer")
async def progress(c: ControllerCase) -> None:
    await c.create()

    async def wrote() -> bool:
        return bool(c.work())

    await c.until("a write of the controller", wrote)


@check("progress", "an object that came while the controller was down is worked on", alone=True)
async def down(c: ControllerCase) -> None:
    c.examination.operator.kill()
    await c.create()
    await c.examination.start()

    async def wrote() -> bool:
        return bool(c.work())

    await c.until("a write about an object made while it was down", wrote)


@check("idempotency", "a child that somebody deleted comes again")
async def deleted_child(c: ControllerCase) -> None:
    await c.managed()
    ref = await _owned_child(c)
    number = c.audit.number
    former = get_path(await c.get(ref) or {}, "metadata", "uid")
    await c.delete(ref)

    async def again() -> bool:
        live = await c.get(ref)
        uid = get_path(live or {}, "metadata", "uid")
        return uid not in (None, former) or bool(c.made(number))

    await c.until(f"another {ref}", again)


@check("idempotency", "equal children: the same object twice makes as many children of the same form")
async def same_twice(c: ControllerCase) -> None:
    await c.managed()
    first = sorted(ref.kind.plural for ref in c.made_refs())
    if not first:
        raise NotTried("the controller makes no children")
    number = c.audit.number
    await c.delete(c.ref)
    await c.gone("the deleted object goes")
    for ref in c.made_refs():
        await c.delete(ref)
    await c.create()
    await c.first("a child of the second object", lambda: _value(c.made(number)))
    await c.settled()
    second = sorted({ref_of_call(call): call for call in c.made(number)}, key=str)
    plurals = sorted(ref.kind.plural for ref in second)
    holds(plurals == first, f"first {first}, then {plurals}")


async def _value(value: Any) -> Any:
    return value


async def _owned_child(c: ControllerCase) -> ObjectRef:
    for ref in c.made_refs():
        live = await c.get(ref)
        if live is not None and is_owned_by(live, c.uid):
            return ref
    raise NotTried("the controller makes no children with an owner reference")


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
    wrote = [call for call in c.tries(number) if not _is_bookkeeping(call)]
    holds(not wrote, f"{len(wrote)} writes after nothing that matters had changed", *wrote[:3])


def _is_bookkeeping(call: Call) -> bool:
    """Return whether a write changes only annotations, as kopf's memory of what it handled does."""
    body: Any = call.body
    only = isinstance(body, Mapping) and set(body) == {"metadata"} and isinstance(body["metadata"], Mapping)
    return only and set(body["metadata"]) <= {"annotations", "resourceVersion"}


@check("silence", "a restart writes nothing", alone=True)
async def restart(c: ControllerCase) -> None:
    await c.managed()
    number = c.audit.number
    await c.examination.restart()
    await anyio.sleep(c.quiet)
    wrote = c.tries(number)
    holds(not wrote, f"{len(wrote)} writes after a restart", *wrote[:3])


# --- generation and conditions ---------------------------------------------------------------------------------------


@check("generation", "the status tells which generation it is of", needs=["status"])
async def observed_generation(c: ControllerCase) -> None:
    live = await c.managed()
    holds(_observed(live), "neither status nor a condition has observedGeneration", shown(live))


@check("generation", "after an edit observedGeneration follows, and does not go back", needs=["status", "edited"])
async def generation_follows(c: ControllerCase) -> None:
    live = await c.managed()
    if not _observed(live):
        raise NotTried("its status has no observedGeneration")
    generation = await c.edit_spec()

    async def follows() -> bool:
        return _observed(await c.live()) == generation

    await c.until(f"observedGeneration {generation}", follows)
    seen = [_observed(call.answer) for call in c.work() if call.concerns(c.ref) and _observed(call.answer or {})]
    holds(seen == sorted(seen), f"observedGeneration went {seen}")


@check("generation", "an edit of the spec reaches the children", needs=["edited"])
async def edit(c: ControllerCase) -> None:
    await c.managed()
    number = c.audit.number
    await c.edit_spec()

    async def wrote() -> bool:
        return bool(c.work(number))

    await c.until("a write after an edit of the spec", wrote)


def _observed(live: Manifest) -> int:
    numbers = [get_path(live, "status", "observedGeneration")]
    numbers += [entry.get("observedGeneration") for entry in conditions_of(live).values()]
    return max((number for number in numbers if isinstance(number, int)), default=0)


async def _conditions(c: ControllerCase) -> Mapping[str, Mapping[str, Any]]:
    conditions = conditions_of(await c.managed())
    if not conditions:
        raise Broken("the status has no conditions", *await c.told())
    return conditions


@check(
    "conditions",
    "conditions have the fields of KEP-1623: type, status, reason, message, lastTransitionTime",
    needs=["status"],
)
async def form(c: ControllerCase) -> None:
    for kind, entry in (await _conditions(c)).items():
        holds(entry.get("status") in ("True", "False", "Unknown"), f"{kind}: status {entry.get('status')!r}")
        holds(_CAMEL.fullmatch(str(entry.get("reason") or "")), f"{kind}: reason {entry.get('reason')!r}")
        missing = {"message", "lastTransitionTime"} - entry.keys()
        holds(not missing, f"{kind} has no {', '.join(sorted(missing))}")


@check(
    "conditions", "lastTransitionTime moves with the status of a condition, and only then", needs=["status", "edited"]
)
async def transition_time(c: ControllerCase) -> None:
    await _conditions(c)
    await anyio.sleep(1.1)
    await c.edit_spec()
    await c.settled()
    states = [(call, conditions_of(call.answer)) for call in c.work() if call.concerns(c.ref) and call.answer]
    if len(states) < 2:
        raise NotTried("its stimulus did not come about: two writes of the status")
    for (_, before), (call, after) in pairwise(states):
        for kind, now in after.items():
            then = before.get(kind)
            if then and then.get("status") == now.get("status"):
                times = then.get("lastTransitionTime"), now.get("lastTransitionTime")
                holds(times[0] == times[1], f"{kind} stayed {now['status']} while its time went {times}", call)


@check("conditions", "there is a condition that sums up", needs=["status"])
async def summary(c: ControllerCase) -> None:
    conditions = await _conditions(c)
    holds(set(_POSITIVE) & conditions.keys(), f"none of {', '.join(_POSITIVE)} is among {', '.join(conditions)}")


@check("conditions", "a condition of another writer stays", needs=["status", "edited"])
async def foreign_condition(c: ControllerCase) -> None:
    await _conditions(c)
    entry = {
        "type": "example.com/Audited", "status": "True", "reason": "Audited", "message": "by a person",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    live = await c.live()
    status = {"conditions": [*get_path(live, "status", "conditions"), entry]}
    try:
        await c.edit(c.ref, {"status": status}, "status")
    except OperatorError as error:
        raise NotTried(f"the schema has no room for another condition: {error.message}") from error
    await c.edit_spec()
    await c.settled()
    holds("example.com/Audited" in conditions_of(await c.live()), "the condition of another writer is gone")


# --- ownership -------------------------------------------------------------------------------------------------------


@check("ownership", "children have an owner reference to their object, with its uid")
async def owners(c: ControllerCase) -> None:
    await c.managed()
    if not c.made_refs():
        raise NotTried("the controller makes no children")
    for ref, call in c.made_refs().items():
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
    await c.managed()
    ref = await _owned_child(c)
    note = {"metadata": {"annotations": {"example.com/note": "mine"}, "labels": {"example.com/team": "ours"}}}
    await c.edit(ref, note)
    await c.edit_spec()
    await c.settled()
    live = await c.get(ref) or {}
    held = (
        get_path(live, "metadata", "annotations", "example.com/note"),
        get_path(live, "metadata", "labels", "example.com/team"),
    )
    holds(held == ("mine", "ours"), f"annotation and label of a person on {ref} are now {held}")


@check("ownership", "an object of somebody else under a child's name is not overwritten")
async def foreign_child(c: ControllerCase) -> None:
    await c.managed()
    ref = await _owned_child(c)
    theirs = copy.deepcopy(dict(await c.get(ref) or {}))
    await c.delete(c.ref)
    await c.gone("the deleted object goes")
    await c.first("the child goes", lambda: _absent(c, ref), c.patience) if await c.get(ref) else None
    theirs["metadata"] = {
        "name": ref.name,
        "namespace": ref.namespace,
        "annotations": {"example.com/owner": "somebody"},
    }
    theirs.pop("status", None)
    made = await c.api.create(theirs, kind=ref.kind, field_manager=HUMAN)
    number = c.audit.number
    await c.create()
    await anyio.sleep(c.quiet)
    live = await c.get(ref) or {}
    same = get_path(live, "metadata", "uid") == get_path(made, "metadata", "uid")
    taken = [call for call in c.work(number) if call.concerns(ref)]
    holds(same and not is_owned_by(live, c.uid), f"{ref} of somebody else was taken over", *taken)


async def _absent(c: ControllerCase, ref: ObjectRef) -> bool:
    return await c.get(ref) is None


# --- deletion --------------------------------------------------------------------------------------------------------


@check("finalizers", "finalizers have a name with a domain, and others' finalizers stay")
async def finalizers(c: ControllerCase) -> None:
    live = await c.managed()
    names: Any = get_path(live, "metadata", "finalizers") or []
    if not names:
        raise NotTried("the controller uses no finalizer")
    holds(all("/" in name for name in names), f"a finalizer without a domain: {names}")
    await c.edit(c.ref, {"metadata": {"finalizers": [*names, "example.com/hold"]}})
    await c.delete(c.ref)
    await anyio.sleep(c.quiet)
    held = await c.get(c.ref)
    kept: Any = get_path(held or {}, "metadata", "finalizers") or []
    if held is not None:
        await c.edit(c.ref, {"metadata": {"finalizers": [name for name in kept if name != "example.com/hold"]}})
    holds(held is not None and "example.com/hold" in kept, "the finalizer of somebody else was removed")


@check("finalizers", "the finalizer is there before the first child")
async def finalizer_first(c: ControllerCase) -> None:
    live = await c.managed()
    if not get_path(live, "metadata", "finalizers"):
        raise NotTried("the controller uses no finalizer")
    with_one = [
        call for call in c.work() if call.concerns(c.ref) and get_path(call.answer or {}, "metadata", "finalizers")
    ]
    made = c.made()
    if not made:
        raise NotTried("the controller makes no children")
    holds(with_one and with_one[0].number < made[0].number, "a child came before the finalizer", *with_one[:1], made[0])


@check("deletion", "a deleted object goes")
async def deletion(c: ControllerCase) -> None:
    await c.managed()
    await c.delete(c.ref)
    await c.gone("the deleted object goes")


@check("deletion", "what was made for an object goes with it")
async def children_go(c: ControllerCase) -> None:
    await c.managed()
    refs = list(c.made_refs())
    if not refs:
        raise NotTried("the controller makes no children")
    await c.delete(c.ref)
    await c.gone("the deleted object goes")
    for ref in refs:

        async def absent(ref: ObjectRef = ref) -> bool:
            return await c.get(ref) is None

        await c.until(f"{ref} goes with its object", absent)


@check("deletion", "an object that is deleted while it is being made goes, with everything")
async def early_deletion(c: ControllerCase) -> None:
    await c.create()
    await c.worked()
    await c.delete(c.ref)
    await c.gone("the deleted object goes")
    await c.settled()
    left = [ref for ref in c.made_refs() if await c.get(ref) is not None]
    holds(not left, f"left: {', '.join(map(str, left))}")


@check("deletion", "nothing is made for an object that was deleted while the controller was down", alone=True)
async def deleted_while_down(c: ControllerCase) -> None:
    await c.managed()
    c.examination.operator.kill()
    await c.delete(c.ref)
    await c.examination.start()
    await c.gone("an object deleted while it was down")


# --- faults ----------------------------------------------------------------------------------------------------------


@check("crash", "killed before or after each of its writes, it ends where it would have ended", alone=True)
async def crashes(c: ControllerCase) -> None:
    await c.managed()
    expected = sorted(ref.kind.plural for ref in c.made_refs())
    points = list(dict.fromkeys((call.verb, call.path.plural, call.path.subresource) for call in c.work()))
    for point in points:
        for after in (False, True):
            await _killed_at(c, point, after, expected)


async def _killed_at(c: ControllerCase, point: tuple[str, str, str], after: bool, expected: Sequence[str]) -> None:
    verb, plural, subresource = point
    where = "after" if after else "before"
    text = f"killed {where} {verb} {plural}{'/' * bool(subresource)}{subresource}"
    await c.delete(c.ref)
    await c.gone("the deleted object goes")
    for ref in c.made_refs():
        await c.first("the children go", lambda ref=ref: _absent(c, ref))  # type: ignore[misc]
    number = c.audit.number

    def matches(call: Call) -> bool:
        same = (call.verb, call.path.plural, call.path.subresource) == point
        return same and call.writes and (call.concerns(c.ref) or call.path.namespace == c.namespace)

    with c.proxy.fault(text, matches, kill=True, after=after, times=1) as fault:
        await c.create()
        await c.first(f"a write {verb} {plural}", lambda: _value(fault.hits))
    await c.examination.start()

    async def there() -> list[str]:
        made = {ref_of_call(call): call for call in c.made(number)}
        return sorted([ref.kind.plural for ref in made if await c.get(ref) is not None])

    async def complete() -> bool:
        return await there() == list(expected)

    await c.seen(complete, 2 * c.patience)
    await anyio.sleep(c.quiet / 3)
    plurals = await there()
    holds(plurals == list(expected), f"{text}: there is {plurals}, not {list(expected)}", *fault.hits)


@check("staleness", "while its cache is stale the controller makes nothing twice", alone=True, needs=["edited"])
async def stale(c: ControllerCase) -> None:
    await c.managed()
    plurals = {ref.kind.plural for ref in c.made_refs()}
    if not plurals:
        raise NotTried("the controller makes no children")
    held = c.proxy.events_held
    number = c.audit.number
    with c.proxy.watches_held(lambda call: call.path.plural in plurals):
        await c.edit_spec()
        await c.first("a write after an edit", lambda: _value(c.work(number)))
        await anyio.sleep(c.quiet)
    again = c.made(number)
    c.evidence.append(f"{c.proxy.events_held - held} events were held back")
    await c.settled()
    kinds = [call.path.plural for call in again]
    holds(len(kinds) == len(set(kinds)), "objects were made twice from a stale cache", *again)


@check("staleness", "an edit while the watches are cut is seen", alone=True, needs=["edited"])
async def cut(c: ControllerCase) -> None:
    await c.managed()
    cut = c.proxy.cut_watches(lambda call: True)
    if not cut:
        raise NotTried("its stimulus did not come about: there was no watch to cut")
    number = c.audit.number
    await c.edit_spec()
    await c.until("a write after an edit while the watches were cut", lambda: _value(c.work(number)))


@check("retries", "refused writes are repeated with pauses that grow, and succeed in the end")
async def retries(c: ControllerCase) -> None:
    where = c.is_work
    with c.proxy.fault("500 for every write", where, status=500) as fault:
        await c.create()
        await c.first("two tries", lambda: _value(len(fault.hits) >= 2))
        await anyio.sleep(2 * c.quiet)
        tries = len(fault.hits)
        most = 6 + 6 * c.quiet
        holds(tries <= most, f"{tries} tries in {2 * c.quiet:g} s", *fault.hits[-2:])
    number = c.audit.number
    await c.until("a write after the API server recovered", lambda: _value(c.work(number)), 2 * c.patience)


@check("retries", "a conflict is answered by reading again, not by giving up")
async def conflicts(c: ControllerCase) -> None:
    where = c.is_work
    with c.proxy.fault("409 for the first three writes", where, status=409, times=3) as fault:
        await c.create()
        await c.first("a write", lambda: _value(fault.hits))
        await c.until("a write after conflicts", lambda: _value(c.work()), 2 * c.patience)


@check("retries", "the process survives refused reads and writes", alone=True)
async def survives(c: ControllerCase) -> None:
    number = c.examination.operator.number
    with c.proxy.fault("503 for everything", lambda call: call.verb != "watch", status=503) as fault:
        c.proxy.cut_watches(lambda call: True)
        await c.create()
        await anyio.sleep(c.quiet)
    if not fault.hits:
        raise NotTried("its stimulus did not come about: no request was refused")
    await c.until("a write after the API server recovered", lambda: _value(c.work()), 3 * c.patience)
    holds(c.examination.operator.number == number and c.examination.operator.status is None, "the process ended")
