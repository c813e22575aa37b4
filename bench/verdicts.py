"""The verdicts of `conformance operator` on several operators, as in docs/conformance-verdicts.md.

    python -m bench.verdicts "ours=full.json" "kopf=kopf.json"

Each word is a name and the report of `--report FILE.json`. Clauses that do not show from outside are left out.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from purekube_run.examination.verdicts import Verdict
from vworkspace_app.examination.run import place_of

Report: TypeAlias = Mapping[str, Any]


def checks(report: Report) -> Sequence[Mapping[str, Any]]:
    """Return the findings of checks; a clause without a check is none."""
    return [finding for finding in report["checks"] if finding["check"]]


def cell(verdicts: Sequence[str]) -> str:
    """Return the numbers of verdicts, as in `2 pass, 1 FAIL`; a dash for none."""
    found = Counter(verdicts)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in Verdict if found[verdict]) or "-"


def verdict_table(reports: Mapping[str, Report]) -> str:
    """Return a Markdown table: clauses, and for each operator the numbers of verdicts."""
    clauses = sorted({finding["clause"] for report in reports.values() for finding in checks(report)}, key=place_of)
    rows = [["clause", *reports], ["---"] * (1 + len(reports))]
    for clause in ("", *clauses):
        found = [
            [each["verdict"] for each in checks(report) if clause in ("", each["clause"])]
            for report in reports.values()
        ]
        rows.append([clause or "all", *map(cell, found)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def failures(report: Report) -> str:
    """Return the failed checks as a list, each with what was seen."""
    failed = [finding for finding in checks(report) if finding["verdict"] == "FAIL"]
    failed.sort(key=lambda finding: place_of(finding["clause"]))
    return "\n".join(f"* {each['clause']}, {each['sentence']}: {each['message']}" for each in failed)


def main() -> None:
    """Print the table, and for each operator its command and its failed checks."""
    reports = {
        name: json.loads(Path(file).read_text()) for name, _, file in (word.rpartition("=") for word in sys.argv[1:])
    }
    print(verdict_table(reports))
    for name, report in reports.items():
        print(
            f"\n{name}: `{report['operator']}`, profile {report['profile']}, on {report['server']}\n{failures(report)}"
        )


if __name__ == "__main__":
    main()
