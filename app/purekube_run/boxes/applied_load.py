"""The compilation of an OperatorBox with the CRDs of its cluster, its validating webhook, and its rights (PH-10).

The webhook reports errors when a box is applied, not only later.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.admission_review import AdmissionRequest, allowed, refused
from purekube.apimachinery.errors import OperatorError, Right
from purekube.apimachinery.manifest import Kind, Manifest, content_hash, get_path
from purekube.apimachinery.problems import Place, Problem, ValidationProblems
from purekube.apimachinery.resources import Access
from purekube.boxes.box import Box
from purekube.boxes.compiler.compile import BoxExamination, examine
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.definition import not_enforced
from purekube.boxes.model import API_VERSION, KIND, OperatorBox
from purekube.boxes.read import BoxProblem, read_box
from purekube.boxes.schemas import CrdProblem, CrdVersions, Schemas
from purekube.boxes.webhooks.kind_webhooks import refused_where_applied
from purekube.cel import INT, CelSyntaxError, Environment, Program, compile_expression
from purekube.cel.types import CelType, Field
from purekube.composites.parent import kinds_annotation
from purekube.composites.rights import FORMER, CompositeAccess
from purekube.ports import KubeApi
from purekube_run.boxes.installed import installed_definitions, missing_definitions
from purekube_run.boxes.load import LoadedBox, declared_kinds
from purekube_run.boxes.requirements import requirements_of
from purekube_run.controller.lookups import lacking
from purekube_run.process.command_line import CommandError

_COUNTS: Final = ("total", "moved", "ready", "failed", "waiting", "pinned")
_GATE: Final = Environment({"rollout": CelType("object", fields={name: Field(INT) for name in _COUNTS})})


@attrs.frozen(eq=False)
class LoadedDefinition:
    """The result of compiling the spec of an OperatorBox.

    `box` is the compiled box, or None if there are `problems`. `gates` are the compiled expressions in
    `spec.rollout.when`, which must be true for a rollout to continue. `crds` are the names of all CRDs that were looked
    up in the cluster for the compilation, and `absent` are the names among them that the cluster does not have. `read`
    is the hash of the specs of the others: with the same spec and the same hash, the compiled box is the same.
    """

    box: Box | None
    problems: tuple[BoxProblem, ...] = ()
    gates: tuple[Program, ...] = ()
    crds: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    read: str = ""


async def load_definition(api: KubeApi, name: str, spec: Mapping[str, Any]) -> LoadedDefinition:
    """Compile the `spec` of the OperatorBox `name`. CRDs that the spec refers to are read from the cluster.

    The result contains all errors of the spec. Raises the OperatorErrors of `KubeApi.get`.
    """
    try:
        model = read_box({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec})
    except ValidationProblems as error:
        problems = tuple(BoxProblem(Place(problem.path), problem.message) for problem in error.problems)
        return LoadedDefinition(None, problems)
    names = missing_definitions([_examined(model, ())])
    try:
        installed = await installed_definitions(api, names)
    except CommandError as error:
        return LoadedDefinition(None, (BoxProblem(Place("spec"), error.message),), crds=frozenset(names))
    examined, (gates, wrong) = _examined(model, installed), _gates(model)
    refused = () if examined.box is None else refused_where_applied(examined.box)
    problems = (*examined.problems, *wrong, *refused)
    box = None if problems else examined.box
    absent = frozenset(names) - {str(crd.manifest["metadata"]["name"]) for crd in installed}
    # Without its conversion, whose certificate is replaced from time to time.
    read = content_hash(
        [[crd.manifest["metadata"]["name"], {**crd.manifest["spec"], "conversion": None}] for crd in installed]
    )
    return LoadedDefinition(box, problems, gates, frozenset(names), absent, read)


@attrs.define(eq=False)
class KnownDefinitions:
    """A cache of compiled definitions, by the name of their box.

    A definition is compiled again when a CRD that was looked up for it changes, even during the compilation.
    """

    api: KubeApi
    _known: dict[str, dict[str, LoadedDefinition]] = attrs.field(factory=dict)
    """The compiled definitions of each box, by their hash."""
    _changes: int = 0
    _last_change: dict[str, int] = attrs.field(factory=dict)
    """The number of the last change of each CRD, by its name."""

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    async def of(self, name: str, spec: Mapping[str, Any]) -> LoadedDefinition:
        """Return the spec of the box `name`, compiled. Raises the OperatorErrors of `KubeApi.get`."""
        known, digest = self._known.setdefault(name, {}), content_hash(spec)
        while digest not in known:
            began, loaded = self._changes, await load_definition(self.api, name, spec)
            # A CRD that was read before its change would be taken for the present one until it changes again.
            if all(self._last_change.get(crd, 0) <= began for crd in loaded.crds):
                known[digest] = loaded
        return known[digest]

    def crd_changed(self, crd: str) -> Iterator[str]:
        """Forget what was compiled with the CRD `crd`. Yield the names of the boxes concerned."""
        self._changes += 1
        self._last_change[crd] = self._changes
        for name, known in self._known.items():
            if any(crd in loaded.crds for loaded in known.values()):
                known.clear()
                yield name

    def keep(self, name: str, specs: Iterable[Mapping[str, Any]]) -> None:
        """Forget all definitions of the box `name` except these `specs`."""
        kept = {content_hash(spec) for spec in specs}
        left = {digest: loaded for digest, loaded in self._known.pop(name, {}).items() if digest in kept}
        if left:
            self._known[name] = left


def changed_problems(box: Box | None, former: Iterable[Box | None]) -> tuple[BoxProblem, ...]:
    """Return a problem for each change to an applied box that is not permitted.

    The kind of a box must not change, nor the version that is stored. The field `spec.serviceAccountName` must not be
    added or removed, but its value may change. `former` are the box's earlier definitions, with None for a definition
    that does not compile. Without a compiled `box` there are no problems.
    """
    known = [each for each in former if each is not None]
    if box is None:
        return ()
    problems = []
    if changed := next((each.kind for each in known if each.kind != box.kind), None):
        problems.append(BoxProblem(Place("spec.crd"), _kind_message(changed, box.kind)))
    if any((each.account is None) != (box.account is None) for each in known):
        message = "cannot be added to an applied box, or removed from it: apply a box of another name"
        problems.append(BoxProblem(Place("spec.serviceAccountName"), message))
    return tuple(problems)


def _kind_message(former: Kind, new: Kind) -> str:
    """Return the message for a box whose kind changed from `former` to `new`, perhaps in its stored version alone."""
    if former == attrs.evolve(new, version=former.version):
        return (
            f"an applied box keeps the version that its objects are stored in, {former.version}: declare {new.version} "
            "under spec.versions, with its conversion, or apply a box of another name once this one is gone"
        )
    return "an applied box keeps its kind: apply a box of another name"


def unenforced_problems(box: Box | None) -> tuple[BoxProblem, ...]:
    """Return a problem if the CRD with which `box` was compiled lacks validation rules or defaults of the box.

    Only a box that refers to an existing CRD of the cluster by name (`spec.crd.name`) is checked. The operator does not
    write such a CRD, so rules that it lacks are never enforced. The CRDs of other boxes are applied by the operator
    with all rules. The result is () if nothing is missing, or if `box` is None.
    """
    if box is None or not box.model.spec.crd.name or not (lacking := not_enforced(box, box.crd)):
        return ()
    message = (
        f"the CRD {box.kind.crd_name} lacks {', '.join(lacking)}: apply what `box manifests FILE --crds-only` "
        "prints, or write spec.crd: {spec: …}"
    )
    return (BoxProblem(Place("spec.crd"), message),)


def _examined(model: OperatorBox, installed: Sequence[CrdVersions]) -> LoadedBox:
    """Compile the box in `model` with the CRDs in `installed`, and return it with its problems.

    The CRD of the box's own kind must be in `model` or in `installed`; otherwise the result has a problem.
    """
    source, problem = model.spec.crd, ""
    own: CrdVersions | None = None
    try:
        own = _own(model, installed)
    except CrdProblem as error:
        problem = str(error)
    if source.file:
        problem = f"an applied box has no files: write {{name: …}}, or {{spec: …}} with the spec of {source.file}"
    elif own is None and not problem:
        problem = f"the cluster has no CRD {source.name}: apply it first"
    schemas = Schemas([*([own] if own is not None else []), *installed], declared_kinds(model))
    found = examine(model, own, schemas)
    if problem:
        found = BoxExamination(None, (BoxProblem(Place("spec.crd"), problem),))
    return LoadedBox("", found, model, own, schemas=schemas)


def _own(model: OperatorBox, installed: Sequence[CrdVersions]) -> CrdVersions | None:
    """Return the CRD of the box's own kind, or None if there is none.

    The definition `model` contains the CRD, or names a CRD in `installed`. Raises CrdProblem if the CRD in the
    definition is invalid.
    """
    if (manifest := model.spec.crd.manifest) is not None:
        return CrdVersions.of(manifest)
    named = (crd for crd in installed if get_path(crd.manifest, "metadata", "name") == model.spec.crd.name)
    return next(named, None)


def _gates(model: OperatorBox) -> tuple[tuple[Program, ...], tuple[BoxProblem, ...]]:
    programs: list[Program] = []
    problems: list[BoxProblem] = []
    for number, text in enumerate(model.spec.rollout.when):
        place = Place(f"spec.rollout.when[{number}]")
        try:
            program = compile_expression(text, _GATE)
        except CelSyntaxError as error:
            problems.append(BoxProblem(place, error.problem))
            continue
        if program.type.name not in ("bool", "dyn"):
            problems.append(BoxProblem(place, f"must give true or false, not {program.type}"))
        programs.append(program)
    return tuple(programs), tuple(problems)


# --- rights -----------------------------------------------------------------------------------------------------------


def access_to_retired(box: Box, kinds: Iterable[Kind]) -> CompositeAccess:
    """Return the rights to prune objects of `kinds`: kinds that only earlier revisions of the box created.

    To prune means to list the objects that are left over, and to delete them, or to orphan those that must be kept.
    """
    composite, former = composite_of(box), [Access(kind, FORMER) for kind in kinds]
    near = tuple(each for each in former if composite.is_near(each.kind))
    return CompositeAccess(tuple(each for each in former if each not in near), near)


async def lacking_rights(api: KubeApi, access: CompositeAccess, namespaces: Sequence[str]) -> tuple[Right, ...]:
    """Return the rights in `access` that this process lacks, in the order of `access`.

    Each right is checked by a SelfSubjectAccessReview. `namespaces` are the namespaces that the process watches;
    without any, it watches all namespaces. Raises the OperatorErrors of `KubeApi.review`.
    """
    asked = [(each, "") for each in access.everywhere]
    asked += [(each, namespace) for each in access.tenant for namespace in (namespaces or ("",))]
    rights = [
        (Right(verb, each.kind.group, each.resource, namespace), each.name)
        for each, namespace in asked
        for verb in each.verbs
    ]
    return await lacking(api, rights)


def told_of(name: str, account: str, lacking: Sequence[Right], retired: Iterable[Kind] = ()) -> str:
    """Return the error message about missing rights, with the shell command that grants them.

    `name` is the name of the box, and `lacking` are the rights that this process lacks for it. If there are none, the
    result is "". `account` is the option of the shell command that names the ServiceAccount to which the rights are
    granted. `retired` are kinds that the box no longer creates, but whose objects it must still prune.
    """
    if not lacking:
        return ""
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    former = "".join(f"--former {shlex.quote(kinds_annotation((kind,)))} " for kind in retired)
    options = f"{former}{account} --no-leader-elect"
    command = f"vworkspace-operator box rbac {name}.yaml {options} | kubectl apply --server-side -f -"
    return f"the operator may not {lacking[0]}{more}. To fix: {command}"


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
