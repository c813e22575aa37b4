"""Definitions in any API server: as they are wanted, and served; a real server takes its time over both (RUN-8)."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import anyio

from purekube.apimachinery.errors import AlreadyExists, KindMissing, NotFound
from purekube.apimachinery.manifest import Kind, Manifest, get_path, ref_of
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.ports import KubeApi

PAUSE: Final = 0.05
CONTENT: Final = "e2e.vworkspace.io/content"
"""Annotation: what a definition was made from. A server adds defaults, so the specs themselves do not compare."""


async def have_defined(crds: Iterable[Manifest], api: KubeApi) -> None:
    """Create those that are not there, or on their way out, and wait until all are served."""
    desired = {_name(crd): crd for crd in crds}
    found = await _found(api)
    going = [crd for name, crd in found.items() if name in desired and _is_going(crd)]
    await _until_gone(going, api)
    for name in desired.keys() - (found.keys() - {_name(crd) for crd in going}):
        with suppress(AlreadyExists):
            await _create(desired[name], api)
    for crd in desired.values():
        await until_served(crd, api)


async def define(crds: Iterable[Manifest], known: Iterable[Manifest], api: KubeApi) -> None:
    """Have exactly these definitions, and no other of the `known` ones."""
    desired = {_name(crd): crd for crd in crds}
    found = await _found(api)
    # A changed definition is made anew: nothing tells when a server begins to judge by the new schema.
    old = [found[name] for name in desired.keys() & found.keys() if not _is_from(found[name], desired[name])]
    needless = [found[_name(crd)] for crd in known if _name(crd) in found.keys() - desired.keys()]
    for crd in (*old, *needless):
        with suppress(NotFound):
            await api.delete(ref_of(crd, CUSTOM_RESOURCE_DEFINITION))
    await _until_gone([*old, *needless], api)
    await have_defined(desired.values(), api)


async def until_served(crd: Manifest, api: KubeApi) -> None:
    """Wait until objects of its first version can be listed."""
    while not await _is_served(crd, api):
        await anyio.sleep(PAUSE)


async def _create(crd: Manifest, api: KubeApi) -> None:
    meta = {**crd["metadata"], "annotations": {**crd["metadata"].get("annotations", {}), CONTENT: _content(crd)}}
    await api.create({**crd, "metadata": meta}, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="e2e")


async def _until_gone(crds: Iterable[Manifest], api: KubeApi) -> None:
    """Wait for the end of definitions that go: until then no others take their place."""
    for crd in crds:
        while await _is_there(crd, api) or await _is_served(crd, api):
            await anyio.sleep(PAUSE)


async def _found(api: KubeApi) -> dict[str, Manifest]:
    return {_name(crd): crd for crd in (await api.list(CUSTOM_RESOURCE_DEFINITION)).items}


async def _is_there(crd: Manifest, api: KubeApi) -> bool:
    try:
        await api.get(ref_of(crd, CUSTOM_RESOURCE_DEFINITION))
    except NotFound:
        return False
    return True


async def _is_served(crd: Manifest, api: KubeApi) -> bool:
    spec = crd["spec"]
    version, names = spec["versions"][0]["name"], spec["names"]
    kind = Kind(spec["group"], version, names["kind"], names["plural"], namespaced=spec["scope"] == "Namespaced")
    try:
        await api.list(kind, limit=1)
    except KindMissing:
        return False
    return True


def _is_going(stored: Manifest) -> bool:
    return get_path(stored, "metadata", "deletionTimestamp") is not None


def _is_from(stored: Manifest, crd: Manifest) -> bool:
    """Whether it was made from this one, and stays."""
    return get_path(stored, "metadata", "annotations", CONTENT) == _content(crd) and not _is_going(stored)


def _content(crd: Manifest) -> str:
    return hashlib.sha256(json.dumps(crd["spec"], sort_keys=True).encode()).hexdigest()


def _name(crd: Manifest) -> str:
    return str(crd["metadata"]["name"])
