"""The command `conformance controller`, which tests any controller by observing its writes to the API server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from kubelab.cluster.definitions import KubelabError, read_definitions
from purekube.apimachinery.manifest import Manifest
from purekube_run.examination.controller_case import NEEDS, edited_spec
from purekube_run.examination.controller_checks import CHECKS
from purekube_run.examination.examine_controller import NAMES, ControllerRequest, examine_controller_with
from purekube_run.examination.operator_process import OperatorCommand
from purekube_run.examination.report import check_reports, listed
from purekube_run.process.command_line import FAILURE, USAGE, CommandError
from purekube_run.process.yaml_documents import read_documents
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.conformance.operator import (
    Form,
    Given,
    Keep,
    Reports,
    Timeout,
    concluded,
    patience_of,
    run_examination,
    teller,
)


def examine_controller(
    *,
    operator: Annotated[
        str,
        Parameter(help="Command that starts the controller. {kubeconfig} is filled in, and KUBECONFIG set."),
    ] = "",
    sample: Annotated[
        Path | None, Parameter(help="File with an object of the kind, and further ones it needs.")
    ] = None,
    kind: Annotated[str, Parameter(help="Kind of the object under examination; by default the file's first.")] = "",
    edited: Annotated[Path | None, Parameter(help="File with the object after an edit of its spec.")] = None,
    crds: Annotated[
        list[Path] | None, Parameter(help="File or folder with CRDs for the embedded API server; repeatable.")
    ] = None,
    simulate: Annotated[
        str, Parameter(help="Controllers that the embedded API server simulates, by comma: workloads, job, …")
    ] = "",
    kubeconfig: Given = None,
    only: Annotated[list[str] | None, Parameter(help="Only this area or check; repeatable.")] = None,
    timeout: Timeout = "15s",
    keep: Keep = False,
    output: Form = "table",
    report: Reports = None,
    list_only: Annotated[bool, Parameter(name="--list", help="Only print the checks.", negative="")] = False,
) -> int:
    """Examine a controller of any kind by what it does to objects, whatever it is written with (docs/conformance.md).

    Examples:

        vworkspace-operator conformance controller --kind Website --sample website.yaml --edited website-2.yaml \\
          --crds crd.yaml --operator './manager --kubeconfig {kubeconfig}'
        vworkspace-operator conformance controller --list
    """
    if list_only:
        print(listed(CHECKS.checks, NEEDS))
        return 0
    if not operator or sample is None:
        raise CommandError("give --operator and --sample", status=USAGE)
    first, further = _chosen(sample, kind)
    request = ControllerRequest(
        OperatorCommand.of(operator, NAMES),
        first,
        None if edited is None else _chosen(edited, kind or str(first["kind"]))[0],
        further,
        kubeconfig,
        _definitions(crds or []),
        simulate,
        tuple(only or ()),
        patience_of(timeout),
        keep,
    )
    if unknown := request.unknown:
        raise CommandError(f"--only {' '.join(unknown)}: no such check; --list prints them", status=USAGE)
    if request.edited is not None and not edited_spec(request.sample, request.edited):
        raise CommandError(f"--edited {edited}: its spec is that of --sample", status=USAGE)
    for option, value in (("--crds", crds), ("--simulate", simulate)):
        if value and kubeconfig is not None:
            raise CommandError(f"{option} is for the embedded API server, and --kubeconfig names another", status=USAGE)
    check_reports(report or ())
    findings, server = run_examination(lambda: examine_controller_with(request, teller(output)))
    about = {"operator": operator, "server": server, "kind": str(first["kind"])}
    return concluded(findings, about, output, report or [])


def _chosen(file: Path, kind: str) -> tuple[Manifest, Sequence[Manifest]]:
    """Return two values: the first object of `kind` in a file, and the file's other objects.

    If `kind` is empty, the first value is the file's first object. Raises CommandError if there is no such object.
    """
    documents = read_documents([str(file)])
    chosen = next((each for each in documents if kind in ("", each.get("kind"))), None)
    if chosen is None:
        raise CommandError(f"{file}: holds no {kind or 'object'}", status=USAGE)
    return chosen, [each for each in documents if each is not chosen]


def _definitions(paths: Sequence[Path]) -> Sequence[Manifest]:
    try:
        return read_definitions(paths)
    except KubelabError as error:
        raise CommandError(error.as_flag, status=USAGE if error.is_misuse else FAILURE) from error
