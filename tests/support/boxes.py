"""Small boxes for tests: a parent kind Shop, resources of built-in kinds, and what an examination finds."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.problems import Place
from purekube.boxes.box import Box
from purekube.boxes.compiler.compile import BoxExamination, examine
from purekube.boxes.model import OperatorBox
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas

CONDITIONS: Final[Mapping[str, Any]] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status", "reason", "lastTransitionTime"],
        "properties": {
            **{name: {"type": "string"} for name in ("type", "status", "reason", "message")},
            "observedGeneration": {"type": "integer"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    },
}
TEXT: Final = {"type": "string"}
SPEC: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["image", "parts"],
    "properties": {
        "image": TEXT,
        "replicas": {"type": "integer", "default": 2},
        "host": TEXT,
        "ratio": {"type": "number"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": TEXT, "replicas": {"type": "integer"}},
            },
        },
    },
}
STATUS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "observedGeneration": {"type": "integer"},
        "ready": {"type": "integer"},
        "address": TEXT,
        "conditions": CONDITIONS,
    },
}


def crd(spec: Mapping[str, Any] = SPEC, status: Mapping[str, Any] = STATUS, **extra: Any) -> dict[str, Any]:
    """The CRD of Shop."""
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
            "versions": [version],
            **extra,
        },
    }


def config(identifier: str, name: str = "", data: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A resource: a ConfigMap."""
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name or identifier}, "data": data or {}}
    return {"id": identifier, "template": template, **more}


def secret(identifier: str, data: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A resource: a Secret."""
    template = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": identifier}, "stringData": data or {}}
    return {"id": identifier, "template": template, **more}


def deployment(identifier: str, name: str = "", spec: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A resource: a Deployment."""
    template = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name or identifier},
        "spec": {
            "selector": {"matchLabels": {"app": identifier}},
            "template": {
                "metadata": {"labels": {"app": identifier}},
                "spec": {"containers": [{"name": "main", "image": "${self.spec.image}"}]},
            },
            **(spec or {}),
        },
    }
    return {"id": identifier, "template": template, **more}


def document(*resources: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A box as its file says it."""
    return {
        "apiVersion": "box.vworkspace.io/v1alpha1",
        "kind": "OperatorBox",
        "metadata": {"name": "shop"},
        "spec": {"crd": "shop-crd.yaml", "resources": list(resources), **spec},
    }


_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\[(['\"])(.*?)\3\]")


@attrs.frozen
class InDocument:
    """The lookup that fails for a path which leads nowhere in the document, and for a position outside of its text."""

    document: Mapping[str, Any]

    def at(self, path: str, offset: int | None = None) -> Place:
        found: Any = self.document
        steps = [match[1] or match[4] or int(match[2]) for match in _STEP.finditer(path)]
        for number, step in enumerate(steps):
            is_there = step in found if isinstance(found, Mapping) else isinstance(step, int) and step < len(found)
            assert is_there or (number == len(steps) - 1 and isinstance(found, Mapping)), path
            found = found[step] if is_there else ""
        texts = [text for text in (found, *steps[-1:]) if isinstance(text, str)]  # an expression may be a key
        assert offset is None or 0 <= offset <= max(map(len, texts), default=-1), (path, offset, found)
        return Place(path)


def examined(*resources: Mapping[str, Any], kind: Mapping[str, Any] | None = None, **spec: Any) -> BoxExamination:
    """What is found in a box of these resources; each place of it is one of the document."""
    versions, written = CrdVersions.of(crd() if kind is None else kind), document(*resources, **spec)
    return examine(read_box(written), versions, Schemas([versions]), InDocument(written))


def box_of(*resources: Mapping[str, Any], kind: Mapping[str, Any] | None = None, **spec: Any) -> Box:
    """A box that can be run."""
    versions = CrdVersions.of(crd() if kind is None else kind)
    return compile_box(read_box(document(*resources, **spec)), versions, Schemas([versions]))


def compile_box(model: OperatorBox, crd: CrdVersions | None, schemas: Schemas) -> Box:
    """The box, which has no problems."""
    found = examine(model, crd, schemas)
    assert found.box is not None, "; ".join(map(str, found.problems))
    return found.box


def told(found: BoxExamination) -> Sequence[str]:
    """Every problem in one line."""
    return [str(problem) for problem in found.problems]
