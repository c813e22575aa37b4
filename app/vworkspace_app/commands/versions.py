"""`versions list` and `versions migrate`: show in which versions objects are stored, and move them to the right one."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import anyio
from cyclopts import App, Parameter

from purekube.ports import KubeApi
from purekube.versions import VersionsInUse
from purekube_run.process.errors import CommandError
from purekube_run.versions.migration import definitions_in_use, migrate
from vworkspace_app.commands.parameters import Kubeconfig
from vworkspace_app.commands.session import at_cluster

_HEAD = ("DEFINITION", "SERVED", "STORAGE", "STORED", "TO DO")


def _document(versions_in_use: VersionsInUse) -> dict[str, Any]:
    return {
        "definition": versions_in_use.definition,
        "kind": versions_in_use.kind.kind,
        "served": list(versions_in_use.served),
        "storage": versions_in_use.storage,
        "stored": list(versions_in_use.stored),
        "toDo": versions_in_use.advice,
    }


def _row(versions_in_use: VersionsInUse) -> tuple[str, ...]:
    return (
        versions_in_use.definition,
        ",".join(versions_in_use.served),
        versions_in_use.storage,
        ",".join(versions_in_use.stored),
        versions_in_use.advice,
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


async def _migrated(names: Sequence[str], dry_run: bool, api: KubeApi) -> list[str]:
    return await migrate(api, list(names), partial(print, flush=True), anyio.sleep, dry_run=dry_run)


versions = App(name="versions", help="In which versions objects are stored, and moving them to the storage version.")


def list_versions(
    *,
    every: Annotated[bool, Parameter(name="--all", help="Definitions with one version too.", negative="")] = False,
    output: Annotated[
        Literal["table", "json"], Parameter(name=("--output", "-o"), help="Form of the answer.")
    ] = "table",
    kubeconfig: Kubeconfig = None,
) -> None:
    """List the definitions of the cluster with their versions: served, storage, stored, and what to do.

    Examples:

        vworkspace-operator versions list
        vworkspace-operator versions list --all -o json
    """
    definitions = at_cluster(kubeconfig, definitions_in_use)
    shown = [each for each in definitions if every or len(each.served) > 1 or each.stale]
    if output == "json":
        print(json.dumps([_document(each) for each in shown], indent=2))
        return
    print("\n".join(_table([_HEAD, *map(_row, shown)])))
    if not every and (hidden := len(definitions) - len(shown)):
        print(f"{hidden} more with one version (--all shows them)")


def migrate_versions(
    *names: Annotated[
        str, Parameter(name="CRD", help="Names of definitions, as webapps.example.com; without any, all that need it.")
    ],
    dry_run: Annotated[bool, Parameter(help="Only tell what would be done.", negative="")] = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Move stored objects to the storage version of their kind, and trim status.storedVersions when all are moved.

    Each object is written without a change. It may be stopped at any time and begun again: the status is trimmed last.
    What is refused is named, and the exit status is 1 then. Examples:

        vworkspace-operator versions migrate --dry-run
        vworkspace-operator versions migrate webapps.example.com
    """
    failures = at_cluster(kubeconfig, partial(_migrated, names, dry_run))
    if failures:
        raise CommandError("; ".join(failures))
