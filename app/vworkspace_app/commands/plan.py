"""The command `plan`, which prints what the operator would do for one object, offline, from objects in files."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Literal

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, canonical_json, get_path
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.timestamps import format_time
from purekube.controller.decision import Decision
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.terminal import shows_colours
from purekube_run.process.yaml_documents import Format, dump, parse_yaml, read_documents
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared import plan_documents as output
from vworkspace_app.commands.shared.plan_documents import (
    InputDocuments,
    chosen,
    cluster_of,
    note,
    problem_lines,
    quiet,
    time_of,
)
from vworkspace_app.operations.template_files import read_templates
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.codec import read_application_instance, read_operation, validate_strict
from vworkspace_core.api.kinds import ALL_KINDS, CLUSTER, OPERATION
from vworkspace_core.api.labels import MANAGED_BY, MANAGED_BY_VALUE, cluster_id_of, is_managed
from vworkspace_core.api.operation import Operation
from vworkspace_core.clusters.decision import strictest_policy
from vworkspace_core.instances.context import Context, InstanceObserved, Settings
from vworkspace_core.instances.reconcile import deletes_afterwards, reconcile
from vworkspace_core.operations.approvals import Claims
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.identity import target_ref
from vworkspace_core.operations.override import release_request
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import Templates


@attrs.frozen
class PlanRequest:
    """The arguments of the command `plan`.

    `now` is the time of the decision (RFC 3339); empty means the present. If the files have several objects that could
    be planned, `wanted` names the one to plan, as name or Kind/name. `missing` are kinds whose CRD is not installed.
    `templates` are files with templates of Operations, in addition to the built-in ones.
    """

    files: Sequence[str]
    wanted: str = ""
    cluster_id: str = ""
    now: str = ""
    missing: Sequence[str] = ()
    templates: Sequence[str] = ()
    output: Format | None = Format.YAML


@attrs.frozen
class Planned:
    """The result of the command `plan`: its output and a one-line summary of the decision.

    `changes` is True if a write is planned. `is_blocked` is True if the object would be Blocked, Stalled or Failed.
    """

    text: str
    summary: str
    changes: bool
    is_blocked: bool


@attrs.frozen
class _Question:
    """The object to plan, and all data on which its decision depends."""

    ref: ObjectRef
    manifest: Manifest
    documents: InputDocuments
    missing: frozenset[Kind]
    cluster_id: str
    now: datetime
    templates: Templates


def plan(request: PlanRequest, *, colour: bool = False) -> Planned:
    """Return what the operator would do for an object in the request's files.

    If the result is a diff, `colour` adds terminal colours to it. Raises CommandError for malformed input, and if it is
    not clear which object to plan.
    """
    if not request.files:
        raise CommandError("give at least one FILE (see vworkspace-operator plan --help)", status=USAGE)
    return plan_of(request, partial(read_documents, request.files), colour=colour)


def plan_of(request: PlanRequest, read: Callable[[], Sequence[Manifest]], *, colour: bool = False) -> Planned:
    """Return what the operator would do for an object among the documents that `read` returns.

    `read` is called after the options were checked. If the result is a diff, `colour` adds terminal colours to it.
    Raises CommandError for malformed input, and if it is not clear which object to plan.
    """
    now, missing = time_of(request.now), frozenset(_kind_named(name) for name in request.missing)
    templates, documents = read_templates(request.templates), read()
    ref, _ = chosen(documents, request.wanted)
    given = InputDocuments.of(documents, format_time(now))
    manifest = given.objects[ref]
    cluster_id = request.cluster_id or cluster_of(manifest)
    question = _Question(ref, manifest, given, missing, cluster_id, now, templates)
    _note_unknown(manifest)
    decision, afterwards = _decided(question)
    if request.output is None:
        text = output.diff(decision, afterwards, given.objects, colour=colour)
    else:
        text = dump([output.data(decision, afterwards)], request.output)
    summary = output.summary(decision, afterwards, manifest)
    if is_without_release(manifest, given.objects):
        summary = f"as if nothing were there yet: {summary}"
    return Planned(text, summary, not decision.is_empty, output.obstacle(decision, manifest))


def _decided(question: _Question) -> tuple[Decision, Decision]:
    """Return two decisions about the object: the decision of this pass, and the decision of the pass after it.

    For an Operation, the first decision writes to the status which objects (a Job, a Backup) will be created, and the
    second one creates them (OPS-1). For an instance, the second one deletes objects that were replaced.
    """
    if question.ref.kind != OPERATION:
        return _of_instance(question)
    decision = _of_operation(question)
    if decision.status is None or decision.creates or not get_path(decision.status, "status", "engineRef"):
        return decision, Decision()
    started = {**question.manifest, "status": decision.status["status"]}
    objects = {**question.documents.objects, question.ref: started}
    with quiet():
        return decision, _of_operation(
            attrs.evolve(question, manifest=started, documents=attrs.evolve(question.documents, objects=objects))
        )


def _note_unknown(manifest: Manifest) -> None:
    """Print a note for each unknown field of the object. An API server drops such fields, or refuses the object."""
    unknown = [problem for problem in validate_strict(manifest) if problem.message.startswith("unknown")]
    for problem in unknown:
        note(f"{problem}; an API server drops it, or refuses the object")


def is_without_release(manifest: Manifest, objects: Mapping[ObjectRef, Manifest]) -> bool:
    """Report whether the status of an instance names a HelmRelease that is missing in `objects`."""
    name, namespace = (get_path(manifest, "status", "helmReleaseRef", field) for field in ("name", "namespace"))
    return name is not None and ObjectRef(HELM_RELEASE, namespace, str(name)) not in objects


def _note_release_missing(ref: ObjectRef) -> None:
    kinds = "appinst,helmreleases,ocirepositories,helmrepositories,configmaps"
    note(
        f"its {HELM_RELEASE.kind} was not given. Give everything: kubectl get {kinds} -n {ref.namespace} -o yaml"
        f" | vworkspace-operator plan - --for {ref.name}"
    )


def _of_instance(question: _Question) -> tuple[Decision, Decision]:
    try:
        source = read_application_instance(question.manifest)
    except ValidationProblems as error:
        raise CommandError(f"the ApplicationInstance cannot be read: {problem_lines(error)}") from error
    _note_unmanaged(source.metadata)
    if is_without_release(question.manifest, question.documents.objects):
        _note_release_missing(question.ref)
    objects = {ref: manifest for ref, manifest in question.documents.objects.items() if ref != question.ref}
    operations = [operation for operation in _acted_on(question) if target_ref(operation) == question.ref]
    override, withdrawn = release_request(source, operations)
    namespace = question.documents.namespace(source.metadata.namespace)
    observed = InstanceObserved(namespace, objects, question.missing, override=override, withdrawn=withdrawn)
    clusters = (canonical_json(given) for ref, given in question.documents.objects.items() if ref.kind == CLUSTER)
    policy = strictest_policy(Policy(), clusters, question.cluster_id)
    context = Context(Settings(cluster_id=question.cluster_id, policy=policy), question.now)
    decision = reconcile(source, observed, context)
    return decision, Decision(deletes=deletes_afterwards(source, observed, context, decision))


def _of_operation(question: _Question) -> Decision:
    try:
        source = read_operation(question.manifest)
    except ValidationProblems as error:
        raise CommandError(f"the Operation cannot be read: {problem_lines(error)}") from error
    _note_unmanaged(source.metadata)
    others = [operation for operation in _acted_on(question) if operation.metadata.uid != source.metadata.uid]
    siblings = tuple(operation for operation in others if target_ref(operation) == target_ref(source))
    namespace = question.documents.namespace(source.metadata.namespace)
    observed = OperationObserved(namespace, question.documents.objects, question.missing, siblings=siblings)
    context = OperationContext(
        OperationSettings(question.cluster_id),
        question.now,
        Claims(question.documents.approval_secret(), question.cluster_id),
        templates=question.templates,
        parse_yaml=parse_yaml,
    )
    return reconcile_operation(source, observed, context)


def _acted_on(question: _Question) -> list[Operation]:
    """Return the Operations among the documents that the operator would reconcile.

    These are managed and have this cluster's id.
    """
    cluster = bounded_name(question.cluster_id)
    return [
        operation
        for operation in question.documents.operations()
        if is_managed(operation.metadata) and cluster_id_of(operation.metadata) == cluster
    ]


def _note_unmanaged(meta: ObjectMeta) -> None:
    if not is_managed(meta):
        note(f"the operator ignores this object: it lacks the label {MANAGED_BY}={MANAGED_BY_VALUE}")


def _kind_named(name: str) -> Kind:
    for kind in ALL_KINDS:
        if name in (kind.crd_name, kind.kind, kind.plural):
            return kind
    known = ", ".join(sorted(kind.kind for kind in ALL_KINDS))
    raise CommandError(f"--missing {name}: not a kind that the operator knows; those are {known}", status=USAGE)


TemplateFiles = Annotated[
    list[str] | None, Parameter(name="--templates", help="YAML file with templates of Operations; repeatable.")
]


def print_plan(
    *files: Annotated[str, Parameter(name="FILE", help="YAML files; `-` is standard input.")],
    desired: Annotated[
        str, Parameter(name="--for", help="The object to plan, NAME or Kind/NAME, where the files hold several.")
    ] = "",
    cluster_id: Annotated[str, Parameter(help="This cluster's id; default: the object's label.")] = "",
    now: Annotated[str, Parameter(help="The time to decide at (RFC 3339); default: the present.")] = "",
    missing: Annotated[
        list[str] | None, Parameter(help="A kind whose CRD is not installed, such as HelmRelease; repeatable.")
    ] = None,
    templates: TemplateFiles = None,
    output: Annotated[
        Literal["yaml", "json", "diff"],
        Parameter(name=("--output", "-o"), help="yaml, json, or diff: what would change of the objects downstream."),
    ] = "yaml",
    exit_code: Annotated[
        bool,
        Parameter(
            help="Exit status 0: nothing to do; 1: something; 2: the object is blocked, or there was an error.",
            negative="",
        ),
    ] = False,
) -> int:
    """Print what the operator would do for one object, given what is observed; nothing is contacted.

    A summary and notes are printed on standard error. The files contain the object to plan: one ApplicationInstance, or
    one Operation with its target. They may also contain any number of observed objects (other Operations, downstream
    objects, Namespaces), in any order. Examples:

        vworkspace-operator plan instance.yaml
        vworkspace-operator plan instance.yaml observed.yaml -o json
        vworkspace-operator plan backup.yaml instance.yaml observed.yaml
        vworkspace-operator plan everything.yaml --for Operation/nightly-backup
        vworkspace-operator plan - < everything.yaml
        vworkspace-operator plan instance.yaml observed.yaml -o diff --exit-code
    """
    form = None if output == "diff" else Format(output)
    request = PlanRequest(files, desired, cluster_id, now, missing or (), templates or (), form)
    planned = plan(request, colour=shows_colours(sys.stdout, os.environ))
    print(planned.text, end="")
    print(f"plan: {planned.summary}", file=sys.stderr)
    if not exit_code:
        return 0
    return 2 if planned.is_blocked else int(planned.changes)
