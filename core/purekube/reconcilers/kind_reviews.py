"""Reviews of writes of a user's kind in Python: checks and defaults that its CRD cannot express (PH-8).

`reviewed` adds a user's functions for checks and defaults to a kind, and `reviewers` returns the webhooks that call
them. Both functions must be pure: the API server waits for them with every write, so a check that asks another system
belongs in `reconcile`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from purekube.apimachinery.admission_review import AdmissionRequest, allowed, patched, refused
from purekube.apimachinery.manifest import Manifest, metadata, same_json
from purekube.apimachinery.problems import Problem, ValidationProblems
from purekube.reconcilers.desired import (
    Admission,
    AdmissionWarning,
    Defaulter,
    Object,
    Reviews,
    Spec,
    Status,
    Validator,
)
from purekube.reconcilers.resource import Resource


@attrs.frozen
class ReviewWebhook:
    """A webhook that reviews the objects of a kind by a function of the user.

    `mutates` is True if it fills in defaults, and False if it validates. `answer` returns the response to an admission
    review.
    """

    mutates: bool
    answer: Callable[[AdmissionRequest], dict[str, Any]]


def reviewers(kind: Resource[Any, Any]) -> tuple[ReviewWebhook, ...]:
    """Return the webhooks that call the user's review functions of a kind, in the order in which an API server calls
    them.

    The webhook that fills in defaults comes before the one that validates. A webhook without a function is left out.
    """
    known = (
        (kind.reviews.default, ReviewWebhook(True, partial(answer_defaulting, kind))),
        (kind.reviews.validate, ReviewWebhook(False, partial(answer_validation, kind))),
    )
    return tuple(reviewer for function, reviewer in known if function is not None)


def reviewed(
    kind: Resource[Spec, Status],
    *,
    validate: Validator[Spec, Status] | None = None,
    default: Defaulter[Spec, Status] | None = None,
) -> Resource[Spec, Status]:
    """Return the kind with functions that review each write of the kind's objects, in the stored version.

    The functions run in the webhooks of the process that runs the kind's controllers, and in a `FakeCluster`.
    """
    return attrs.evolve(kind, reviews=Reviews(validate, default))


def webhook_needs(kind: Resource[Any, Any]) -> str:
    """Return what a kind needs webhooks for, such as `conversion of v1alpha1, validation`; "" if none is needed."""
    versions = ", ".join(version.conversion.version for version in kind.versions)
    needs = {
        f"conversion of {versions}": versions,
        "validation": kind.reviews.validate,
        "defaults": kind.reviews.default,
    }
    return ", ".join(text for text, needed in needs.items() if needed)


def answer_validation(kind: Resource[Any, Any], request: AdmissionRequest) -> dict[str, Any]:
    """Return the response of the kind's validating webhook to an admission review.

    The write is refused if the object does not fit its classes, or if the user's function `validate` finds a problem or
    raises. Otherwise it is admitted, with the function's warnings. An object that is being deleted is always admitted.
    """
    new = _reviewed_object(request)
    if kind.reviews.validate is None or new is None:
        return allowed(request)
    try:
        old = None if request.old_object is None else _read(kind, request.old_object)
    except ValidationProblems:  # an object that an older schema let in: it is judged as if it were new
        old = None
    try:
        found = _found(kind.reviews.validate(Admission(_read(kind, new), old, request.user)))
    except ValidationProblems as error:
        return refused(request, error.problems)
    except Exception as error:
        return refused(request, [_failed("validate", error)])
    problems = [each for each in found if isinstance(each, Problem)]
    warnings = [Problem(each.path, each.message) for each in found if isinstance(each, AdmissionWarning)]
    return refused(request, problems) if problems else allowed(request, warnings)


def answer_defaulting(kind: Resource[Any, Any], request: AdmissionRequest) -> dict[str, Any]:
    """Return the response of the kind's mutating webhook to an admission review.

    It admits the write, with a JSON patch that changes the spec to the one that the user's function `default` returns.
    The write is refused if the function raises.
    """
    new = _reviewed_object(request)
    if kind.reviews.default is None or new is None:
        return allowed(request)
    try:
        given = _read(kind, new)
    except ValidationProblems:
        return allowed(request)  # the schema refuses the object, in the server's words
    try:
        spec = kind.spec_json(_spec(kind, kind.reviews.default(given)))
    except Exception as error:
        return refused(request, [_failed("default", error)])
    return patched(request, _patch(new, kind.spec_json(given.spec), spec))


def review_problem(kind: Resource[Any, Any], example: Manifest) -> str:
    """Return a problem of the kind's review functions, found with `example`, an example of a new object; "" if none is
    found. The functions must not raise, and defaults must satisfy the schema and stay unchanged when applied again.
    """
    given, default, validate = kind.read(example), kind.reviews.default, kind.reviews.validate
    about = f"; the spec was {kind.spec_json(given.spec)}"
    try:
        spec = given.spec if default is None else _spec(kind, default(given))
        again = spec if default is None else _spec(kind, default(attrs.evolve(given, spec=spec)))
        _found(() if validate is None else validate(Admission(attrs.evolve(given, spec=spec))))
        made = kind.spec_json(spec)
    except Exception as error:
        return f"a function that reviews it raised {type(error).__name__}: {error}{about}"
    if again != spec:
        return f"`default` is not idempotent: from its own {made} it makes {kind.spec_json(again)}{about}"
    problems = kind.problems({**example, "spec": made})
    return f"`default` makes an object that the API server refuses: {problems[0]}{about}" if problems else ""


def _reviewed_object(request: AdmissionRequest) -> Manifest | None:
    """Return the object that is written; None if it is being deleted, since its finalizers must remain removable."""
    new = request.written
    return None if new is None or metadata(new).get("deletionTimestamp") is not None else new


def _read(kind: Resource[Any, Any], manifest: Manifest) -> Object[Any, Any]:
    """Return the object, with an empty status if only the status does not fit its class: the author of this write
    cannot mend it, and the controller computes it again. Raises ValidationProblems for any other problem.
    """
    try:
        return kind.read(manifest)
    except ValidationProblems:
        return attrs.evolve(kind.read({**manifest, "status": None}), manifest=manifest)


def _found(given: Iterable[Problem | AdmissionWarning]) -> list[Problem | AdmissionWarning]:
    """Return what the user's function `validate` found. Raises TypeError for anything else, such as text, which would
    admit the write.
    """
    found = list(given)
    if strange := [each for each in found if not isinstance(each, Problem | AdmissionWarning)]:
        raise TypeError(f"it found {strange[0]!r}, which is no Problem and no AdmissionWarning")
    return found


def _spec(kind: Resource[Any, Any], given: Any) -> Any:
    """Return what the user's function `default` returned. Raises TypeError if that is no spec of the kind."""
    if not isinstance(given, kind.spec):
        raise TypeError(f"it returned a {type(given).__name__}, not a {kind.spec.__name__}")
    return given


def _failed(function: str, error: Exception) -> Problem:
    return Problem("", f"`{function}` of the kind raised {type(error).__name__}: {error}")


def _patch(manifest: Manifest, before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the JSON patch that changes the spec from `before` to `after`; fields with equal values are left alone."""
    written = manifest.get("spec")
    spec = written if isinstance(written, Mapping) else {}
    changed = [
        _add(f"/spec/{name}", _merged(spec.get(name), before.get(name), value))
        for name, value in after.items()
        if not same_json(before.get(name), value)
    ]
    gone = [name for name in before if name not in after and name in spec]
    patch = [*changed, *({"op": "remove", "path": f"/spec/{name}"} for name in gone)]
    return [_add("/spec", {}), *patch] if patch and spec is not written else patch


def _merged(written: Any, before: Any, after: Any) -> Any:
    """Return the value `written` with the changes from `before` to `after`.

    `written` may have fields at any depth that no class declares; these are kept.
    """
    if same_json(before, after):
        return written
    if isinstance(written, Mapping) and isinstance(before, Mapping) and isinstance(after, Mapping):
        kept = {name: value for name, value in written.items() if name in after or name not in before}
        changed = {name: value for name, value in after.items() if not same_json(before.get(name), value)}
        return kept | {name: _merged(kept.get(name), before.get(name), value) for name, value in changed.items()}
    if isinstance(written, list) and isinstance(before, list) and isinstance(after, list):
        return _merged_items(written, before, after) if len(written) == len(before) else after
    return after


def _merged_items(written: Sequence[Any], before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """Return `after`, with each item in the form in which it was written.

    An item that is unchanged may have moved. Of two lists of equal length, a changed item is the one of the same index.
    """
    free, found = dict(enumerate(before)), dict[int, int]()
    for at, item in enumerate(after):
        same = (index for index in (at, *free) if index in free and same_json(free[index], item))
        if (index := next(same, None)) is not None:
            found[at] = index
            del free[index]
    if len(before) == len(after):
        found |= {at: at for at in range(len(after)) if at not in found and at in free}
    return [
        _merged(written[found[at]], before[found[at]], item) if at in found else item for at, item in enumerate(after)
    ]


def _add(path: str, value: Any) -> Mapping[str, Any]:
    return {"op": "add", "path": path, "value": value}
