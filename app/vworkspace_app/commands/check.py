"""`check`: check each thing the operator needs, and print a finding for each (SEE-1)."""

import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from purekube_http import KubeApiClient
from purekube_run.process.errors import FAILURE
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.commands.session import at_cluster, now
from vworkspace_app.install.options import InstallOptions
from vworkspace_app.overview.checking import before_installing, installed
from vworkspace_app.overview.text import columns
from vworkspace_core.overview.checkup import Finding, Verdict

_COLOURS: Final = {
    Verdict.OK: "32",
    Verdict.FAILED: "31",
    Verdict.WARNING: "35",
    Verdict.OPTIONAL: "34",
    Verdict.UNKNOWN: "35",
}
_INDENT: Final = " " * 9


@attrs.frozen
class CheckOptions:
    """The options of `check`; `form` is None for lines of text."""

    pre: bool
    agent: bool
    velero_namespace: str
    release_account: str
    form: Format | None
    system_namespace: str
    kubeconfig: Path | None


def run_check(options: CheckOptions) -> int:
    """Print every finding as it is made; return the exit status.

    Raises CommandError if the cluster cannot be inspected.
    """
    findings = at_cluster(options.kubeconfig, partial(_run, options))
    if options.form is not None:
        print(dump([[finding_data(finding) for finding in findings]], options.form), end="")
    else:
        print(verdict_line(findings))
    return FAILURE if any(finding.verdict is Verdict.FAILED for finding in findings) else 0


async def _run(options: CheckOptions, api: KubeApiClient) -> list[Finding]:
    install = InstallOptions(
        namespace=options.system_namespace,
        velero_namespace=options.velero_namespace,
        release_account=options.release_account,
        agent=options.agent,
    )
    findings = []
    async for finding in before_installing(api) if options.pre else installed(api, install, now()):
        findings.append(finding)
        if options.form is None:
            print(finding_text(finding, columns(), colour=sys.stdout.isatty()), flush=True)
    return findings


def finding_text(finding: Finding, width: int, *, colour: bool) -> str:
    """Return the point, folded to the screen; below it the remedy, unfolded so that it can be copied."""
    told = finding.point + (f": {finding.told}" if finding.told else "")
    folded = textwrap.wrap(told, max(width - len(_INDENT), 20), break_long_words=False, break_on_hyphens=False)
    word = f"{finding.verdict.value:<8}"
    shown = f"\x1b[{_COLOURS[finding.verdict]}m{word}\x1b[0m" if colour else word
    lines = [f"{shown} {folded[0]}", *(f"{_INDENT}{line}" for line in folded[1:])]
    return "\n".join([*lines, *([f"{_INDENT}-> {finding.remedy}"] if finding.remedy else [])])


def finding_data(finding: Finding) -> dict[str, str]:
    """Return a finding as data for programs, without empty fields."""
    said = {"point": finding.point, "verdict": finding.verdict.value, "told": finding.told, "remedy": finding.remedy}
    return {name: text for name, text in said.items() if text}


def verdict_line(findings: Sequence[Finding]) -> str:
    """Return the last line: the number of points, and how many failed."""
    failed = sum(finding.verdict is Verdict.FAILED for finding in findings)
    return f"{len(findings)} points: " + (f"{failed} failed" if failed else "nothing failed")
