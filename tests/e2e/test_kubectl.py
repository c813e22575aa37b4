"""An unmodified kubectl against the embedded API server (RUN-9)."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from tests.support.apiserver_world import GIZMO, RIG, crd
from tests.support.kubectl import Kubectl, why_not
from tests.support.server_thread import served, wall_clock

REASON = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(REASON), reason=REASON)]

GIZMO_YAML = """
apiVersion: tests.example/v1
kind: Gizmo
metadata: {name: gear, labels: {app: gear}}
spec: {size: 1}
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("kubectl")
    with served(ApiServer(now=wall_clock)) as url:
        (home / "config").write_text(yaml.safe_dump(kubeconfig(url)))
        tool = Kubectl(home)
        definitions = [crd(GIZMO), crd(RIG)]
        tool.run("apply", "-f", "-", given="---\n".join(map(yaml.safe_dump, definitions)))
        yield tool


@pytest.fixture
def gear(kubectl: Kubectl) -> Iterator[str]:
    kubectl.run("apply", "-f", "-", given=GIZMO_YAML)
    yield "gizmo/gear"
    kubectl.run("delete", "gizmo/gear", "--ignore-not-found")


def test_a_definition_is_awaited_and_listed(kubectl: Kubectl) -> None:
    kubectl.run("wait", "--for=condition=Established", "crd", "gizmos.tests.example", "--timeout=300s")
    assert "gizmos.tests.example" in kubectl.run("get", "crd")
    resources = kubectl.run("api-resources", "--api-group=tests.example", "-o", "name").split()
    assert resources == ["gizmos.tests.example", "rigs.tests.example"]


@pytest.mark.usefixtures("gear")
def test_get_shows_tables_lists_and_objects(kubectl: Kubectl) -> None:
    assert kubectl.run("get", "gizmos").split()[:2] == ["NAME", "AGE"]
    assert "default" in kubectl.run("get", "gizmos", "-A", "--show-labels")
    assert yaml.safe_load(kubectl.run("get", "gizmo", "gear", "-o", "yaml"))["spec"] == {"mode": "normal", "size": 1}
    assert kubectl.json("get", "gizmos", "-l", "app=gear")["items"][0]["metadata"]["name"] == "gear"
    assert kubectl.run("get", "gizmo", "none", status=1).strip().endswith('gizmos.tests.example "none" not found')


def test_apply_is_idempotent_and_says_what_it_did(kubectl: Kubectl) -> None:
    for expected in ("created", "unchanged"):
        assert kubectl.run("apply", "-f", "-", given=GIZMO_YAML).strip() == f"gizmo.tests.example/gear {expected}"
    changed = kubectl.run("apply", "-f", "-", given=GIZMO_YAML.replace("size: 1", "size: 2"))
    assert changed.strip() == "gizmo.tests.example/gear configured"
    assert kubectl.json("get", "gizmo", "gear")["metadata"]["generation"] == 2
    kubectl.run("delete", "gizmo", "gear")


@pytest.mark.usefixtures("gear")
def test_server_side_apply_takes_over_and_conflicts(kubectl: Kubectl) -> None:
    kubectl.run("apply", "--server-side", "--field-manager=one", "-f", "-", given=GIZMO_YAML)
    other = GIZMO_YAML.replace("size: 1", "size: 2")
    refused = kubectl.run("apply", "--server-side", "--field-manager=two", "-f", "-", given=other, status=1)
    assert 'conflict with "one": .spec.size' in refused.replace("conflicts with", "conflict with")
    kubectl.run("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", given=other)
    owners = kubectl.json("get", "gizmo", "gear", "--show-managed-fields")["metadata"]["managedFields"]
    sizes = [entry["manager"] for entry in owners if "f:size" in entry["fieldsV1"].get("f:spec", {})]
    assert sizes == ["two"]


@pytest.mark.usefixtures("gear")
def test_diff_tells_and_changes_nothing(kubectl: Kubectl) -> None:
    other = GIZMO_YAML.replace("size: 1", "size: 2")
    version = kubectl.json("get", "gizmo", "gear")["metadata"]["resourceVersion"]
    for options in ((), ("--server-side", "--force-conflicts")):
        told = kubectl.run("diff", *options, "-f", "-", given=other, status=1)
        assert "-  size: 1\n+  size: 2" in told
    assert kubectl.json("get", "gizmo", "gear")["metadata"]["resourceVersion"] == version


def test_patches_of_every_kind(kubectl: Kubectl, gear: str) -> None:
    kubectl.run("patch", gear, "--type=merge", "-p", '{"spec":{"size":5}}')
    kubectl.run("patch", gear, "--type=json", "-p", '[{"op":"replace","path":"/spec/size","value":6}]')
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl.run("patch", gear, "--subresource=status", "--type=merge", "-p", ready)
    kubectl.run("wait", gear, "--for=condition=Ready", "--timeout=300s")
    kubectl.run("wait", gear, "--for=jsonpath={.spec.size}=6", "--timeout=300s")
    refused = kubectl.run("patch", gear, "--type=strategic", "-p", "{}", status=1)
    assert "strategic-merge-patch+json is not supported" in refused
    kubectl.run("create", "configmap", "plain", "--from-literal=a=1")
    kubectl.run("patch", "cm", "plain", "-p", '{"data":{"b":"2"}}')
    assert kubectl.json("get", "cm", "plain")["data"] == {"a": "1", "b": "2"}


def test_labels_annotations_and_scale(kubectl: Kubectl, gear: str) -> None:
    kubectl.run("label", gear, "tier=x")
    kubectl.run("annotate", gear, "note=hello")
    kubectl.run("scale", gear, "--replicas=3")
    found = kubectl.json("get", "gizmo", "gear")
    assert found["metadata"]["labels"] == {"app": "gear", "tier": "x"}
    assert found["metadata"]["annotations"]["note"] == "hello"
    assert found["spec"]["replicas"] == 3


def test_describe_shows_fields_and_events(kubectl: Kubectl, gear: str) -> None:
    about = {"apiVersion": "tests.example/v1", "kind": "Gizmo", "name": "gear", "namespace": "default"}
    uid = kubectl.json("get", gear)["metadata"]["uid"]
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "gear-event", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "tests.example/c",
        "reportingInstance": "i",
        "action": "Testing",
        "reason": "Tested",
        "type": "Normal",
        "note": "the gear was tested",
        "regarding": {**about, "uid": uid},
    }
    kubectl.run("create", "-f", "-", given=json.dumps(event))
    told = kubectl.run("describe", gear)
    assert "Name:         gear" in told
    assert "the gear was tested" in told
    assert "the gear was tested" in kubectl.run("events", "--for", gear)
    assert "gizmo/gear" in kubectl.run("get", "events")


def test_a_watch_prints_changes_until_it_is_over(kubectl: Kubectl, gear: str) -> None:
    with kubectl.watching(gear, "-o", "jsonpath={.spec.size} ", "--request-timeout=300s") as shown:
        assert kubectl.until(shown, "1") == ["1"]
        for size in (2, 3):
            kubectl.run("patch", gear, "--type=merge", "-p", f'{{"spec":{{"size":{size}}}}}')
        assert kubectl.until(shown, "3") == ["1", "2", "3"]
    ended = kubectl.run("get", gear, "-w", "-o", "name", "--request-timeout=1s")
    assert ended.splitlines()[0] == "gizmo.tests.example/gear"


def test_create_makes_plain_kinds(kubectl: Kubectl) -> None:
    kubectl.run("create", "namespace", "room")
    kubectl.run("create", "secret", "generic", "s", "--from-literal=p=q", "-n", "room")
    kubectl.run("create", "serviceaccount", "bot", "-n", "room")
    kubectl.run("create", "role", "r", "--verb=get", "--resource=configmaps", "-n", "room")
    kubectl.run("create", "rolebinding", "rb", "--role=r", "--serviceaccount=room:bot", "-n", "room")
    kubectl.run("create", "deployment", "d", "--image=registry.example/app", "-n", "room")
    kubectl.run("create", "job", "j", "--image=registry.example/app", "-n", "room", "--", "echo", "hello")
    assert kubectl.json("get", "secret", "s", "-n", "room")["data"] == {"p": "cQ=="}
    rules = kubectl.json("get", "role", "r", "-n", "room")["rules"]
    assert rules == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    containers = kubectl.json("get", "job", "j", "-n", "room")["spec"]["template"]["spec"]["containers"]
    assert containers[0]["command"] == ["echo", "hello"]
    assert "0/1" in kubectl.run("get", "deployments", "-n", "room")
    kubectl.run("delete", "namespace", "room", "--timeout=300s")
    assert "room" not in kubectl.run("get", "namespaces")


def test_a_deployment_applied_twice_is_unchanged(kubectl: Kubectl) -> None:
    body = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: registry.example/app}]}
"""
    kubectl.run("apply", "-f", "-", given=body)
    assert kubectl.run("apply", "-f", "-", given=body).strip() == "deployment.apps/web unchanged"
    kubectl.run("scale", "deployment/web", "--replicas=3")
    kubectl.run("set", "image", "deployment/web", "c=registry.example/app:2")
    assert kubectl.json("get", "deployment", "web")["spec"]["replicas"] == 3
    kubectl.run("delete", "deployment", "web", "--cascade=foreground", "--timeout=300s")


@pytest.mark.parametrize(("cascade", "left"), [("background", []), ("foreground", []), ("orphan", ["child"])])
def test_delete_takes_dependents_or_leaves_them(kubectl: Kubectl, cascade: str, left: list[str]) -> None:
    kubectl.run("create", "-f", "-", given=GIZMO_YAML.replace("gear", "owner"))
    owner = kubectl.json("get", "gizmo", "owner")
    child = yaml.safe_load(GIZMO_YAML.replace("gear", "child"))
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    child["metadata"]["ownerReferences"] = [{**reference, "name": "owner", "uid": owner["metadata"]["uid"]}]
    kubectl.run("create", "-f", "-", given=json.dumps(child))
    kubectl.run("delete", "gizmo", "owner", f"--cascade={cascade}", "--timeout=300s")
    if not left:
        kubectl.run("wait", "--for=delete", "gizmo/child", "--timeout=300s")
    found = [item["metadata"]["name"] for item in kubectl.json("get", "gizmos", "-l", "app=child")["items"]]
    assert found == left
    kubectl.run("delete", "gizmo", "child", "--ignore-not-found")


def test_explain_prints_the_schema(kubectl: Kubectl) -> None:
    told = kubectl.run("explain", "gizmo.spec")
    assert re.search(r"size\s+<integer>", told)
    assert "generateName" in kubectl.run("explain", "gizmo.metadata")


def test_mistakes_in_a_file_are_told(kubectl: Kubectl) -> None:
    unknown = kubectl.run("apply", "-f", "-", given=GIZMO_YAML.replace("size: 1", "nope: 1"), status=1)
    assert 'strict decoding error: unknown field "spec.nope"' in unknown
    wrong = kubectl.run("create", "-f", "-", given=GIZMO_YAML.replace("size: 1", "size: many"), status=1)
    assert "spec.size" in wrong


def test_auth_and_version(kubectl: Kubectl) -> None:
    assert kubectl.run("auth", "can-i", "create", "gizmos").strip() == "yes"
    assert "kubernetes-admin" in kubectl.run("auth", "whoami")
    assert "Server Version: v1.36" in kubectl.run("version")
    assert kubectl.run("get", "--raw", "/readyz") == "ok"
