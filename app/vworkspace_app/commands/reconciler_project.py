"""The files of the project that `init reconciler` writes, as templates."""

from typing import Final

_PROJECT: Final = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$project"
version = "0.1.0"
description = "A controller of $kind objects"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["vworkspace-operator[operator]>=$version"]

[project.entry-points."vworkspace.controllers"]
$project = "$module.reconciler:$module"

[dependency-groups]
tests = ["vworkspace-operator[kit]>=$version"]

[tool.hatch.build.targets.wheel]
packages = ["$module"]

[tool.pytest]
pythonpath = ["."]

[tool.mypy]
strict = true

[tool.ruff]
line-length = 120
"""

_PACKAGE: Final = '"""A controller of $kind objects."""\n'

_API: Final = '''\
"""The kind $kind: its spec, which users write, and its status. The CRD is derived from both."""

from typing import TypeAlias

import attrs
from purekube.reconcilers import Column, Object, resource, schema_field


@attrs.frozen
class ${kind}Spec:
    """The desired state of a $kind."""

    image: str = schema_field("Image of the workload.", schema={"minLength": 1})
    replicas: int = schema_field("Number of pods.", default=1, schema={"minimum": 0})


@attrs.frozen
class ${kind}Status:
    """The observed state of a $kind. The framework adds conditions and the observed generation."""

    ready_replicas: int = schema_field("Pods that are ready.", default=0)


$kind: TypeAlias = Object[${kind}Spec, ${kind}Status]
$constant = resource(
    "$group",
    "v1",
    "$kind",
    ${kind}Spec,
    ${kind}Status,
    columns=[Column("Image", ".spec.image")],
)
'''

_RECONCILER: Final = '''\
"""The objects that should exist for a $kind. The framework applies them, waits, prunes and tears down."""

from typing import Any

from purekube.reconcilers import Children, Desired, Node, Until, pure_reconciler

from $module.api import $constant, $kind, ${kind}Status


@pure_reconciler($constant, owns=["apps/v1/Deployment", "v1/Service"])
def $module(self: $kind, children: Children) -> Desired[${kind}Status]:
    """Return a Deployment and its Service, and the status."""
    web = Node("web", deployment(self))
    front = Node("front", service(self), depends_on=[web], until=Until.APPLIED)
    ready = children.dig(web, "status", "readyReplicas") or 0
    return Desired([web, front], ${kind}Status(ready_replicas=ready))


def deployment(self: $kind) -> dict[str, Any]:
    """Return the Deployment."""
    labels = {"app": self.metadata.name}
    container = {"name": "main", "image": self.spec.image, "ports": [{"name": "http", "containerPort": 8080}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": self.metadata.name},
        "spec": {
            "replicas": self.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def service(self: $kind) -> dict[str, Any]:
    """Return the Service, which does not wait until the Deployment is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": self.metadata.name},
        "spec": {
            "selector": {"app": self.metadata.name},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
'''

_TEST: Final = '''\
"""The reconciler on a cluster in memory: time is virtual, workloads are simulated, nothing has to be installed."""

from purekube_kit import FakeCluster

from $module.api import $constant, ${kind}Spec
from $module.reconciler import $module


def test_it_says_what_should_exist() -> None:
    desired = $module($constant.new("mine", ${kind}Spec(image="r/x:1", replicas=3)))

    assert [node.id for node in desired.nodes] == ["web", "front"]
    assert desired.nodes[0].manifest["spec"]["replicas"] == 3


def test_it_becomes_ready_and_is_taken_down() -> None:
    with FakeCluster() as cluster:
        cluster.run($module)
        mine = cluster.create($constant, "mine", image="r/x:1", replicas=2)

        mine = cluster.until(mine, "Ready")
        assert mine.status.ready_replicas == 2

        cluster.delete(mine)
        cluster.until_gone(mine)
        assert not cluster.exists("deployments", "mine")
'''

_CRD_RECONCILER: Final = '''\
"""The objects that should exist for a $kind. The framework applies them, waits, prunes and tears down."""

import json
from typing import Any

from purekube.reconcilers import Children, Desired, Node, pure_reconciler

$imports


@pure_reconciler($constant, owns=["v1/ConfigMap"])
$signature
    """Return a ConfigMap with the spec, until you write here what a $kind needs."""
    return Desired([Node("config", config(self))], ${kind}Status())


def config(self: $kind) -> dict[str, Any]:
    """Return the ConfigMap, with the spec as JSON."""
    spec = json.dumps($constant.spec_json(self.spec), sort_keys=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": self.metadata.name$namespace},
        "data": {"spec.json": spec},
    }
'''

_CRD_TEST: Final = '''\
"""The reconciler on a cluster in memory: time is virtual, workloads are simulated, nothing has to be installed."""

from typing import Any

from purekube_kit import FakeCluster

from $module.api import $constant
from $module.reconciler import $module

$example


def test_it_says_what_should_exist() -> None:
    desired = $module($constant.read(EXAMPLE))

    assert [node.id for node in desired.nodes] == ["config"]


def test_it_becomes_ready_and_is_taken_down() -> None:
    with FakeCluster() as cluster:
        cluster.run($module)
        mine = cluster.until(cluster.create(EXAMPLE), "Ready")
        assert cluster.exists("configmaps", "mine")

        cluster.delete(mine)
        cluster.until_gone(mine)
        assert not cluster.exists("configmaps", "mine")
'''

_README: Final = """\
# $project

A controller of `$kind` objects (`$plural.$group`).

| file | what is in it |
|---|---|
| `$module/api.py` | the kind: two classes, from which its CRD is derived |
| `$module/reconciler.py` | the objects that should exist for each object of the kind |
| `tests/` | tests of both on a cluster in memory |

    pip install --editable . --group tests
    pytest
    vworkspace-operator controllers crds $project | kubectl apply --server-side -f -
    vworkspace-operator controllers run $project --kubeconfig ~/.kube/config

In a cluster it runs from an image with this package in it, next to the operator (`run --controllers $project`) or
alone; `vworkspace-operator controllers manifests $project --image IMAGE` prints what runs it alone, with its roles.
"""

FILES: Final = {
    "pyproject.toml": _PROJECT,
    "README.md": _README,
    "$module/__init__.py": _PACKAGE,
    "$module/api.py": _API,
    "$module/reconciler.py": _RECONCILER,
    "tests/test_$module.py": _TEST,
}
"""The files of a project for a new kind, by their paths."""


CRD_FILES: Final = {
    "$module/api.py": "$api",
    "$module/reconciler.py": _CRD_RECONCILER,
    "tests/test_$module.py": _CRD_TEST,
}
"""The files that replace files of `FILES` in a project for the kind of an existing CRD, by their paths."""
