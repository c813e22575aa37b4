"""The commands that show what the operator does, without a cluster: `demo`, `plan`."""

from typing import Annotated

from cyclopts import Parameter

from vworkspace_app.documents import Format

__all__ = ["demo", "plan"]

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
) -> int:
    """Watch an intent travel from the control plane through the operator to Flux and back, over real HTTP.

    Exit status 0 says that everything shown was also checked. Examples:

        vworkspace-operator demo
        vworkspace-operator demo -v
        vworkspace-operator demo --operations
        vworkspace-operator demo --keep
    """
    from vworkspace_app.commands.demo import run_demo

    return run_demo(keep=keep, plain=plain, payloads=payloads, operations=operations)


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
    output: Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")] = Format.YAML,
) -> None:
    """Print what the operator would do for one object, given what is observed; nothing is contacted.

    The files hold one ApplicationInstance, or one Operation with its target, and any number of observed objects
    (other Operations, downstream objects, Namespaces), in any order. Examples:

        vworkspace-operator plan instance.yaml
        vworkspace-operator plan instance.yaml observed.yaml -o json
        vworkspace-operator plan backup.yaml instance.yaml observed.yaml
        vworkspace-operator plan everything.yaml --for Operation/nightly-backup
        vworkspace-operator plan - < everything.yaml
    """
    from vworkspace_app.commands.plan import PlanRequest
    from vworkspace_app.commands.plan import plan as decide

    request = PlanRequest(files, wanted, cluster_id, now, missing or (), templates or (), output)
    print(decide(request), end="")
