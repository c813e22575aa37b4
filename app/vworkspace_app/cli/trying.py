"""The commands that show what the operator does: `demo`, `plan`."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from purekube_run.process.errors import USAGE, CommandError
from purekube_run.process.yaml_documents import Format

Templates = Annotated[
    list[str] | None,
    Parameter(
        name="--templates",
        help="YAML file with templates of Operations; repeatable.",
        negative="",
        consume_multiple=False,
    ),
]


def demo(
    *,
    keep: Annotated[
        bool, Parameter(help="Then leave an application running, and print commands to try on it.", negative="")
    ] = False,
    plain: Annotated[bool, Parameter(help="Plain lines, also on a terminal.", negative="")] = False,
    payloads: Annotated[
        bool, Parameter(name=("--payloads", "-v"), negative="--no-payloads", help="Show what was sent and stored.")
    ] = False,
    operations: Annotated[
        bool, Parameter(help="Day-2 operations instead: every engine, and what can go wrong.", negative="")
    ] = False,
    box: Annotated[
        bool, Parameter(help="An operator from a file instead: three phases, gates on children.", negative="")
    ] = False,
    listen: Annotated[
        str, Parameter(help="HOST:PORT of a page that shows what happens; with --keep any free port.")
    ] = "",
    show: Annotated[
        bool, Parameter(name="--open", help="Open the page in a browser, and leave everything running.", negative="")
    ] = False,
    kubeconfig: Annotated[
        Path | None,
        Parameter(help="Tell the main story on this cluster with its own Flux, and take everything away again."),
    ] = None,
    registry: Annotated[
        str,
        Parameter(help="With --kubeconfig: oci://HOST[/PATH], where the demo pushes a chart of its own."),
    ] = "",
    chart: Annotated[str, Parameter(help="With --kubeconfig: oci://HOST/PATH/NAME of a chart that is there.")] = "",
    chart_version: Annotated[str, Parameter(help="The version of --chart.")] = "",
    timeout: Annotated[float, Parameter(help="With --kubeconfig: seconds that each step is waited for.")] = 180.0,
) -> int:
    """Watch an intent travel from the control plane through the operator to Flux and back, over real HTTP.

    Exit status 0 says that everything shown was also checked. With --kubeconfig the demo runs in two namespaces of its
    own with the roles that `manifests` prints; it needs Flux and the rights of an administrator. Examples:

        vworkspace-operator demo
        vworkspace-operator demo -v
        vworkspace-operator demo --operations
        vworkspace-operator demo --box
        vworkspace-operator demo --keep
        vworkspace-operator demo --open
        vworkspace-operator demo --kubeconfig kc --registry oci://registry.example.com/scratch
        vworkspace-operator demo --kubeconfig kc --chart oci://ghcr.io/stefanprodan/charts/podinfo --chart-version 6.7.0
    """
    from vworkspace_app.commands.demo import run_demo
    from vworkspace_app.demo.cluster_world import ClusterOptions

    if kubeconfig is None and (registry or chart or chart_version):
        raise CommandError("--registry and --chart are for a cluster: name it with --kubeconfig", status=USAGE)
    cluster = None if kubeconfig is None else ClusterOptions(kubeconfig, registry, chart, chart_version, timeout)
    told = {"keep": keep, "plain": plain, "payloads": payloads, "operations": operations, "box": box, "show": show}
    return run_demo(**told, listen=listen, cluster=cluster)


def plan(
    *files: Annotated[str, Parameter(name="FILE", help="YAML files; `-` is standard input.")],
    wanted: Annotated[
        str, Parameter(name="--for", help="The object to plan, NAME or Kind/NAME, where the files hold several.")
    ] = "",
    cluster_id: Annotated[str, Parameter(help="This cluster's id; default: the object's label.")] = "",
    now: Annotated[str, Parameter(help="The time to decide at (RFC 3339); default: the present.")] = "",
    missing: Annotated[
        list[str] | None,
        Parameter(help="A kind whose CRD is not installed, such as HelmRelease; repeatable.", negative=""),
    ] = None,
    templates: Templates = None,
    output: Annotated[
        Literal["yaml", "json", "diff"],
        Parameter(name=("--output", "-o"), help="yaml, json, or diff: what would change of the objects downstream."),
    ] = "yaml",
    exit_code: Annotated[
        bool,
        Parameter(
            help="Exit status 0: nothing to do; 1: something; 2: the object is blocked, or there was an error.",
            negative="",
        ),
    ] = False,
) -> int:
    """Print what the operator would do for one object, given what is observed; nothing is contacted.

    A summary and notes go to standard error. The files hold one ApplicationInstance, or one Operation with its target,
    and any number of observed objects
    (other Operations, downstream objects, Namespaces), in any order. Examples:

        vworkspace-operator plan instance.yaml
        vworkspace-operator plan instance.yaml observed.yaml -o json
        vworkspace-operator plan backup.yaml instance.yaml observed.yaml
        vworkspace-operator plan everything.yaml --for Operation/nightly-backup
        vworkspace-operator plan - < everything.yaml
        vworkspace-operator plan instance.yaml observed.yaml -o diff --exit-code
    """
    from vworkspace_app.commands.plan import PlanRequest
    from vworkspace_app.commands.plan import plan as decide

    form = None if output == "diff" else Format(output)
    request = PlanRequest(files, wanted, cluster_id, now, missing or (), templates or (), form)
    try:
        planned = decide(request, colour=sys.stdout.isatty())
    except CommandError as error:
        raise CommandError(error.message, status=USAGE if exit_code else error.status) from error
    print(planned.text, end="")
    print(f"plan: {planned.summary}", file=sys.stderr)
    if not exit_code:
        return 0
    return 2 if planned.obstructed else int(planned.changes)
