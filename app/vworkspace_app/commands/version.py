"""`version`: print the versions running here, and those served and installed in a cluster (SEE-5)."""

import platform
import sys
from functools import partial
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT
from purekube_http import KubeApiClient
from purekube_run.controller.lookups import find
from purekube_run.process.errors import FAILURE, CommandError
from purekube_run.process.yaml_documents import dump
from vworkspace_app import VERSION
from vworkspace_app.commands.parameters import Kubeconfig, form_of
from vworkspace_app.commands.session import at_cluster
from vworkspace_app.install.names import NAME
from vworkspace_app.overview.reading import PermittedReader
from vworkspace_core.api.kinds import OWN_KINDS


async def _of_cluster(system_namespace: str, api: KubeApiClient) -> dict[str, Any]:
    server = await api.server_version()
    refs = [ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, kind.crd_name) for kind in OWN_KINDS]
    definitions = {ref.name: served(await find(api, ref)) for ref in refs}
    deployment = await PermittedReader(api).one(ObjectRef(DEPLOYMENT, system_namespace, NAME))
    return {"server": {"version": server}, "definitions": definitions, "operator": operator_in(deployment)}


def served(definition: Manifest | None) -> list[str]:
    """Return the versions that a CRD serves; none if it is not installed."""
    versions = get_path(definition, "spec", "versions") or ()
    return [str(get_path(each, "name")) for each in versions if get_path(each, "served") is True]


def operator_in(deployment: Manifest | None) -> dict[str, Any]:
    """Return the installed operator, as its Deployment names it; empty if there is none, or it cannot be read."""
    if deployment is None:
        return {}
    label = get_path(deployment, "metadata", "labels", "app.kubernetes.io/version")
    containers = get_path(deployment, "spec", "template", "spec", "containers") or ()
    return {"version": label, "image": next((get_path(each, "image") for each in containers), None)}


def text(told: dict[str, Any]) -> str:
    """Return the versions as text, one per line."""
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
    system_namespace: Annotated[str, Parameter(help="The operator's own namespace.")] = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Tell the versions of this command, the API server, the definitions that it serves, and the operator there.

    Exit status 1 where no API server could be asked. Examples:

        vworkspace-operator version
        vworkspace-operator version --client -o json
    """
    form = form_of(output)
    told: dict[str, Any] = {"client": {"version": VERSION, "python": platform.python_version()}}
    problem = ""
    if not client:
        try:
            told |= at_cluster(kubeconfig, partial(_of_cluster, system_namespace))
        except CommandError as error:
            problem = error.message
    print(dump([told], form) if form is not None else text(told), end="")
    if problem:
        print(f"error: {problem}", file=sys.stderr)
    return FAILURE if problem else 0
