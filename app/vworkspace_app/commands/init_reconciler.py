"""`init reconciler`: write a small project with a kind, its reconciler and a test that passes unchanged."""

from pathlib import Path
from string import Template
from typing import Annotated, Final

from purekube.reconcilers.resource import plural_of
from vworkspace_app import VERSION
from vworkspace_app.arguments.signature import Parameter
from vworkspace_app.commands.box.init import GROUP, KIND, PROJECT, check_name, module_of, write_new

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
"""The kind $kind: what people write, and what they are told. Its CRD is made of these two classes."""

from typing import TypeAlias

import attrs
from purekube.reconcilers import Column, Object, resource, schema_field


@attrs.frozen
class ${kind}Spec:
    """What a $kind is to be."""

    image: str = schema_field("Image of the workload.", schema={"minLength": 1})
    replicas: int = schema_field("How many pods there are to be.", default=1, schema={"minimum": 0})


@attrs.frozen
class ${kind}Status:
    """How a $kind stands. Ready, Reconciling, Stalled and the observed generation are added to it."""

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
"""What should exist for a $kind. The function decides; to apply, to wait, to prune and to take down is done for it."""

from typing import Any

from purekube.reconcilers import Children, Desired, Node, Until, pure_reconciler

from $module.api import $constant, $kind, ${kind}Status


@pure_reconciler($constant, owns=["apps/v1/Deployment", "v1/Service"])
def $module(self: $kind, children: Children) -> Desired[${kind}Status]:
    """A workload, and a service in front of it."""
    web = Node("web", deployment(self))
    front = Node("front", service(self), depends_on=[web], until=Until.APPLIED)
    ready = children.dig(web, "status", "readyReplicas") or 0
    return Desired([web, front], ${kind}Status(ready_replicas=ready))


def deployment(self: $kind) -> dict[str, Any]:
    """The workload."""
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
    """What others call."""
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

_README: Final = """\
# $project

A controller of `$kind` objects (`$plural.$group`).

| file | what is in it |
|---|---|
| `$module/api.py` | the kind: two classes, of which its CRD is made |
| `$module/reconciler.py` | what should exist for each object |
| `tests/` | both on a cluster in memory |

    pip install --editable . --group tests
    pytest
    vworkspace-operator controllers crds $project | kubectl apply --server-side -f -
    vworkspace-operator controllers run $project --kubeconfig ~/.kube/config

In a cluster it runs from an image with this package in it, beside the operator (`run --controllers $project`) or alone;
`vworkspace-operator controllers manifests $project --image IMAGE` prints what runs it alone, with its roles.
"""

_FILES: Final = {
    "pyproject.toml": _PROJECT,
    "README.md": _README,
    "$module/__init__.py": _PACKAGE,
    "$module/api.py": _API,
    "$module/reconciler.py": _RECONCILER,
    "tests/test_$module.py": _TEST,
}


def write_project(project: str, group: str, kind: str, directory: Path) -> None:
    """Write the project into a folder and print the paths of its files.

    Raises CommandError for invalid names, and for files that exist.
    """
    for given, form in ((project, PROJECT), (group, GROUP), (kind, KIND)):
        check_name(given, form)
    words = {
        "project": project,
        "module": module_of(project),
        "group": group,
        "kind": kind,
        "constant": kind.upper(),
        "plural": plural_of(kind),
        "version": VERSION,
    }
    write_new({directory / _filled(path, words): _filled(text, words) for path, text in _FILES.items()})


def _filled(text: str, words: dict[str, str]) -> str:
    return Template(text).substitute(words)


def reconciler(
    name: Annotated[str, Parameter(help="Name of the project and of the controller, as `shops`.")],
    /,
    *,
    kind: Annotated[str, Parameter(help="The kind that is to be made, as `Shop`.")],
    group: Annotated[str, Parameter(help="Group of the kind.")] = "example.com",
    directory: Annotated[Path | None, Parameter(help="Folder for the project; without it one of its name.")] = None,
) -> None:
    """Write a project with a kind, its reconciler in Python and a test, which passes as it is.

    Example:

        vworkspace-operator init reconciler shops --group example.com --kind Shop
    """
    write_project(name, group, kind, Path(name) if directory is None else directory)
