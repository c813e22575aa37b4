"""The commands `conformance operator`, which tests any operator that serves this API, and `conformance list`.

The operator is a process of its own, which is tested only by what it writes and sends. The API has the kinds
ApplicationInstance, Operation and Cluster.
"""

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from purekube.apimachinery.durations import seconds_of
from purekube.apimachinery.errors import unwrap_group
from purekube_run.examination.operator_process import OperatorCommand
from purekube_run.examination.report import as_json, check_reports, line_of, listed, summary_of, write_reports
from purekube_run.examination.verdicts import Check, Finding, Verdict
from purekube_run.process.command_line import FAILURE, INTERRUPTED, USAGE, CommandError
from purekube_run.process.signals import run_until_signal
from vworkspace_app.arguments import Parameter
from vworkspace_app.examination.case import CHART, NEEDS
from vworkspace_app.examination.run import NAMES, UNSEEN, ExaminationProfile, ExaminationRequest, examine

T = TypeVar("T")

Reports: TypeAlias = Annotated[
    list[Path] | None, Parameter(help="Write a report there: JUnit for .xml, else JSON; repeatable.")
]
Timeout: TypeAlias = Annotated[str, Parameter(help="How long the operator has for each thing it owes.")]
Keep: TypeAlias = Annotated[bool, Parameter(help="Keep objects, and the folder with the operator's logs.", negative="")]
Form: TypeAlias = Annotated[Literal["table", "json"], Parameter(name=("--output", "-o"), help="table or json.")]
Given: TypeAlias = Annotated[
    Path | None, Parameter(help="Kubeconfig of the cluster to examine on; without it the embedded API server.")
]


def examine_operator(
    *,
    operator: Annotated[
        str,
        Parameter(
            help="Command that starts the operator. Filled in: {kubeconfig}, {cluster_id}, {control_plane},"
            " {token_file}, {namespace}."
        ),
    ],
    kubeconfig: Given = None,
    profile: Annotated[
        ExaminationProfile, Parameter(help="gitops, agent (jobs of a control plane), or full.")
    ] = ExaminationProfile.GITOPS,
    clause: Annotated[list[str] | None, Parameter(help="Only this clause or check; repeatable.")] = None,
    replicas: Annotated[str, Parameter(help="Command that starts one of several replicas, with leader election.")] = "",
    flux: Annotated[
        Literal["played", "real"], Parameter(help="Whether the examiner plays Flux, or Flux runs in the cluster.")
    ] = "played",
    chart: Annotated[
        str,
        Parameter(help="Chart with the versions 1.0.0, 1.1.0 and 1.2.0, which a real Flux can fetch: oci://…/NAME."),
    ] = CHART,
    cluster_id: Annotated[str, Parameter(help="The cluster id that fills in {cluster_id}.")] = "examined",
    timeout: Timeout = "15s",
    keep: Keep = False,
    output: Form = "table",
    report: Reports = None,
) -> int:
    """Examine an operator that serves this API: clause by clause, by what it does to objects (docs/conformance.md).

    The examiner plays Flux, the engines, people and the control plane, and starts, pauses and kills the operator. Exit
    status 0 says that no check failed. Examples:

        vworkspace-operator conformance operator --operator './mine --kubeconfig {kubeconfig}' --profile gitops
        vworkspace-operator conformance operator --operator '…' --clause REC-5 --clause REC-7 --report report.xml
    """
    request = ExaminationRequest(
        OperatorCommand.of(operator, NAMES),
        profile,
        kubeconfig,
        tuple(clause or ()),
        patience_of(timeout),
        keep,
        OperatorCommand.of(replicas, NAMES, "--replicas") if replicas else None,
        flux == "played",
        cluster_id,
        chart,
    )
    if unknown := request.unknown:
        raise CommandError(f"--clause {' '.join(unknown)}: no such check in profile {profile}", status=USAGE)
    check_reports(report or ())
    findings, server = run_examination(lambda: examine(request, teller(output)))
    about = {"operator": operator, "server": server, "profile": profile.value}
    return concluded(findings, about, output, report or [])


def list_checks() -> None:
    """Print every check with its clause and what it needs, and the clauses that do not show from outside.

    A clause is a numbered requirement on operators, and a check tests one clause. Example:

        vworkspace-operator conformance list
    """
    checks: Sequence[Check[Any]] = ExaminationRequest(OperatorCommand("-"), ExaminationProfile.FULL).checks
    print(listed(checks, NEEDS))
    for code, reason in UNSEEN.items():
        print(f"{code:<10} not seen from outside: {reason}")


def patience_of(timeout: str) -> float:
    """Return the value of `--timeout` in seconds. Raises CommandError unless it is a duration from 2s to 10m."""
    seconds = seconds_of(timeout, 0.0)
    if not 2 <= seconds <= 600:
        raise CommandError(f"--timeout {timeout}: a duration from 2s to 10m", status=USAGE)
    return seconds


def teller(output: str) -> Any:
    """Return a function that prints a finding, the result of one conformance check, as one line.

    It is called as soon as a finding is known, and prints to standard output if `output` is "table", and otherwise to
    standard error.
    """
    out = sys.stdout if output == "table" else sys.stderr

    def show(finding: Finding) -> None:
        print(line_of(finding), file=out, flush=True)

    return show


def run_examination(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work`, which makes the conformance checks of an operator or controller, and return its result.

    SIGINT and SIGTERM end the examination and the process under test. Raises CommandError after such a signal; other
    errors of the examination are raised unchanged.
    """
    results: list[T] = []

    async def keep() -> None:
        results.append(await work())

    try:
        interrupted = run_until_signal(keep)
    except BaseExceptionGroup as group:
        raise unwrap_group(group) from None
    if interrupted:
        raise CommandError("interrupted: the examination is incomplete", status=INTERRUPTED)
    return results[0]


def concluded(findings: Sequence[Finding], about: dict[str, Any], output: str, reports: Sequence[Path]) -> int:
    """Write the report files, print the result of an examination, and return the exit status.

    `findings` are the results of the conformance checks. `about` describes what was examined, for the reports, which
    are written to the paths `reports`. If `output` is "json", all findings are printed as JSON, and otherwise only a
    summary. The exit status is 0 if no finding is a failure.
    """
    write_reports(reports, findings, about, "conformance")
    if output == "json":
        print(as_json(findings, about), end="")
    else:
        print(summary_of(findings), *map(str, reports))
    return FAILURE if any(finding.verdict is Verdict.FAIL for finding in findings) else 0
