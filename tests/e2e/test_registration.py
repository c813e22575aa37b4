"""Registration, rotation and a Secret edited by hand, through the commands as a user runs them (PULL-7, PULL-8)."""

import base64
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tests.e2e.test_command_processes import (
    ADMIN_TOKEN,
    GATE,
    ask,
    cluster,
    control_plane,
    make_namespace,
    operator,
    result_of,
    stopped,
)
from tests.support.commands import Ended, Running, call, merge, one_line, run
from tests.support.e2e_world import CLUSTER, NS
from vworkspace_app.credentials.registration import REGISTRATION_TOKEN_TYPE

pytestmark = pytest.mark.slow

OWN = "vworkspace-system"
SECRETS = f"/api/v1/namespaces/{OWN}/secrets"
CLUSTERS = "/apis/ops.vworkspace.io/v1alpha1/clusters"


@attrs.define
class Site:
    """A cluster and a control plane, and everything secret that passed between them."""

    folder: Path
    kubeconfig: Path
    url: str
    control: str
    number: int
    secrets: set[str] = attrs.field(factory=set)
    runs: int = 0

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        return call(method, f"{self.control}/api/admin/{path}", body, token=ADMIN_TOKEN)

    def offer(self, cluster_id: str = CLUSTER) -> str:
        """A one-time token."""
        token: str = self.admin("POST", "registrations", {"clusterId": cluster_id})["registrationToken"]
        self.secrets.add(token)
        return token

    def add_token(self, token: str) -> str:
        self.secrets.add(token)
        self.admin("POST", "tokens", {"clusterId": CLUSTER, "token": token})
        return token

    def secret(self) -> dict[str, str]:
        """The credentials Secret, decoded."""
        found = call("GET", f"{self.url}{SECRETS}/vworkspace-agent-credentials") or {}
        data = {key: base64.b64decode(value).decode() for key, value in found.get("data", {}).items()}
        self.secrets |= {data[key] for key in ("token", "previous-token") if key in data}
        return data

    def edit(self, **data: str) -> None:
        """Somebody edits the Secret by hand."""
        where = f"{self.url}{SECRETS}/vworkspace-agent-credentials"
        told = {key.replace("_", "-"): base64.b64encode(text.encode()).decode() for key, text in data.items()}
        merge(where, {"data": told})

    def put(self, name: str, data: dict[str, str], kind: str = REGISTRATION_TOKEN_TYPE) -> None:
        """Create a Secret of that type in the operator's namespace."""
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "stringData": data}
        call("POST", f"{self.url}{SECRETS}", body)

    def describe(self, **spec: Any) -> None:
        """Create the Cluster object."""
        whole = {"clusterId": CLUSTER, "controlPlaneEndpoint": self.control, **spec}
        body = {"apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "this"}}
        call("POST", f"{self.url}{CLUSTERS}", {**body, "spec": whole})

    def change(self, **spec: Any) -> None:
        """Change fields of the Cluster object."""
        merge(f"{self.url}{CLUSTERS}/this", {"spec": spec})

    def operator(self) -> Running:
        self.runs += 1
        folder = self.folder / str(self.runs)
        return operator(folder, "--kubeconfig", self.kubeconfig, "--listen", "", "--wait", "5", "--log-level", "debug")

    def register(self, token: str, *words: str | Path) -> Ended:
        self.folder.mkdir(exist_ok=True)
        file = self.folder / "registration-token"
        file.write_text(token + "\n", encoding="utf-8")
        where = ("--control-plane-url", self.control, "--registration-token-file", file)
        return run("register", *where, "--kubeconfig", self.kubeconfig, *words)

    def ask(self, job_id: str, generation: int, **job: Any) -> None:
        """Odoo asks for the instance; names and generations of each test are its own."""
        ask(self.control, f"{self.number}-{job_id}", 100 * self.number + generation, **job)

    def result(self, job_id: str) -> Any:
        """The job's result so far."""
        return result_of(self.control, f"{self.number}-{job_id}")

    def done(self, process: Running, job_id: str, generation: int, **job: Any) -> Any:
        """The result of a job that was just asked for."""
        self.ask(job_id, generation, **job)
        return process.until(lambda: self.result(job_id), f"the result of {job_id}")

    def end(self, process: Running) -> Ended:
        """Stop it; nothing secret was shown."""
        self.secret()
        ended = stopped(process)
        assert not [token for token in self.secrets if token in ended.out + ended.err]
        return ended


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, str]]:
    """Both servers up, for every test of this module."""
    folder = tmp_path_factory.mktemp("servers")
    with cluster(folder) as api, control_plane(folder) as control:
        url, control_url = api.ready(), control.ready()
        for name, labels in ((NS, GATE), (OWN, {})):
            make_namespace(url, name, labels)
        yield folder, url, control_url


_numbers = count(1)


@pytest.fixture
def site(servers: tuple[Path, str, str]) -> Site:
    """A cluster that knows of no control plane; objects of earlier tests may be there."""
    folder, url, control = servers
    for where in (f"{SECRETS}/vworkspace-agent-credentials", f"{SECRETS}/one-time", f"{CLUSTERS}/this"):
        call("DELETE", f"{url}{where}")
    number = next(_numbers)
    return Site(folder / str(number), folder / "kubeconfig", url, control, number)


def test_a_cluster_object_with_a_registration_token_is_all_it_takes_to_the_first_job_PULL_8(site: Site) -> None:
    site.put("one-time", {"token": site.offer()})
    site.describe(registrationTokenSecretRef={"name": "one-time", "key": "token"})
    with site.operator() as process:
        assert site.done(process, "first", 7)["outcome"] == "succeeded"
        found = site.secret()
        assert (found["control-plane-base-url"], found["cluster-id"]) == (site.control, CLUSTER)

        site.admin("DELETE", "tokens", {"token": found["token"]})
        call("DELETE", f"{site.url}{SECRETS}/one-time")
        site.put("one-time", {"token": site.offer()})
        assert site.done(process, "second", 7)["outcome"] == "noop", "locked out, and back by a new token"
        assert site.secret()["token"] != found["token"]
        site.end(process)


def test_no_other_secret_is_ever_sent_as_a_registration_token(site: Site) -> None:
    site.put("one-time", {"token": site.offer()}, kind="Opaque")
    site.describe(registrationTokenSecretRef={"name": "one-time", "key": "token"})
    with site.operator() as process:
        process.until(
            lambda: "not of the type that registration takes" in process.err, "why the cluster is not registered"
        )
        assert (
            f"{OWN} create secret generic one-time --type={REGISTRATION_TOKEN_TYPE} --from-file=./token" in process.err
        )
        assert "token" not in site.secret()
        site.end(process)


def test_the_register_command_writes_or_prints_the_secret_and_may_be_repeated_PULL_8(site: Site) -> None:
    token = site.offer()
    printed = site.register(token, "--print")
    assert (printed.status, printed.err) == (0, "")
    secret = yaml.safe_load(printed.out)
    assert secret["metadata"]["name"] == "vworkspace-agent-credentials"
    assert base64.b64decode(secret["data"]["cluster-id"]).decode() == CLUSTER

    for _ in range(2):
        written = site.register(token, "--cluster-id", CLUSTER, "--display-name", "Production one")
        told = f"Secret {OWN}/vworkspace-agent-credentials holds the credential of cluster {CLUSTER}\n"
        assert written == Ended(0, told, "")
    assert site.secret()["control-plane-base-url"] == site.control
    site.edit(approval_secret="kept")
    with site.operator() as process:
        assert site.done(process, "first", 7)["outcome"] == "succeeded"
        site.end(process)

    refused = one_line(site.register(token), 1)
    assert refused.startswith("the registration is refused: POST http")
    assert token not in refused
    other = one_line(site.register(site.offer(), "--cluster-id", "another"), 1)
    assert "is for another cluster" in other
    assert site.register(site.offer()).status == 0
    assert site.secret()["approval-secret"] == "kept", "the rest of the Secret is left alone"


def test_what_is_wrong_with_a_registration_is_one_line(site: Site) -> None:
    file = site.folder / "none"
    words = ("register", "--control-plane-url", site.control, "--registration-token-file", file)
    assert one_line(run(*words), 1) == f"--registration-token-file {file}: cannot be read: No such file or directory"
    bad = ("register", "--control-plane-url", "odoo", "--registration-token-file", file)
    assert "not a URL" in one_line(run(*bad, cold=True), 2)
    spaced = one_line(run("register", "--control-plane-url", site.control, *words[3:], "--cluster-id", "prod 1"), 2)
    assert spaced.startswith("--cluster-id prod 1: not the value of a label: at most 63")
    named = one_line(site.register(site.offer("prod 1")), 1)
    assert named.startswith("the control plane calls this cluster 'prod 1', which no label can hold: at most 63")
    gone = one_line(site.register(site.offer(), "--namespace", "nowhere"), 1)
    assert gone.endswith("The token can be used again")


def test_rotation_in_the_middle_of_a_stream_of_jobs_loses_none_PULL_8(site: Site) -> None:
    site.put(
        "vworkspace-agent-credentials",
        {"control-plane-base-url": site.control, "cluster-id": CLUSTER, "token": site.add_token("t0ken-by-hand")},
    )
    site.describe()
    with site.operator() as process:
        jobs = [f"job-{number}" for number in range(12)]
        for number, job_id in enumerate(jobs):
            if number == 3:
                intent = {"intent": "rotate-operator-credentials"}
                site.ask("rotate", 1, kind="intent", payload=intent, idempotencyKey="rotate-1")
            if number == 8:
                site.change(rotateCredentials=True)
            site.ask(job_id, number + 1, kind="apply" if number < 11 else "nonsense")
        results = {job_id: process.until(lambda j=job_id: site.result(j), job_id) for job_id in jobs}  # type: ignore[misc]
        assert site.result("rotate")["outcome"] == "succeeded"
        assert {result["outcome"] for result in results.values()} <= {"succeeded", "failed"}
        assert results["job-11"]["error"].startswith("InvalidJob")
        assert not [result for result in results.values() if "Rotation" in result.get("error", "")]

        def rotated() -> list[Any]:
            events = site.admin("GET", f"events?cluster={CLUSTER}")["events"]
            return [event["eventKey"] for event in events if event["kind"] == "CredentialRotated"]

        process.until(lambda: len(rotated()) == 2 and "previous-token" not in site.secret(), "both rotations")
        assert f"credential-rotated/{CLUSTER}/job/rotate-1" in rotated()
        assert site.secret()["token"] != "t0ken-by-hand"
        again = site.done(process, "again", 1, kind="intent", payload=intent, idempotencyKey="rotate-1")
        assert again["outcome"] == "noop"
        site.end(process)
        assert process.log("the control plane rejects the credential; trying again slowly") == []

    with site.operator() as process:
        assert site.done(process, "after", 50)["outcome"] == "succeeded"
        assert len(rotated()) == 2, "a Cluster that still asks was served"
        site.end(process)


def test_a_secret_edited_by_hand_takes_effect_at_once_PULL_8(site: Site) -> None:
    wrong = "t0ken-that-nobody-knows"
    site.secrets.add(wrong)
    site.put(
        "vworkspace-agent-credentials",
        {"control-plane-base-url": site.control, "cluster-id": CLUSTER, "token": wrong},
    )
    rejected = "the control plane rejects the credential; trying again slowly"
    with site.operator() as process:
        process.until(lambda: process.log(rejected), "the rejection")
        site.edit(token=site.add_token("t0ken-by-hand"))
        assert site.done(process, "first", 7)["outcome"] == "succeeded"
        ended = site.end(process)
    assert (len(process.log(rejected)), ended.err.count("the credentials changed")) == (1, 1)
