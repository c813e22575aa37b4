"""Boxes whose kinds have the same plural in different groups: the objects of both are found by name (SEE-1)."""

import json
from pathlib import Path

import pytest

from kubelab.http.serving import kubeconfig
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.definitions import BOX_NAME
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from tests.support.furnished import furnish
from tests.support.server_thread import served, wall_clock
from vworkspace_app.__main__ import run_command
from vworkspace_core.api.crd import crd_manifests

GROUPS = ("a.example", "b.example")


def definition(group: str) -> dict[str, object]:
    names = {"kind": "Shop", "plural": "shops", "singular": "shop", "listKind": "ShopList"}
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": anything}
    meta = {"name": f"shops.{group}", "labels": {BOX_NAME: "shop"}}
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [version]}
    return {**CUSTOM_RESOURCE_DEFINITION.manifest(f"shops.{group}"), "metadata": meta, "spec": spec}


@pytest.mark.parametrize("group", GROUPS)
def test_an_object_is_found_whichever_box_has_its_kind(
    group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status corner` said that there is no such object, of one of the two kinds."""
    api = InProcessKube(ApiServer(now=wall_clock))
    furnish(api, (*crd_manifests(), *map(definition, GROUPS)), "team")
    kind = Kind(group, "v1", "Shop", "shops")
    run_sync(api.create(kind.manifest("corner", "team"), kind=kind, field_manager="test"))
    with served(api.server) as url:
        (tmp_path / "config").write_text(json.dumps(kubeconfig(url)), encoding="utf-8")
        status = run_command(["status", "corner", "-o", "json", "--kubeconfig", str(tmp_path / "config")])
    told = capsys.readouterr()
    assert status == 0, told.err
    assert json.loads(told.out)["apiVersion"] == kind.api_version
