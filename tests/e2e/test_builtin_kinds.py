"""PH-5: every built-in kind is known by its name, plural and scope, as a kube-apiserver serves it."""

import base64
import json
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.boxes.schemas import Schemas
from purekube.readiness import State, readiness
from purekube.reconcilers.pure import as_kind
from purekube.schema.builtin import UNTYPED, built_in_kinds, built_in_names
from tests.support.lent_server import lent

OWNABLE = {"create", "delete", "list", "patch", "watch"}
"""Verbs of a kind of which a box can make objects."""


def served(config: Mapping[str, Any]) -> Iterator[Kind]:
    """The kinds of a kube-apiserver that a box can make objects of, by its discovery."""
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())

    def get(path: str) -> Any:
        asked = urllib.request.Request(cluster["server"] + path, headers={"Authorization": f"Bearer {user['token']}"})
        with urllib.request.urlopen(asked, context=trust) as answer:
            return json.load(answer)

    groups = [version["groupVersion"] for group in get("/apis")["groups"] for version in group["versions"]]
    for path in ("/api/v1", *(f"/apis/{version}" for version in groups)):
        found = get(path)
        group, _, version = found["groupVersion"].rpartition("/")
        for resource in found["resources"]:
            if "/" not in resource["name"] and set(resource["verbs"]) >= OWNABLE:
                yield Kind(group, version, resource["kind"], resource["name"], resource["namespaced"])


@pytest.mark.slow
def test_every_kind_that_a_kube_apiserver_serves_is_known() -> None:
    with lent() as server:
        kinds = set(served(server.kubeconfig()))
    known = {
        found for api_version, kind in (*built_in_kinds(), *UNTYPED) if (found := built_in_names(api_version, kind))
    }
    assert kinds - known == set()
    assert {kind for kind in known - kinds if kind and (kind.api_version, kind.kind) in UNTYPED} == set()


def test_a_built_in_kind_can_be_made_by_boxes_and_owned_by_reconcilers() -> None:
    assert {*built_in_kinds()} & {*UNTYPED} == set()
    for api_version, kind in (*built_in_kinds(), *UNTYPED):
        known = Schemas().find(api_version, kind)
        assert known is not None, kind
        assert as_kind(f"{api_version}/{kind}") == known.kind == built_in_names(api_version, kind)
        assert (known.schema is None) == ((api_version, kind) in UNTYPED), kind


def test_an_autoscaler_of_the_first_version_is_ready_once_its_controller_has_looked_at_it() -> None:
    scaler = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    assert readiness(scaler).state is State.PROGRESSING
    assert readiness({**scaler, "status": {"currentReplicas": 1, "desiredReplicas": 1}}).state is State.READY
