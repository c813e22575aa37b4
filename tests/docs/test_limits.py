"""The limits of docs/limits.md are those of the code, and every limit of the code is told or said to be another's."""

import importlib
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from purekube.cel.limits import LIMITS as EXPRESSIONS
from purekube_run.process.http import ConnectionLimits as PortLimits
from vworkspace_core.api.admission import AdmissionSettings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
MIB, KIB = 1024 * 1024, 1024


def constant(path: str) -> Any:
    """`package.module.NAME`."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@attrs.frozen
class Limit:
    """A row: what it is about, and the number as it stands in the code and on the page."""

    what: str
    value: Any
    told: str


PORT = PortLimits(connections=128)
ADMISSION = AdmissionSettings()
LIMITS = (
    Limit("Body of a webhook request", constant("vworkspace_app.webhooks.intake.LARGEST") / MIB, "3 MiB"),
    Limit("Bodies of webhook requests", constant("vworkspace_app.webhooks.intake.BUDGET") / MIB, "24 MiB"),
    Limit("Head and body of a request to a port", max(PORT.head, PORT.body), "5 s"),
    Limit("A request to a port with its answer", PORT.whole, "30 s"),
    Limit("Unknown tokens", constant("vworkspace_app.page.access.BURST"), "10"),
    Limit("A verdict of the API server", constant("vworkspace_app.page.access.VERDICT_SECONDS"), "10 s"),
    Limit("JSON of an object", constant("purekube.controller.informer.outline.HELD_WHOLE") / KIB, "32 KiB"),
    Limit("Followers of the page", constant("vworkspace_app.page.site.MOST_FOLLOWERS"), "32"),
    Limit("A follower of the page that does not read", PORT.whole, "30 s"),
    Limit("Head of a request to a port", constant("purekube_run.process.http._LONGEST_HEAD") / KIB, "32 KiB"),
    Limit("Levels of an object", constant("purekube.apimachinery.nesting.LEVELS"), "150"),
    Limit("Line of a watch", constant("purekube_http.lines.LINE_LIMIT") / MIB, "32 MiB"),
    Limit("Objects on a page", constant("purekube.controller.informer.outline.PAGE_SIZE"), "150"),
    Limit("Body of an answer", constant("vworkspace_odoo.decoding.LONGEST_BODY") / MIB, "16 MiB"),
    Limit("Values in an answer", constant("vworkspace_odoo.decoding.MOST_VALUES"), "400,000"),
    Limit("Jobs in an answer", constant("vworkspace_odoo.decoding.MOST_JOBS"), "1,000"),
    Limit("Levels of a job", constant("vworkspace_core.control_plane.untrusted_json.DEEPEST"), "100"),
    Limit("Id of a job", constant("vworkspace_core.jobs.wire.LONGEST_ID"), "512"),
    Limit("Idempotency key", constant("vworkspace_core.jobs.wire.LONGEST_KEY"), "1,024"),
    Limit("Encrypted payload", constant("vworkspace_core.jobs.payload_security.LONGEST_SEALED") / MIB, "4 MiB"),
    Limit("Signature of a job", constant("vworkspace_core.jobs.payload_security.LONGEST_SIGNATURE"), "2,048"),
    Limit("Error in the result", constant("vworkspace_core.jobs.result.LONGEST_ERROR"), "1,024"),
    Limit("Problems of an object", constant("purekube.apimachinery.problems.MOST_PROBLEMS"), "32"),
    Limit("Letters of a field's name", constant("purekube.apimachinery.problems._LONGEST_STEP"), "64"),
    Limit("Members of a list or map", constant("vworkspace_core.operations.schema_violations._MOST_MEMBERS"), "1,024"),
    Limit("Text that is shown", constant("purekube.apimachinery.secret_material.LONGEST_SHOWN"), "4,096"),
    Limit("Inline values", ADMISSION.max_inline_bytes / KIB, "512 KiB"),
    Limit("Parameters of an Operation", ADMISSION.max_parameters_bytes / KIB, "256 KiB"),
    Limit("Message of a condition", constant("purekube.apimachinery.secret_material.LONGEST_MESSAGE"), "1,024"),
    Limit("Note of an Event", constant("purekube.controller.event_series.LONGEST_NOTE"), "1,024"),
    Limit("Text of a log line", constant("purekube_run.process.logs._LONGEST"), "32,768"),
    Limit("Approval claim", constant("vworkspace_core.operations.approvals.LONGEST"), "8,192"),
    Limit("Used approvals", constant("vworkspace_core.operations.approvals.MOST_SPENT"), "5,000"),
    Limit(
        "Retention of a backup", constant("vworkspace_core.operations.engines.velero.LONGEST_RETENTION_DAYS"), "3650"
    ),
    Limit(
        "Helm's release", constant("vworkspace_core.operations.engines.helm_hook_job.LARGEST_RELEASE") / MIB, "4 MiB"
    ),
    Limit(
        "Manifest of a hook", constant("vworkspace_core.operations.engines.helm_hook_job.LARGEST_HOOK") / KIB, "256 KiB"
    ),
    Limit("Values in a YAML", constant("purekube_run.process.yaml_documents._MOST_VALUES"), "20,000"),
    Limit("Levels of a YAML", constant("purekube_run.process.yaml_documents._DEEPEST"), "100"),
    Limit("Outputs of an Operation", constant("vworkspace_core.operations.status.MOST_OUTPUTS"), "32"),
    Limit("Outputs of a workflow", constant("vworkspace_core.operations.engines.workflow._MOST_OUTPUTS"), "32"),
    Limit("Text of an expression", EXPRESSIONS.text, "4,096"),
    Limit("Steps of an expression", EXPRESSIONS.steps, "100,000"),
)


def rows() -> dict[str, str]:
    """Limit by what it is about."""
    found = re.findall(r"^\| (?!what|-)(.+?) \| (.+?) \| .+ \|$", PAGE, re.MULTILINE)
    return dict(found)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.what)
def test_a_limit_of_the_page_is_that_of_the_code(limit: Limit) -> None:
    (told,) = [text for what, text in rows().items() if what.startswith(limit.what)]

    assert told.startswith(limit.told)
    assert float(limit.told.split(" ")[0].replace(",", "")) == limit.value


def test_the_page_tells_nothing_that_nobody_holds() -> None:
    others = ("Connections to a port", "Requests that a port answers", "Reviews that are judged")
    held = (*(limit.what for limit in LIMITS), *others)

    assert [what for what in rows() if not what.startswith(held)] == []
