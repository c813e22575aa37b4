"""The real controllers of Kubernetes and Flux run on the embedded API server as on a kube-apiserver (RUN-8, RUN-9).

They send protobuf, stream their first lists, bind pods, and rely on what their caches show of their own writes.
"""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.support.patience import until
from tools.cluster.charts import Repository
from tools.cluster.up import Cluster, running

pytestmark = pytest.mark.lone


def kubectl(cluster: Cluster) -> Callable[..., str]:
    """A function that runs kubectl on a cluster, and returns what it prints."""

    def run(*words: str, given: Any = None) -> str:
        text = None if given is None else yaml.safe_dump_all(given)
        command = ["kubectl", f"--kubeconfig={cluster.kubeconfig}", *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def pods(run: Callable[..., str]) -> list[Any]:
    """The pods of the application."""
    items: list[Any] = json.loads(run("get", "pods", "--namespace=team", "--output=json"))["items"]
    return items


def release(url: str) -> list[dict[str, Any]]:
    """An application of Flux: the chart `web`, with a Deployment, a Service and a ConfigMap."""
    meta = {"name": "app", "namespace": "team"}
    source = {"interval": "1m", "url": url, "insecure": True, "ref": {"tag": "1.0.0"}}
    spec = {"interval": "1m", "chartRef": {"kind": "OCIRepository", "name": "app"}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository", "metadata": meta, "spec": source},
        {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": meta, "spec": spec},
    ]


def test_a_release_becomes_pods_that_are_scheduled_and_goes_with_them(cluster: Cluster) -> None:
    with running(["flux"], print, embedded=True) as embedded:
        assert embedded.registries is not None
        repository, run = Repository(embedded.registries.plain, "embedded"), kubectl(embedded)
        repository.push("web", "1.0.0")
        run("apply", "-f", "-", given=release(f"{repository.oci}/web"))

        run("wait", "helmrelease/app", "--namespace=team", "--for=condition=Ready", "--timeout=240s")
        (pod,) = pods(run)
        assert pod["spec"]["nodeName"] in ("node-0", "node-1")
        assert pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
        assert {each["type"]: each["status"] for each in pod["status"]["conditions"]}["Ready"] == "True"

        run("scale", "deployment/app", "--namespace=team", "--replicas=3")
        run("rollout", "status", "deployment/app", "--namespace=team", "--timeout=240s")
        assert len(pods(run)) == 3
        run("drain", "node-0", "--force", "--timeout=240s")
        run("rollout", "status", "deployment/app", "--namespace=team", "--timeout=240s")

        run("delete", "helmrelease/app", "--namespace=team", "--timeout=240s")
        until(lambda: not pods(run), "the pods are gone")
