"""`versions list` and `versions migrate`: show in which versions objects are stored, and move them to the right one."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from purekube.ports import KubeApi
from purekube.versions import VersionsInUse
from purekube_run.process.errors import CommandError
from purekube_run.versions.migration import definitions_in_use, migrate
from vworkspace_app.commands.session import at_cluster

_HEAD = ("DEFINITION", "SERVED", "STORAGE", "STORED", "TO DO")


def show_versions(kubeconfig: Path | None, output: str, *, every: bool) -> None:
    """Print the definitions with several versions, or all. Raises CommandError."""
    found = at_cluster(kubeconfig, definitions_in_use)
    shown = [one for one in found if every or len(one.served) > 1 or one.stale]
    if output == "json":
        print(json.dumps([_document(one) for one in shown], indent=2))
        return
    print("\n".join(_table([_HEAD, *map(_row, shown)])))
    if not every and (hidden := len(found) - len(shown)):
        print(f"{hidden} more with one version (--all shows them)")


def _document(one: VersionsInUse) -> dict[str, Any]:
    return {
        "definition": one.definition,
        "kind": one.kind.kind,
        "served": list(one.served),
        "storage": one.storage,
        "stored": list(one.stored),
        "toDo": one.advice,
    }


def _row(one: VersionsInUse) -> tuple[str, ...]:
    return (one.definition, ",".join(one.served), one.storage, ",".join(one.stored), one.advice)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def run_migration(names: Sequence[str], kubeconfig: Path | None, *, dry_run: bool) -> None:
    """Move objects to the storage versions. Raises CommandError with everything that could not be done."""
    failures = at_cluster(kubeconfig, partial(_migrated, names, dry_run))
    if failures:
        raise CommandError("; ".join(failures))


async def _migrated(names: Sequence[str], dry_run: bool, api: KubeApi) -> list[str]:
    return await migrate(api, list(names), partial(print, flush=True), anyio.sleep, dry_run=dry_run)
