"""The commands about boxes: operators in a file."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from purekube_run.process.yaml_documents import Format
from vworkspace_app import VERSION

box = App(name="box", help="Operators from a file: check them, show them, begin one, convert those of others.")

Files = Annotated[list[str], Parameter(help="Files with one box each, next to their CRDs.")]
Crds = Annotated[
    list[Path] | None,
    Parameter(
        help="Folder or file with CRDs of the kinds that the box makes or reads; repeatable.",
        negative="",
        consume_multiple=False,
    ),
]


@box.command
def check(
    files: Files,
    /,
    *,
    crds: Crds = None,
    kubeconfig: Annotated[
        Path | None, Parameter(help="Kubeconfig of a cluster whose CRDs are read where no file brings them.")
    ] = None,
    output: Annotated[Literal["text", "json"], Parameter(name=("--output", "-o"), help="Form of the answer.")] = "text",
) -> int:
    """Say everything that is wrong with boxes, with file, line and column; needs no cluster.

    Expressions are typed by the schemas of the CRDs and of built-in kinds. Exit status 1 says that a box cannot be run.
    Examples:

        vworkspace-operator box check webapp.yaml
        vworkspace-operator box check boxes/*.yaml --crds crds/ -o json
        vworkspace-operator box check webapp.yaml --kubeconfig kc
    """
    from vworkspace_app.commands.box_check import check_boxes

    return check_boxes(files, crds or [], output, kubeconfig)


@box.command
def graph(
    file: Annotated[str, Parameter(help="File with the box.")],
    /,
    *,
    crds: Crds = None,
    output: Annotated[
        Literal["mermaid", "dot"], Parameter(name=("--output", "-o"), help="Language of the graph.")
    ] = "mermaid",
) -> None:
    """Print what waits for what, each edge with the line that made it.

    Example:

        vworkspace-operator box graph webapp.yaml -o dot | dot -Tsvg > webapp.svg
    """
    from vworkspace_app.commands.box_pages import graph_of_file

    print(graph_of_file(file, crds or [], output), end="")


@box.command
def docs(file: Annotated[str, Parameter(help="File with the box.")], /, *, crds: Crds = None) -> None:
    """Print a page about a box for its users: fields, what is made of them and in which order, conditions.

    Example:

        vworkspace-operator box docs webapp.yaml > webapp.md
    """
    from vworkspace_app.commands.box_pages import page_of_file

    print(page_of_file(file, crds or []), end="")


@box.command
def plan(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box.")],
    /,
    *,
    parent: Annotated[
        str, Parameter(name="--cr", help="File with the object that the box is for; `-` is standard input.")
    ],
    observed: Annotated[
        list[Path] | None,
        Parameter(
            name=("--observed", "--children", "--externals"),
            help="File or folder with objects that are there: children, externals, what others made; repeatable.",
            negative="",
            consume_multiple=False,
        ),
    ] = None,
    crds: Crds = None,
    now: Annotated[str, Parameter(help="The time to decide at (RFC 3339); default: the present.")] = "",
    output: Annotated[
        Literal["text", "diff", "yaml", "json"],
        Parameter(name=("--output", "-o"), help="How the plan is shown; diff: what would change of each object."),
    ] = "text",
    exit_code: Annotated[
        bool, Parameter(help="Exit status 1 where anything except the status would be written.", negative="")
    ] = False,
) -> int:
    """Show what a box would do now for one object; no cluster is contacted.

    The pass is carried out on the embedded API server, which holds what was observed: defaults, conflicts with other
    field managers (where the objects show their managedFields) and fields that cannot be changed are the server's own
    answers. Contents of Secrets are not shown. Examples:

        vworkspace-operator box plan webapp.yaml --cr shop.yaml
        vworkspace-operator box plan webapp.yaml --cr shop.yaml --observed live/ -o diff
    """
    from vworkspace_app.commands.box_plan import BoxPlanRequest, planned

    found, text = planned(BoxPlanRequest(file, parent, observed or [], crds or [], now, output))
    print(text, end="")
    return int(exit_code and found.changes)


@box.command(name="test")
def try_box(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box.")],
    tests: Annotated[
        list[str] | None,
        Parameter(name="TESTS", help="Files with scenarios; without any, FILE's neighbour with -test in its name."),
    ] = None,
    /,
    *,
    crds: Crds = None,
    examples: Annotated[int, Parameter(help="How many objects are drawn for the laws; 0 for none.")] = 50,
    seed: Annotated[int | None, Parameter(help="The seed of the draw; without it a new one is printed.")] = None,
    example: Annotated[int | None, Parameter(help="Only the example of this number.")] = None,
    trace: Annotated[
        Path | None,
        Parameter(help="Write what happened in the scenarios to this file, for `vworkspace-operator trace`."),
    ] = None,
) -> int:
    """Play a box's scenarios, and try laws on objects drawn from its CRD, without a cluster and without waiting.

    Workloads are simulated, time is virtual. Scenarios are data: what is given, and steps (until, expect, gone, change,
    create, delete, fault, restart, after). The laws, without and with faults: it comes to rest and then writes nothing,
    conditions do not flap, what is in the way has a name, faults leave no trace, and what is deleted goes with
    everything of its own. Exit status 1 where something does not hold. Examples:

        vworkspace-operator box test webapp.yaml
        vworkspace-operator box test webapp.yaml more-tests.yaml --examples 200 --seed 7
        vworkspace-operator box test webapp.yaml --trace run.trace && vworkspace-operator trace run.trace --open
    """
    from vworkspace_app.commands.box_test import BoxTestRequest
    from vworkspace_app.commands.box_test import try_box as tried

    text, held = tried(BoxTestRequest(file, tests or (), crds or (), examples, seed, example, trace))
    print(text, end="")
    return int(not held)


Tenants = Annotated[
    list[str] | None,
    Parameter(
        name="--namespace",
        help="Only where objects are made in this namespace: a Role there; repeatable. Without it, everywhere.",
        negative="",
        consume_multiple=False,
    ),
]
OwnNamespace = Annotated[str, Parameter(help="The namespace of the process that runs the box.")]
Former = Annotated[
    list[str] | None,
    Parameter(
        help="Instead: a role for pruning this kind, which is not made any more; as Job/jobs.v1.batch, repeatable.",
        negative="",
        consume_multiple=False,
    ),
]


@box.command
def rbac(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box.")],
    /,
    *,
    crds: Crds = None,
    namespace: Tenants = None,
    system_namespace: OwnNamespace = "vworkspace-system",
    service_account: Annotated[
        str, Parameter(help="Who gets the rights: vworkspace-operator, where that runs the box; else one of its own.")
    ] = "",
    leader_elect: Annotated[bool, Parameter(help="Grant the Leases of an election.")] = True,
    former: Former = None,
    for_account: Annotated[
        str, Parameter(help="Instead: the roles of this NAMESPACE/NAME, as which the box acts (serviceAccountName).")
    ] = "",
    output: Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")] = Format.YAML,
) -> None:
    """Print the roles of a box: exactly the verbs that it uses, on the kinds that its file names.

    A box with spec.serviceAccountName needs `impersonate` instead of rights on children; each account that its objects
    name needs those.

    Pruning what an earlier file made, of a kind that this one does not name, needs rights of its own until that is
    gone: an object whose prune waits for them says so in Stalled, with this command. Examples:

        vworkspace-operator box rbac webapp.yaml --namespace team | kubectl apply --server-side -f -
        vworkspace-operator box rbac webapp.yaml --service-account vworkspace-operator --no-leader-elect
        vworkspace-operator box rbac webapp.yaml --namespace team --former Job/jobs.v1.batch
        vworkspace-operator box rbac webapp.yaml --for-account team/apps
    """
    from vworkspace_app.commands.box_manifests import render_rbac
    from vworkspace_app.install.roles import RoleOptions

    options = RoleOptions(system_namespace, service_account, tuple(namespace or ()), leader_elect)
    print(render_rbac(file, crds or (), options, output, former or (), for_account), end="")


@box.command
def forget(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box.")],
    /,
    *,
    crds: Crds = None,
    dry_run: Annotated[bool, Parameter(help="Only tell which objects.", negative="")] = False,
    kubeconfig: Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")] = None,
) -> None:
    """Take the finalizer of a box off its objects, which can be deleted then. For a box that will not run again.

    Stop what runs it first: it puts its finalizer on again. The children stay; those with an owner reference go with
    their object. Example:

        vworkspace-operator box forget webapp.yaml --dry-run
    """
    from vworkspace_app.commands.forget import forget_box

    forget_box(file, crds or (), kubeconfig, dry_run=dry_run)


@box.command
def manifests(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box, next to its CRD.")],
    /,
    *,
    image: Annotated[
        str, Parameter(help="Image of the operator, at best by digest.")
    ] = f"vworkspace-operator:{VERSION}",
    crds_only: Annotated[bool, Parameter(help="Only the CRD, with the box's rules in it.", negative="")] = False,
    crds: Crds = None,
    namespace: Tenants = None,
    system_namespace: OwnNamespace = "vworkspace-system",
    webhook_ca: Annotated[
        Path | None,
        Parameter(
            help="For a box with versions, computed fields or rules that no CRD can hold: PEM file with the authority "
            "of the webhooks' certificate, which is in the Secret vworkspace-box-NAME-webhook-tls."
        ),
    ] = None,
    cert_manager: Annotated[bool, Parameter(help="The same, with a certificate by cert-manager.", negative="")] = False,
    output: Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")] = Format.YAML,
) -> None:
    """Print what runs a box in a cluster: service account, roles, the box as a ConfigMap, two replicas.

    Deleting a CRD deletes every object of its kind; so no other command prints it. Examples:

        vworkspace-operator box manifests webapp.yaml --crds-only | kubectl apply --server-side -f -
        vworkspace-operator box manifests webapp.yaml --image registry.example.com/operator:1 | kubectl apply -f -
    """
    from vworkspace_app.commands.box_manifests import render_box_manifests
    from vworkspace_app.commands.manifests import read_authority
    from vworkspace_app.install.box_webhooks import WebhookTrust
    from vworkspace_app.install.roles import RoleOptions

    options = RoleOptions(system_namespace, tenants=tuple(namespace or ()))
    authority = b"" if webhook_ca is None else read_authority(webhook_ca)
    trust = WebhookTrust(system_namespace, authority, cert_manager)
    print(render_box_manifests(file, crds or (), image, options, trust, output, crds_only=crds_only), end="")


RUN = """Run the operators of boxes, and nothing else. Inside a cluster the service account is taken.

Beside the operator's own kinds they are run by `run --box FILE`. Each flag can be given as a variable
(`--log-level`: `VWORKSPACE_LOG_LEVEL`) too. Example:

    vworkspace-operator box run webapp.yaml --kubeconfig kc
"""

box.command("vworkspace_app.cli.box_run:run", name="run", help=RUN)


@box.command
def init(
    kind: Annotated[str, Parameter(help="The kind that is to be made, as `WebApp`.")],
    /,
    *,
    group: Annotated[str, Parameter(help="Group of the kind.")] = "example.com",
    plural: Annotated[str, Parameter(help="Its plural; without it the kind in small letters and an s.")] = "",
    directory: Annotated[Path, Parameter(help="Folder for the two files.")] = Path(),
) -> None:
    """Write a box and its CRD to begin with; files that exist are left alone.

    Example:

        vworkspace-operator box init WebApp && vworkspace-operator box check webapp.yaml
    """
    from vworkspace_app.commands.box_init import write_beginning

    write_beginning(kind, group, plural, directory)


@box.command
def convert(
    file: Annotated[str, Parameter(name="FILE", help="A YAML file; `-` is standard input.")],
    /,
    *,
    crds: Crds = None,
    trust_parents: Annotated[
        bool,
        Parameter(help="Let the authors of the objects decide what the original lets them decide.", negative=""),
    ] = False,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write files into this folder instead of printing them.")
    ] = None,
) -> int:
    """Make boxes of a Katalog of Orkestra, or of a ResourceGraphDefinition of kro, and check them.

    What has no counterpart in a box, and what `box check` refuses of the result, is printed on standard error with its
    line, and the exit status is then 1; the boxes are made all the same. A CRD that a Katalog names is read from the
    file next to it; give the CRDs of other kinds with --crds, or their plurals are guessed. With --trust-parents a box
    says `trustParents` for what the original lets an instance decide: namespaces, names, accounts. Examples:

        vworkspace-operator box convert webapp.katalog.yaml
        vworkspace-operator box convert webapp.rgd.yaml -o boxes --crds crds/
    """
    from vworkspace_app.commands.box_convert import convert_file, write_files

    found = convert_file(file, crds or (), trusting=trust_parents)
    if output is None:
        print("---\n".join(made.text for made in found.files), end="")
    else:
        for path in write_files(found.files, output):
            print(path)
    for problem in (*found.problems, *found.refused):
        print(problem, file=sys.stderr)
    print(found.told, file=sys.stderr)
    return int(bool(found.problems or found.refused))
