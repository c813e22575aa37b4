"""The command `version`, for the versions of the programs, and the commands `versions`, for those of CRDs (SEE-5)."""

import json
import platform
import sys
from functools import partial
from typing import Annotated, Any, Literal

import anyio

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.versions import VersionsInUse
from purekube_http import KubeApiClient
from purekube_run.controller.lookups import find
from purekube_run.process.command_line import FAILURE, CommandError
from purekube_run.process.terminal import aligned
from purekube_run.process.yaml_documents import dump
from purekube_run.versions.migration import definitions_in_use, migrate
from vworkspace_app import VERSION
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Kubeconfig, SystemNamespace
from vworkspace_app.commands.shared.session import at_cluster, form_of
from vworkspace_app.install.deployed import permitted_deployment
from vworkspace_core.api.kinds import OWN_KINDS


async def versions_in_cluster(system_namespace: str, api: KubeApiClient) -> dict[str, Any]:
    """Return the versions of the API server, the operator's CRDs and the operator in `system_namespace`."""
    server = await api.server_version()
    refs = [ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, kind.crd_name) for kind in OWN_KINDS]
    definitions = {ref.name: served(await find(api, ref)) for ref in refs}
    deployment, _ = await permitted_deployment(api, system_namespace)
    return {"server": {"version": server}, "definitions": definitions, "operator": operator_in(deployment)}


def served(definition: Manifest | None) -> list[str]:
    """Return the names of the versions that a CRD serves, or [] for None (the CRD is not installed)."""
    versions = get_path(definition, "spec", "versions") or ()
    return [str(get_path(each, "name")) for each in versions if get_path(each, "served") is True]


def operator_in(deployment: Manifest | None) -> dict[str, Any]:
    """Return the `version` and `image` of the operator from its Deployment, or {} for None (there is no Deployment)."""
    if deployment is None:
        return {}
    label = get_path(deployment, "metadata", "labels", "app.kubernetes.io/version")
    containers = get_path(deployment, "spec", "template", "spec", "containers") or ()
    return {"version": label, "image": next((get_path(each, "image") for each in containers), None)}


def text(told: dict[str, Any]) -> str:
    """Return the result of the command `version` as text, one version per line."""
    lines = [f"command:     {told['client']['version']} (Python {told['client']['python']})"]
    if "server" in told:
        lines.append(f"API server:  {told['server']['version']}")
        lines += [f"CRD:         {name} {', '.join(at) or 'not installed'}" for name, at in told["definitions"].items()]
        operator = told["operator"]
        lines.append(
            f"operator:    {operator['version']} ({operator['image']})" if operator else "operator:    not seen"
        )
    return "".join(f"{line}\n" for line in lines)


def version(
    *,
    client: Annotated[bool, Parameter(help="Only this command's own; no cluster is asked.", negative="")] = False,
    output: Annotated[
        Literal["text", "yaml", "json"], Parameter(name=("--output", "-o"), help="text, yaml or json.")
    ] = "text",
    system_namespace: SystemNamespace = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Print the versions of this command, and of the API server, the operator's CRDs and the operator in the cluster.

    Exit status 1 says that the API server could not be asked. Examples:

        vworkspace-operator version
        vworkspace-operator version --client -o json
    """
    form = form_of(output)
    told: dict[str, Any] = {"client": {"version": VERSION, "python": platform.python_version()}}
    problem = ""
    if not client:
        try:
            told |= at_cluster(kubeconfig, partial(versions_in_cluster, system_namespace))
        except CommandError as error:
            problem = error.message
    print(dump([told], form) if form is not None else text(told), end="")
    if problem:
        print(f"error: {problem}", file=sys.stderr)
    return FAILURE if problem else 0


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


def list_versions(
    *,
    every: Annotated[bool, Parameter(name="--all", help="Definitions with one version too.", negative="")] = False,
    output: Annotated[
        Literal["table", "json"], Parameter(name=("--output", "-o"), help="Form of the answer.")
    ] = "table",
    kubeconfig: Kubeconfig = None,
) -> None:
    """List the definitions of the cluster with their versions: served, storage, stored, and what to do.

    A definition is a CRD. Its objects are stored in the storage version, and some may still be stored in the other
    versions of the column STORED. Without `--all`, definitions with a single version are left out. Examples:

        vworkspace-operator versions list
        vworkspace-operator versions list --all -o json
    """
    definitions = at_cluster(kubeconfig, definitions_in_use)
    shown = [each for each in definitions if every or len(each.served) > 1 or each.stale]
    if output == "json":
        print(json.dumps([_document(each) for each in shown], indent=2))
        return
    print("\n".join(aligned([_HEAD, *map(_row, shown)])))
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

    Each object is written without a change. The command may be interrupted at any time and repeated, since the status
    is trimmed last. Each object that the API server refuses is named, and the exit status is then 1. Examples:

        vworkspace-operator versions migrate --dry-run
        vworkspace-operator versions migrate webapps.example.com
    """
    tell = partial(print, flush=True)
    failures = at_cluster(kubeconfig, lambda api: migrate(api, list(names), tell, anyio.sleep, dry_run=dry_run))
    if failures:
        raise CommandError("; ".join(failures))
