"""The webhooks of boxes (operators that files declare) and of kinds in Python (PH-8).

They apply rules and defaults, judge reviews, and convert objects between versions.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from purekube.apimachinery.admission_review import AdmissionRequest, allowed, patched, refused
from purekube.boxes.box import Box
from purekube.boxes.webhooks.kind_webhooks import BoxAdmission, converter_of
from purekube.reconcilers import Resource
from purekube.reconcilers.kind_reviews import ReviewWebhook, reviewers
from vworkspace_app.webhooks.kinds import Judge, ServedKinds
from vworkspace_core.webhook.admission import default_path, kind_review_path, validate_path


def served_kinds(boxes: Iterable[Box], resources: Sequence[Resource[Any, Any]] = ()) -> ServedKinds:
    """Return the webhooks of `boxes`, and of the kinds in `resources`, which attrs classes define."""
    found = tuple(boxes)
    converters = (*(each.converter for each in resources), *(converter_of(box) for box in found))
    judges = {path: judge for box in found for path, judge in _judges(BoxAdmission.of(box))}
    judges |= {path: judge for each in resources for path, judge in _reviews(each)}
    return ServedKinds(tuple(converter for converter in converters if converter is not None), judges)


def _judges(admission: BoxAdmission) -> Iterator[tuple[str, Judge]]:
    if admission.rules:
        yield validate_path(admission.name), partial(_validated, admission)
    if admission.mutations:
        yield default_path(admission.name), partial(_filled, admission)


def _reviews(kind: Resource[Any, Any]) -> Iterator[tuple[str, Judge]]:
    for reviewer in reviewers(kind):
        yield kind_review_path(kind.kind.crd_name, mutates=reviewer.mutates), partial(_reviewed, reviewer)


async def _reviewed(reviewer: ReviewWebhook, request: AdmissionRequest) -> dict[str, Any]:
    return reviewer.answer(request)


async def _validated(admission: BoxAdmission, request: AdmissionRequest) -> dict[str, Any]:
    if request.written is None:
        return allowed(request)
    problems = admission.problems(request.written, request.old_object)
    return refused(request, problems) if problems else allowed(request)


async def _filled(admission: BoxAdmission, request: AdmissionRequest) -> dict[str, Any]:
    if request.written is None:
        return allowed(request)
    patch, problems = admission.patch(request.written)
    return refused(request, problems) if problems else patched(request, patch)
