"""The command `check`, which checks the prerequisites of the operator and prints a finding for each (SEE-1)."""

import textwrap
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final, Literal

from purekube_http import KubeApiClient
from purekube_run.process.command_line import FAILURE
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Kubeconfig, SystemNamespace
from vworkspace_app.commands.shared.session import at_cluster, form_of, now
from vworkspace_app.install.options import InstallOptions
from vworkspace_app.overview.checking import before_installing, installed
from vworkspace_app.overview.text import Screen
from vworkspace_core.overview.checkup import CheckFinding, CheckResult

_COLOURS: Final = {
    CheckResult.OK: "32",
    CheckResult.FAILED: "31",
    CheckResult.WARNING: "35",
    CheckResult.OPTIONAL: "34",
    CheckResult.UNKNOWN: "35",
}
_INDENT: Final = " " * 9


async def _findings(pre: bool, install: InstallOptions, form: Format | None, api: KubeApiClient) -> list[CheckFinding]:
    findings = []
    async for finding in before_installing(api) if pre else installed(api, install, now()):
        findings.append(finding)
        if form is None:
            print(finding_text(finding, Screen.of_output()), flush=True)
    return findings


def finding_text(finding: CheckFinding, screen: Screen) -> str:
    """Return a finding (the result of one check) as text, wrapped to the width of the screen.

    The remedy is on a line of its own, which is not wrapped, so that it can be copied.
    """
    told = finding.point + (f": {finding.told}" if finding.told else "")
    folded = textwrap.wrap(told, max(screen.width - len(_INDENT), 20), break_long_words=False, break_on_hyphens=False)
    shown = screen.coloured(f"{finding.verdict.value:<8}", _COLOURS[finding.verdict])
    lines = [f"{shown} {folded[0]}", *(f"{_INDENT}{line}" for line in folded[1:])]
    return "\n".join([*lines, *([f"{_INDENT}-> {finding.remedy}"] if finding.remedy else [])])


def finding_data(finding: CheckFinding) -> dict[str, str]:
    """Return a finding (the result of one check) as a JSON-like mapping of its fields, without empty fields."""
    said = {"point": finding.point, "verdict": finding.verdict.value, "told": finding.told, "remedy": finding.remedy}
    return {name: text for name, text in said.items() if text}


def verdict_line(findings: Sequence[CheckFinding]) -> str:
    """Return the summary line of `check`: the number of points that were checked, and of those that failed."""
    failed = sum(finding.verdict is CheckResult.FAILED for finding in findings)
    return f"{len(findings)} points: " + (f"{failed} failed" if failed else "nothing failed")


def check(
    *,
    pre: Annotated[bool, Parameter(help="Before installing: your rights, and Flux.", negative="")] = False,
    no_agent: Annotated[bool, Parameter(help="It runs without a control plane.", negative="")] = False,
    velero_namespace: Annotated[str, Parameter(help="Velero's namespace, where it is installed.")] = "",
    release_account: Annotated[
        str, Parameter(help="The account that Flux installs releases as.")
    ] = "vworkspace-release",
    output: Annotated[
        Literal["text", "yaml", "json"], Parameter(name=("--output", "-o"), help="text, yaml or json.")
    ] = "text",
    system_namespace: SystemNamespace = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Check everything that the operator needs, and print for each failed point what to do.

    Checked are: the version of the API server, CRDs, Flux and the engines of Operations, the operator's rights in each
    managed namespace, accounts, credentials, the control plane, and clocks. The rights must be those that `manifests`
    prints. Exit status 1 says that a point failed. The command only reads, and asks the API server for access reviews.
    Examples:

        vworkspace-operator check --pre
        vworkspace-operator check
    """
    form = form_of(output)
    install = InstallOptions(
        namespace=system_namespace,
        velero_namespace=velero_namespace,
        release_account=release_account,
        agent=not no_agent,
    )
    findings = at_cluster(kubeconfig, partial(_findings, pre, install, form))
    if form is not None:
        print(dump([[finding_data(finding) for finding in findings]], form), end="")
    else:
        print(verdict_line(findings))
    return FAILURE if any(finding.verdict is CheckResult.FAILED for finding in findings) else 0
