"""The commands about versions of kinds: `versions list`, `versions migrate`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

versions = App(name="versions", help="In which versions objects are stored, and moving them to the storage version.")

Kubeconfig = Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")]


@versions.command(name="list")
def show(
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
    from vworkspace_app.commands.versions import show_versions

    show_versions(kubeconfig, output, every=every)


@versions.command(name="migrate")
def move(
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
    from vworkspace_app.commands.versions import run_migration

    run_migration(names, kubeconfig, dry_run=dry_run)
