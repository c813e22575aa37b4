"""What the examiner records of requests, how it reports, and what it refuses before it begins (CONF-1)."""

import json
import os
import shlex
import sys
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

import anyio
import anyio.to_thread
import pytest
import yaml

import kubelab
from kubelab.http.protobuf import text_field
from kubelab.http.serving import kubeconfig
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube_http import load_config
from purekube_http.forwarding import Forwarder
from purekube_run.examination.audit import Audit, RecordedRequest
from purekube_run.examination.operator_process import OperatorProcess
from purekube_run.examination.proxy import Proxy
from purekube_run.examination.report import as_junit
from purekube_run.examination.verdicts import Finding, Verdict
from purekube_run.process.command_line import CommandError
from tests.support.greetings_controller import CRD, greeting
from tests.support.patience import PATIENCE, until
from tests.support.server_thread import served, wall_clock
from vworkspace_app.commands.conformance.controller import examine_controller
from vworkspace_app.commands.conformance.operator import examine_operator


def recorded(method: str, path: str, status: int, **headers: str) -> RecordedRequest:
    audit = Audit()
    call = audit.begin(1, method, path, {}, headers, b"{}" if method != "GET" else b"")
    assert call is not None
    audit.answered(call, status, b"{}")
    return call


@pytest.mark.parametrize("path", ["pods/a/eviction", "pods/a/binding", "serviceaccounts/a/token"])
def test_a_subresource_that_is_answered_201_is_no_created_object(path: str) -> None:
    assert recorded("POST", "/api/v1/namespaces/x/pods", 201).created
    assert not recorded("POST", f"/api/v1/namespaces/x/{path}", 201).created


def test_a_request_for_metadata_alone_is_known_by_what_it_accepts() -> None:
    """So ask the metadata clients of client-go and kube-rs."""
    only = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert recorded("GET", "/api/v1/secrets", 200, accept=only).reads_metadata_only
    assert not recorded("GET", "/api/v1/secrets", 200, accept="application/json").reads_metadata_only
    assert recorded("GET", "/api/v1/secrets", 200, accept=f"{only},application/json").reads_metadata_only
    assert not recorded("GET", "/api/v1/secrets", 200, accept=f"application/json,{only}").reads_metadata_only


def test_a_protobuf_body_of_a_typed_client_is_recorded_as_its_json() -> None:
    """So writes controller-runtime whatever is not of a CRD."""
    audit, headers = Audit(), {"content-type": "application/vnd.kubernetes.protobuf"}
    path = "/api/v1/namespaces/x/configmaps"
    call = audit.begin(1, "POST", path, {}, headers, protobuf("v1", "ConfigMap", b"\x0a\x07\x0a\x05hello"))
    assert call is not None
    assert (call.name, call.body["kind"]) == ("hello", "ConfigMap")

    deleted = audit.begin(
        1, "DELETE", f"{path}/hello", {}, headers, protobuf("v1", "DeleteOptions", b"\x12\x03\x0a\x01u")
    )
    assert deleted is not None
    assert deleted.body["preconditions"] == {"uid": "u"}

    secret = audit.begin(1, "POST", path, {}, headers, protobuf("example.com/v1", "Unheard", b"\x0a\x08password"))
    assert secret is not None
    assert "password" in str(secret.body), "a check finds a credential in what it cannot decode, too"


def protobuf(version: str, kind: str, message: bytes) -> bytes:
    """The message of an object in the envelope of Kubernetes."""
    type_meta = text_field(1, version) + text_field(2, kind)
    return b"k8s\x00" + text_field(1, type_meta) + text_field(2, message)


@pytest.mark.parametrize("accept", ["application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf, */*"])
def test_answers_come_as_json_whatever_the_operator_would_rather_have(accept: str, tmp_path: Path) -> None:
    """kube-apiserver answers the typed clients of Go with protobuf, and the embedded server refuses it."""
    answers = list[tuple[int, str]]()

    def ask(url: str) -> None:
        asked = urllib.request.Request(f"{url}/api/v1/namespaces", headers={"accept": accept})
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            answers.append((answer.status, answer.headers["content-type"]))

    async def main() -> None:
        forwarder = Forwarder(load_config(tmp_path / "kubeconfig"))
        async with anyio.create_task_group() as group:
            url = await group.start(Proxy(forwarder, Audit()).serve, 1)
            await anyio.to_thread.run_sync(ask, url)
            group.cancel_scope.cancel()
        await forwarder.close()

    with served(ApiServer(now=wall_clock)) as url:
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(url)), encoding="utf-8")
        anyio.run(main)
    assert answers == [(200, "application/json")]


def test_a_report_for_junit_can_be_read_whatever_the_operator_says() -> None:
    said = "\x1b[31mno\x00 \ud800 \ufffe & <b>\t\n"
    findings = [
        Finding("REC-1", said, verdict, said, (said,), 1.0, "check")
        for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.NOT_TRIED)
    ]
    text = as_junit(findings, "conformance")
    suite = ElementTree.fromstring(text.encode())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert "& <b>" in str(suite.findall("testcase")[1][0].text)


def test_what_a_process_has_started_ends_with_it(tmp_path: Path) -> None:
    """A wrapper such as `go run` or a shell may end before its child."""
    pid = tmp_path / "pid"
    child = f"sleep 600 & echo $! > {shlex.quote(str(pid))}"
    process = OperatorProcess(1, ["sh", "-c", child], {}, tmp_path / "log")
    until(lambda: process.status is not None and bool(pid.read_text()), "the wrapper has ended")
    process.kill()

    until(lambda: not is_running(int(pid.read_text())), "the child has ended")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


# --- what is refused before anything is started ----------------------------------------------------------------------


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return written(tmp_path / "sample.yaml", greeting(who="World"))


def written(path: Path, manifest: object) -> Path:
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return path


def test_a_check_that_does_not_exist_is_refused_among_others_that_do(sample: Path) -> None:
    with pytest.raises(CommandError, match="--only retrys: no such check"):
        examine_controller(operator="true", sample=sample, only=["ownership", "retrys"])
    with pytest.raises(CommandError, match="--clause PULL-4: no such check in profile gitops"):
        examine_operator(operator="true", clause=["REC-5", "PULL-4"])


def test_an_edit_that_changes_no_spec_is_refused(sample: Path) -> None:
    with pytest.raises(CommandError, match=r"--edited .*: its spec is that of --sample"):
        examine_controller(operator="true", sample=sample, edited=sample)


def test_a_report_that_cannot_be_written_is_refused_before_the_examination(sample: Path, tmp_path: Path) -> None:
    began = tmp_path / "began"
    operator = f"sh -c 'touch {began}; sleep 600'"
    nowhere = tmp_path / "nowhere" / "report.xml"
    with pytest.raises(CommandError, match=r"--report .*report\.xml"):
        examine_controller(
            operator=operator, sample=sample, crds=[written(tmp_path / "crd.yaml", CRD)], report=[nowhere]
        )
    with pytest.raises(CommandError, match=r"--report .*report\.xml"):
        examine_operator(operator=operator, report=[nowhere])
    assert not began.exists()


def test_definitions_for_the_embedded_server_are_refused_with_a_cluster(sample: Path, tmp_path: Path) -> None:
    crd = written(tmp_path / "crd.yaml", CRD)
    with pytest.raises(CommandError, match=r"--crds .*embedded"):
        examine_controller(operator="true", sample=sample, crds=[crd], kubeconfig=tmp_path / "kc")
    with pytest.raises(CommandError, match=r"--simulate .*embedded"):
        examine_controller(operator="true", sample=sample, simulate="job", kubeconfig=tmp_path / "kc")


def test_a_cluster_that_refuses_the_credentials_is_not_said_to_lack_the_kind(sample: Path, tmp_path: Path) -> None:
    with kubelab.serve(crds=[CRD], tokens={"good": Caller("somebody")}) as server:
        text = server.kubeconfig.read_text(encoding="utf-8").replace("good", "stale")
        kubeconfig = tmp_path / "kc"
        kubeconfig.write_text(text, encoding="utf-8")
        with pytest.raises(CommandError, match="401"):
            examine_controller(operator=sys.executable, sample=sample, kubeconfig=kubeconfig)


@pytest.mark.parametrize("content", [{"kind": "Greeting"}, {"apiVersion": "example.com/v1", "kind": "Greeting"}])
def test_a_sample_without_a_name_or_an_api_version_is_refused(content: object, tmp_path: Path) -> None:
    with pytest.raises(CommandError):
        examine_controller(operator="true", sample=written(tmp_path / "sample.yaml", content))


def test_an_operator_without_output_is_reported_as_such(tmp_path: Path) -> None:
    """A message that ended with a colon and nothing left open whether the examiner or the operator had lost the log."""
    silent = OperatorProcess(1, [sys.executable, "-c", ""], {}, tmp_path / "log")
    silent.kill()

    assert silent.last_lines == "(it printed nothing)"
