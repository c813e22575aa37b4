"""The validating webhook for OperatorBoxes: it reports errors when a box is applied, not only later (PH-10)."""

from collections.abc import Mapping
from typing import Any

import attrs

from purekube.apimachinery.admission_review import AdmissionRequest, allowed, refused
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.problems import Problem
from purekube.boxes.box import Box
from purekube.boxes.read import BoxProblem
from purekube.ports import KubeApi
from purekube_run.boxes.applied_load import (
    LoadedDefinition,
    changed_problems,
    load_definition,
    unenforced_problems,
)
from purekube_run.boxes.requirements import requirements_of


@attrs.frozen
class BoxReview:
    """The validating admission webhook for OperatorBoxes, which reports errors when a user applies a box.

    An OperatorBox with errors of its own is refused. There is only a warning if the cluster lacks a CRD or an admission
    policy that the box needs, since the user may apply it next. `api` reads CRDs and policies from the cluster.
    """

    api: KubeApi

    async def __call__(self, request: AdmissionRequest) -> dict[str, Any]:
        """Return the response to an AdmissionReview of an OperatorBox: allowed, allowed with warnings, or refused."""
        new, old = request.written, request.old_object
        if new is None or get_path(new, "metadata", "deletionTimestamp") is not None:
            return allowed(request)
        if old is not None and old.get("spec") == new.get("spec"):
            return allowed(request)
        try:
            loaded = await self._loaded(new)
            former = None if old is None else (await self._loaded(old)).box
            needed = () if loaded.box is None else await self._lacking(loaded.box)
        except OperatorError as error:
            return allowed(request, [Problem("spec", f"was not checked: {error.message}")])
        problems = (*loaded.problems, *changed_problems(loaded.box, (former,)))
        if problems and not loaded.absent:
            return refused(request, [_told(each) for each in problems])
        return allowed(request, [_told(each) for each in (*problems, *needed)])

    async def _lacking(self, box: Box) -> tuple[BoxProblem, ...]:
        """Return a problem for each object that the box needs in the cluster, and that is missing or incomplete."""
        needed = await requirements_of(self.api, box, serves_webhooks=True)
        return (*unenforced_problems(box), *needed.problems)

    async def _loaded(self, manifest: Manifest) -> LoadedDefinition:
        spec = manifest.get("spec")
        name = str(get_path(manifest, "metadata", "name") or "")
        return await load_definition(self.api, name, spec if isinstance(spec, Mapping) else {})


def _told(problem: BoxProblem) -> Problem:
    return Problem(problem.place.path, problem.message)
