"""The report of an examination, with an entry for each check: as a table for the terminal, as JSON, and as JUnit."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from purekube_run.examination.verdicts import Check, Finding, Verdict, counts
from purekube_run.process.command_line import USAGE, CommandError

_WIDTH: Final = 100
_NOT_IN_XML: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def line_of(finding: Finding) -> str:
    """Return the entry of the report's table for one finding.

    The first line has the clause (numbered requirement), the verdict and the sentence of the check. Further lines have
    the message and, of a failure, the evidence.
    """
    lines = [f"{finding.clause:<10} {finding.verdict.value:<9}  {finding.sentence}"]
    if finding.message:
        lines.append(f"{'':<22}{finding.message[: 5 * _WIDTH]}")
    if finding.verdict is Verdict.FAIL:
        lines += [f"{'':<22}{each[: 2 * _WIDTH]}" for each in finding.evidence]
    return "\n".join(lines)


def summary_of(findings: Sequence[Finding]) -> str:
    """Return the last line of the report's table, which sums up the findings.

    It has the numbers of checks, of clauses (numbered requirements), and of findings with each verdict.
    """
    number = counts(findings)
    clauses = len({finding.clause for finding in findings})
    ended = ", ".join(f"{number[verdict]} {verdict.value}" for verdict in Verdict)
    return f"{len(findings)} checks of {clauses} clauses: {ended}"


def as_json(findings: Sequence[Finding], about: Mapping[str, Any]) -> str:
    """Return the report as JSON: the number of findings by verdict, and an entry for each finding.

    `about` has further fields at the top level of the report, which describe the operator and the server.
    """
    number = {verdict.value: count for verdict, count in counts(findings).items()}
    document = {**about, "counts": number, "checks": [finding.as_json() for finding in findings]}
    return json.dumps(document, indent=2) + "\n"


def as_junit(findings: Sequence[Finding], name: str) -> str:
    """Return the report as JUnit's XML, with a test case for each check. `name` is the name of the test suite."""
    number = counts(findings)
    suite = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(len(findings)),
        failures=str(number[Verdict.FAIL]),
        skipped=str(number[Verdict.NOT_TRIED]),
        time=f"{sum(finding.seconds for finding in findings):.1f}",
    )
    for finding in findings:
        case = ElementTree.SubElement(
            suite, "testcase", classname=finding.clause, name=finding.sentence, time=f"{finding.seconds:.1f}"
        )
        text = "\n".join((finding.message, *finding.evidence))
        if finding.verdict is Verdict.FAIL:
            ElementTree.SubElement(case, "failure", message=finding.message).text = text
        elif finding.verdict is Verdict.NOT_TRIED:
            ElementTree.SubElement(case, "skipped", message=finding.message)
        else:
            ElementTree.SubElement(case, "system-out").text = text
    ElementTree.indent(suite)
    # XML has no form for these characters, and an operator's texts may have any.
    return _NOT_IN_XML.sub("\ufffd", ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)) + "\n"


def check_reports(files: Iterable[Path]) -> None:
    """Raise CommandError if the folder of a report does not exist or cannot be written to.

    An examination takes minutes: its result must not be lost at its end.
    """
    for file in files:
        if file.is_dir() or not os.access(file if file.exists() else file.absolute().parent, os.W_OK):
            raise CommandError(f"--report {file}: cannot be written", status=USAGE)


def write_reports(files: Iterable[Path], findings: Sequence[Finding], about: Mapping[str, Any], name: str) -> None:
    """Write a report into each file, as JUnit if its name ends in `.xml`, and as JSON otherwise.

    `about` has fields about the operator and the server for JSON. `name` is the name of the test suite for JUnit.
    Raises CommandError if a file cannot be written.
    """
    for file in files:
        text = as_junit(findings, name) if file.suffix == ".xml" else as_json(findings, about)
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"--report {file}: cannot be written: {error.strerror}") from error


def listed(checks: Iterable[Check[Any]], needs: Mapping[str, str]) -> str:
    """Return the list of checks as text: the clause (numbered requirement), the sentence, and the needs of each check.

    `needs` maps the name of each need, such as `status`, to its description.
    """
    lines = []
    for check in checks:
        wanted = [needs[name] for name in sorted(check.needs)] + ["no other check at the same time"] * check.alone
        lines.append(f"{check.clause:<10} {check.sentence}")
        lines += [f"{'':<10}   needs {'; '.join(wanted)}"] * bool(wanted)
    return "\n".join(lines)
