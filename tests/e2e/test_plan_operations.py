"""`plan` for Operations: with target, siblings and downstream objects, offline (OPS-1 to OPS-6)."""

import base64
import contextlib
import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelab.flux import ChartHook
from purekube.apimachinery.manifest import canonical_json
from purekube.apimachinery.resources import JOB
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format, parse_yaml, read_documents
from tests.support.commands import Ended, one_line, run
from tests.support.operation_worlds import (
    APPROVAL_SECRET,
    GOOD,
    HOOK_SPEC,
    HOOK_TEMPLATE,
    NS,
    OP_UID,
    SURROUNDINGS,
    operation_manifest,
    recorded,
    target_manifest,
)
from vworkspace_app.commands.plan import PlanRequest, plan
from vworkspace_core.api.kinds import ALL_KINDS

NOW = ("--now", "2026-06-01T12:00:00Z")
NAME = "op-1-0badcafe"
RELEASE = target_manifest()["spec"]["release"]["name"]
APPROVAL: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "vworkspace-agent-credentials", "namespace": "vworkspace-system"},
    "data": {"approval-secret": base64.b64encode(APPROVAL_SECRET).decode()},
}


def gate(name: str = NS) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"managed-by": "vworkspace"}}}


def surroundings() -> list[dict[str, Any]]:
    """What the good parameters speak of, as kubectl prints it."""
    found = []
    for ref, manifest in SURROUNDINGS.items():
        meta = {"namespace": ref.namespace} if ref.namespace else {}
        body = {**ref.kind.manifest(ref.name), **manifest}
        found.append({**body, "metadata": {**meta, **body["metadata"]}})
    return found


def planned(tmp_path: Path, *documents: Any, words: tuple[str, ...] = ()) -> Ended:
    file = tmp_path / "cluster.yaml"
    # As a user has them: plain, without what Python shares.
    file.write_text("---\n".join(canonical_json(document).decode() + "\n" for document in documents), encoding="utf-8")
    return planning(file, *words)


def planning(file: Path, *words: str) -> Ended:
    """The command without its process: options in pairs."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    request = PlanRequest(
        [str(file)],
        wanted=given.get("--for", ""),
        now=NOW[1],
        missing=[given["--missing"]] if "--missing" in given else [],
        templates=[given["--templates"]] if "--templates" in given else [],
        output=Format.JSON,
    )
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        try:
            return Ended(0, plan(request).text, err.getvalue())
        except CommandError as error:
            return Ended(error.status, "", f"{err.getvalue()}error: {error.message}\n")


def decision(ended: Ended) -> Any:
    assert (ended.status, ended.problems) == (0, []), ended.err
    return json.loads(ended.out)


def conditions(decided: Any) -> dict[str, tuple[str, str]]:
    return {
        condition["type"]: (condition["status"], condition["reason"]) for condition in decided["status"]["conditions"]
    }


@pytest.mark.parametrize("of", GOOD)
def test_plan_shows_how_every_template_starts_OPS_1(of: str, tmp_path: Path) -> None:
    decided = decision(
        planned(tmp_path, gate(), target_manifest(of), operation_manifest(of), APPROVAL, *surroundings())
    )

    assert decided["status"]["phase"] == "Running"
    assert conditions(decided)["Accepted"] == ("True", "TemplateValidated")
    if of == "upgrade.helm":
        assert decided["status"]["outputs"]["toVersion"] == "6.7.0"
    else:
        assert decided["status"]["engineRef"]["name"] == NAME
    assert "create" not in decided, "the intent first"
    if of != "upgrade.helm":
        (created,) = decided["then"]["create"]
        assert created["manifest"]["kind"] == decided["status"]["engineRef"]["kind"], "and then this (U12)"
        assert created["manifest"]["spec"]


def running(of: str, kind: str, api_version: str, namespace: str = NS, uid: str = "") -> dict[str, Any]:
    reference = {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": NAME}
    reference |= {"uid": uid} if uid else {}
    status = {"observedGeneration": 1, "phase": "Running", "startedAt": "2026-06-01T11:59:30Z", "engineRef": reference}
    return {**operation_manifest(of), "status": status}


def test_plan_shows_what_is_created_once_the_intent_stands_OPS_1(tmp_path: Path) -> None:
    one = running("backup.velero", "Backup", "velero.io/v1", "velero")

    decided = decision(planned(tmp_path, gate(), target_manifest("backup.velero"), one, *surroundings()))

    (created,) = decided["create"]
    assert created["manifest"]["kind"] == "Backup"
    assert created["manifest"]["spec"]["ttl"] == "720h0m0s"


def test_plan_judges_the_downstream_object_OPS_6(tmp_path: Path) -> None:
    labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/operation-uid": OP_UID}
    backup = {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": NAME, "namespace": "velero", "uid": "b-uid", "labels": labels},
        "spec": {},
        "status": {"phase": "PartiallyFailed", "errors": 2},
    }
    one = running("backup.velero", "Backup", "velero.io/v1", "velero", "b-uid")

    decided = decision(planned(tmp_path, gate(), target_manifest("backup.velero"), one, backup))
    gone = decision(planned(tmp_path, gate(), target_manifest("backup.velero"), one))

    assert decided["status"]["phase"] == "Succeeded"
    assert conditions(decided)["Degraded"] == ("True", "PartialFailure")
    assert conditions(gone)["Failed"] == ("True", "ExternalDeletion")


def test_plan_takes_siblings_into_account_OPS_5(tmp_path: Path) -> None:
    target = target_manifest("upgrade.helm", {"migration": "workflow"})
    first = operation_manifest("migration.workflow", name="first", uid="", created="2026-06-01T11:00:00Z")
    second = operation_manifest("upgrade.helm", name="second", uid="")
    for one in (first, second):
        del one["metadata"]["uid"]

    waiting = planned(tmp_path, gate(), target, first, second, words=("--for", "second"))
    ahead = planned(tmp_path, gate(), target, first, second, words=("--for", "Operation/first"))

    assert conditions(decision(waiting))["Blocked"] == ("True", "ConflictingOperation")
    assert decision(ahead)["status"]["phase"] == "Running"


def test_an_upgrade_under_way_shapes_the_plan_of_its_target_REC_9(tmp_path: Path) -> None:
    target = target_manifest("upgrade.helm")
    one = operation_manifest("upgrade.helm")
    started = decision(planned(tmp_path, gate(), target, one))["status"]

    ended = planned(
        tmp_path,
        gate(),
        target,
        {**one, "status": started},
        words=("--for", f"ApplicationInstance/{target['metadata']['name']}"),
    )

    assert decision(ended)["status"]["releaseOverride"]["version"] == "6.7.0"
    (source,) = (one["manifest"] for one in decision(ended)["apply"] if one["manifest"]["kind"] == "OCIRepository")
    assert source["spec"]["ref"]["tag"] == "6.7.0"


def test_plan_reads_a_hook_from_the_release_secret_of_the_files_OPS_8(tmp_path: Path) -> None:
    manifest = "# Source: a/b.yaml\n" + yaml.safe_dump({**JOB.manifest("db-migrate"), "spec": HOOK_SPEC})
    release = recorded(ChartHook("db-migrate", "Job", manifest, ("pre-upgrade",))).values()
    one = running("migration.helmHookJob", "Job", "batch/v1")

    decided = decision(planned(tmp_path, gate(), target_manifest("migration.helmHookJob"), one, *release))

    (created,) = decided["create"]
    pod = created["manifest"]["spec"]["template"]["spec"]
    assert pod["containers"] == HOOK_TEMPLATE["spec"]["containers"]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in itertools.pairwise("abcdefghi")
)


@pytest.mark.slow
@pytest.mark.parametrize("text", [BOMB, "[" * 120_000, "- a\n" * 60_000], ids=["aliases", "deep", "many"])
def test_yaml_that_means_more_than_it_says_is_not_read(tmp_path: Path, text: str) -> None:
    """From a release and from a file: aliases multiply, nesting ends the process, values cost more than letters."""
    with pytest.raises(ValueError, match="aliases, nested too deeply or with too many values"):
        parse_yaml(text)
    file = tmp_path / "bomb.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match=r"bomb.yaml:\d+: not"):
        read_documents([str(file)])


def test_an_alias_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("kind: &k Namespace\nother: *k\n", encoding="utf-8")

    with pytest.raises(CommandError) as error:
        read_documents([str(file)])

    told = "the alias *k stands for a value given elsewhere: write the value itself"
    assert str(error.value) == f"{file}:2: not valid YAML: {told}"


def test_plan_without_the_target_or_with_one_that_cannot_be_read_says_so_OPS_3(tmp_path: Path) -> None:
    one = operation_manifest()

    decided = decision(planned(tmp_path, gate(), one))

    assert conditions(decided)["Accepted"] == ("False", "TargetNotFound")


def test_plan_without_the_approval_secret_says_that_claims_cannot_be_checked_OPS_4(tmp_path: Path) -> None:
    documents = (gate(), target_manifest("restore.velero"), operation_manifest("restore.velero"), *surroundings())

    without = decision(planned(tmp_path, *documents))
    broken = planned(tmp_path, *documents, {**APPROVAL, "data": {"approval-secret": "%"}})

    assert conditions(without)["Blocked"] == ("True", "MissingSecret")
    assert one_line(broken, 1) == "Secret vworkspace-agent-credentials: data.approval-secret is not base64"


def test_plan_shows_neither_claim_nor_secret_RES_7(tmp_path: Path) -> None:
    one = operation_manifest("restore.velero")
    ended = planned(tmp_path, gate(), target_manifest("restore.velero"), one, APPROVAL, *surroundings())

    assert one["spec"]["approvals"]["claim"].split(".")[1] not in ended.out + ended.err
    assert APPROVAL["data"]["approval-secret"] not in ended.out + ended.err


def test_plan_of_an_operation_that_cannot_be_read_lists_every_problem_with_its_path(tmp_path: Path) -> None:
    broken = operation_manifest(timeoutSeconds="soon", targetRef={"kind": "ApplicationInstance"})

    told = one_line(planned(tmp_path, broken), 1)

    assert told.startswith("the Operation cannot be read: ")
    for path in ("spec.timeoutSeconds", "spec.targetRef.name"):
        assert f"{path}: " in told


def test_a_sibling_that_cannot_be_read_is_left_out_and_noted(tmp_path: Path) -> None:
    broken = operation_manifest("backup.velero", name="broken", uid="u-2", engine="magic")

    ended = planned(tmp_path, gate(), target_manifest(), operation_manifest(), broken, words=("--for", "op-1"))

    assert ended.err.startswith(f"note: Operation {NS}/broken cannot be read and is left out: spec.engine: ")
    assert ended.status == 0


def test_plan_asks_which_one_of_several_is_meant(tmp_path: Path) -> None:
    documents = (gate(), target_manifest(), operation_manifest(), operation_manifest(name="op-2", uid="u-2"))

    assert one_line(planned(tmp_path, *documents), 2) == (
        "several objects could be planned; say which with --for: Operation/op-1, Operation/op-2"
    )
    assert one_line(planned(tmp_path, *documents, words=("--for", "op-3")), 2) == (
        "--for op-3: the files hold no Operation or ApplicationInstance of that name"
    )


def test_plan_without_the_engines_definitions_is_blocked_OPS_3(tmp_path: Path) -> None:
    documents = (gate(), target_manifest("backup.velero"), operation_manifest("backup.velero"), *surroundings())

    decided = decision(planned(tmp_path, *documents, words=("--missing", "backups.velero.io")))

    assert conditions(decided)["Blocked"] == ("True", "DependencyMissing")


TEMPLATE = """
name: runbook.job
type: Runbook
engine: job
capability: runbook
parameters:
  type: object
  additionalProperties: false
  required: [image]
  properties:
    image: {type: string, pattern: "^registry[.]example/"}
"""


def test_a_template_from_a_file_is_planned_with_OPS_2(tmp_path: Path) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text(
        f"# two of them\n---\n{TEMPLATE}---\n{TEMPLATE.replace('Runbook', 'Backup').replace('runbook', 'backup')}"
    )
    one = operation_manifest(type="Runbook", parameters={"image": "registry.example/a:1"})
    documents = (gate(), target_manifest("runCommand.job", {"runbook": "job"}))

    without = decision(planned(tmp_path, *documents, one))
    decided = decision(planned(tmp_path, *documents, one, words=("--templates", str(file))))
    one["spec"]["parameters"]["image"] = "elsewhere/a:1"
    refused = decision(planned(tmp_path, *documents, one, words=("--templates", str(file))))

    assert conditions(without)["Accepted"] == ("False", "ValidationFailed")
    assert decided["status"]["phase"] == "Running"
    assert conditions(refused)["Accepted"] == ("False", "ValidationFailed")


BAD_TEMPLATES = {
    TEMPLATE.replace("type: Runbook", "type: Explode"): ":1: not a template: type: must be one of ",
    TEMPLATE + "needsRoot: true\n": ":1: not a template: needsRoot: unknown key",
    TEMPLATE.replace(
        "engine: job", "engine: magic"
    ): ":1: not a template: engine: there is no engine magic; those are velero, ",
    TEMPLATE.replace(
        "type: string", "type: text"
    ): ":1: not a template: parameters.properties.image.type: is no JSON Schema",
    TEMPLATE.replace(
        '"^registry[.]example/"', '"("'
    ): ":1: not a template: parameters.properties.image.pattern: is no JSON",
    TEMPLATE.replace(
        "type: Runbook", "type: RunCommand"
    ): ":1: not a template: name: binds type RunCommand to engine job, as runCommand.job",
    f"{TEMPLATE}---\njust text\n": ":12: not a template: must be an object",
    "name: [\n": ":2: not valid YAML: ",
}


@pytest.mark.parametrize("text", BAD_TEMPLATES, ids=range(len(BAD_TEMPLATES)))
def test_a_file_that_holds_no_template_is_refused_with_line_and_path_OPS_2(text: str, tmp_path: Path) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text(text.lstrip(), encoding="utf-8")

    told = one_line(planned(tmp_path, operation_manifest(), words=("--templates", str(file))), 1)

    assert told.startswith(f"{file}{BAD_TEMPLATES[text]}"), told


@pytest.mark.slow
def test_the_command_itself_takes_its_options_and_prints_yaml(tmp_path: Path) -> None:
    template, cluster = tmp_path / "templates.yaml", tmp_path / "cluster.yaml"
    template.write_text(TEMPLATE, encoding="utf-8")
    one = operation_manifest(type="Runbook", parameters={"image": "registry.example/a:1"})
    other = operation_manifest("backup.velero", name="other", uid="u-2")
    documents = (gate(), target_manifest("runCommand.job", {"runbook": "job"}), one, other)
    cluster.write_bytes(b"".join(b"---\n" + canonical_json(each) + b"\n" for each in documents))

    ended = run("plan", cluster, "--for", "Operation/op-1", "--templates", template, *NOW)

    assert ended.err.startswith("plan: 1 create (Job op-1-0badcafe)")
    assert yaml.safe_load(ended.out)["status"]["engineRef"]["name"] == NAME


@pytest.mark.slow
def test_run_refuses_a_file_that_holds_no_template_before_it_contacts_anything_OPS_2(tmp_path: Path) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text("name: 1\n", encoding="utf-8")

    told = one_line(run("run", "--templates", file, "--kubeconfig", tmp_path / "none"), 1)

    assert told.startswith(f"{file}:1: not a template: ")


def test_every_kind_an_engine_looks_at_is_known_to_plan() -> None:
    assert {ref.kind for ref in SURROUNDINGS} <= set(ALL_KINDS)
