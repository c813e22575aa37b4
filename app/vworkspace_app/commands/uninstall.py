"""The command `uninstall`, which removes the operator step by step, and the commands `forget`.

`box forget` and `controllers forget` remove the finalizers of a controller that will not run again from its objects.
"""

import sys
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final, assert_never

import anyio
import attrs

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.errors import OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.boxes.decision.decide import composite_of
from purekube.composites.composite import Composite
from purekube.ports import KubeApi
from purekube.reconcilers.controllers import kind_of, name_of
from purekube_http import KubeApiClient
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.reconcilers.controller_loading import load_controllers
from purekube_run.reconcilers.passes import rules_of
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Crds, DryRun, Kubeconfig, SystemNamespace
from vworkspace_app.commands.shared.session import at_cluster, now
from vworkspace_app.uninstall import Inventory, Stuck, UninstallStep, Waiting, count_and_first, steps_of, take_inventory
from vworkspace_app.verbs import Forgetting, Held
from vworkspace_core.api.installation import Installation, InstallTool
from vworkspace_core.overview.tree import is_held

_AGAIN_SECONDS: Final = 1.0
"""The delay before a step is tried again, after the API server could not be reached."""


def _held_by(composite: Composite) -> Held:
    return Held(composite.kind, (composite.finalizer,), composite.title)


async def _forget(held: Sequence[Held], dry_run: bool, api: KubeApi) -> None:
    forgetting = Forgetting(api, partial(print, flush=True), dry_run)
    for one in held:
        if not await forgetting.run(one):
            print(f"the {one.by} holds no {one.kind.kind}")


def forget_objects_of_box(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box.")],
    /,
    *,
    crds: Crds = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Take the finalizer of a box off its objects, which can be deleted then. For a box that will not run again.

    First stop the process that runs the box, since it would add the finalizer again. Children stay, except those with
    an owner reference: they are deleted with their object. Example:

        vworkspace-operator box forget webapp.yaml --dry-run
    """
    boxes = runnable(load_boxes([file], crds or ()))
    at_cluster(kubeconfig, partial(_forget, [_held_by(composite_of(box)) for box in boxes], dry_run))


Names = Annotated[list[str], Parameter(name="NAME", help="Names of installed controllers, or module:attribute.")]


def forget_objects(
    names: Names,
    /,
    *,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Take the finalizers of controllers off their objects, which can be deleted then. For controllers that are gone.

    First stop the processes that run the controllers, since they would add the finalizers again. The objects that the
    controllers made stay. Example:

        vworkspace-operator controllers forget shops --dry-run
    """
    loaded = load_controllers(names)
    held = [_held_by(composite) for composite in loaded.composites]
    for controller in loaded.made:
        rules = rules_of(controller)
        held.append(Held(kind_of(controller), (rules.begun, rules.kept), f"controller {name_of(controller)}"))
    at_cluster(kubeconfig, partial(_forget, held, dry_run))


@attrs.frozen
class UninstallOptions:
    """The options of the command `uninstall`. `timeout` is the maximum wait for each deletion, in seconds.

    With `keep_applications`, every Helm release keeps running with Flux alone; otherwise all releases are uninstalled.
    With `dry_run`, the steps are printed but not carried out. With `yes`, the user is not asked for confirmation.
    """

    keep_applications: bool
    dry_run: bool
    yes: bool
    system_namespace: str
    timeout: float


async def _run(options: UninstallOptions, api: KubeApiClient) -> None:
    inventory = await take_inventory(api, options.system_namespace)
    if reason := elsewhere(inventory):
        raise CommandError(reason, status=USAGE)
    if inventory.is_empty:
        print("nothing of the operator is installed here")
        _print_remaining_releases(options, inventory)
        print_boxes(inventory, "stays")
        return
    _print_tool(inventory.installation)
    _print_extensions(inventory)
    _refuse_without_operator(options, inventory)
    if not options.dry_run:
        _confirm(options, inventory, api.server)
    await _carry_out(api, options, inventory)
    left = inventory if options.dry_run else await take_inventory(api, options.system_namespace)
    _print_remaining_releases(options, left)
    print_other_objects(inventory, dry_run=options.dry_run, keep_applications=options.keep_applications)
    if text := record_left(inventory, keep_applications=options.keep_applications):
        print(text)


def record_left(inventory: Inventory, *, keep_applications: bool) -> str:
    """Return what to do about Helm's record of the operator's release, which outlives the objects; empty if none does.

    While the record exists, `helm install` refuses the name of the release.
    """
    of_helm = inventory.installation
    namespace = inventory.namespace_to_delete(keep_applications=keep_applications)
    if of_helm.keeper is not InstallTool.HELM or (namespace is not None and namespace.name == of_helm.place):
        return ""
    return (
        f"last: helm uninstall {of_helm.name} --namespace {of_helm.place}, which removes Helm's record of the release"
    )


def _print_tool(installation: Installation) -> None:
    """Print which tool manages the operator's objects and would create them again; users have to suspend the tool
    first.
    """
    match installation.keeper:
        case InstallTool.FLUX_KUSTOMIZATION | InstallTool.FLUX_HELM_RELEASE | InstallTool.ARGO_CD:
            print(f"first: suspend or remove {installation.managed_by}, which would create these again")
        case InstallTool.NOBODY | InstallTool.HELM:
            pass
        case _:
            assert_never(installation.keeper)


def _print_extensions(inventory: Inventory) -> None:
    """Print which objects of boxes and controllers have to be deleted first: only the operator takes finalizers off."""
    held = ", whose finalizers only a running operator takes off"
    if inventory.boxes:
        print(f"first: delete the OperatorBoxes that are to go, with the objects of their kinds{held}")
    if inventory.extensions:
        print(f"first: delete the objects that are to go of {', '.join(inventory.extensions)}{held}")


def print_boxes(inventory: Inventory, stays: str) -> None:
    """Print which OperatorBoxes stay without anything that runs them, and how to run or to free them.

    Also print the boxes and controllers that only the operator ran. `stays` begins each line.
    """
    if inventory.boxes:
        one = inventory.boxes[0]
        print(
            f"{stays}: {count_and_first(OPERATOR_BOX, list(inventory.boxes))}, with the objects of their kinds and what"
            " these made; nothing runs them, and finalizers keep them from being deleted. To run them: "
            f"vworkspace-operator box manifests --applied. To free them: kubectl get operatorbox {one} -o yaml | "
            f"vworkspace-operator box forget -, then kubectl patch operatorbox {one} --type merge -p "
            """'{"metadata":{"finalizers":null}}'"""
        )
    if inventory.extensions:
        print(
            f"{stays}: the objects of {', '.join(inventory.extensions)}, which nothing runs. To free them: "
            "vworkspace-operator box forget, or controllers forget"
        )


def elsewhere(inventory: Inventory) -> str:
    """Return why the uninstallation must not begin: the operator's Deployments are in other namespaces only. Empty if
    they are not.
    """
    if inventory.deployments or not inventory.elsewhere:
        return ""
    places = list(dict.fromkeys(str(ref.namespace) for ref in inventory.elsewhere))
    return (
        f"the operator runs in namespace {', '.join(places)}, not in {inventory.system_namespace}: "
        f"give --system-namespace {places[0]}"
    )


def obstacle(inventory: Inventory, at: datetime, *, keep_applications: bool) -> str:
    """Return why applications cannot be uninstalled: no operator runs that would do so. Empty if nothing is in the way.

    `inventory` has the operator's objects in the cluster. By its Leases, an operator runs if one of them is held at the
    time `at`. With `keep_applications` the result is empty, since no application is uninstalled then.
    """
    if keep_applications or not inventory.applications or not inventory.leases:
        return ""
    if any(is_held(lease, at) for lease in inventory.leases):
        return ""
    since = max(str(get_path(lease, "spec", "renewTime") or "") for lease in inventory.leases) or "a while"
    return (
        f"no operator runs in {inventory.system_namespace} (its Lease was last renewed at {since}), and without one "
        f"{_amount(inventory.applications)} cannot be uninstalled: start it again, or use --keep-applications"
    )


def _refuse_without_operator(options: UninstallOptions, inventory: Inventory) -> None:
    """Raise CommandError if applications are to be uninstalled, but no operator runs that could uninstall them.

    A dry run prints this instead. Without a Lease it is not known whether one runs, which is printed in either case.
    """
    if reason := obstacle(inventory, now(), keep_applications=options.keep_applications):
        if not options.dry_run:
            raise CommandError(reason)
        print(f"would refuse to begin: {reason}")
    elif inventory.applications and not inventory.leases and not options.keep_applications:
        print("first: see that the operator runs, which uninstalls the applications; no Lease shows whether it does")


def _confirm(options: UninstallOptions, inventory: Inventory, server: str) -> None:
    if options.yes:
        return
    told = question(inventory, server, keep_applications=options.keep_applications)
    if not sys.stdin.isatty():
        raise CommandError(
            f"{told} There is no terminal to confirm on, so nothing was changed. Use --yes, or --dry-run to preview",
            status=USAGE,
        )
    if input(f"{told} Continue? [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was changed")


def question(inventory: Inventory, server: str, *, keep_applications: bool) -> str:
    """Return the sentences that say what the uninstallation would do, for the user to confirm.

    `inventory` has the operator's objects in the cluster whose API server is at the URL `server`. The URL shows whether
    the context of the kubeconfig is the intended one. With `keep_applications`, all applications keep running with Flux
    alone; otherwise they are uninstalled.
    """
    going, marked, where = inventory.applications, inventory.abandoned, f" The API server is {server}."
    if inventory.boxes:
        where = f" {count_and_first(OPERATOR_BOX, list(inventory.boxes))} would stay, but not run.{where}"
    if keep_applications:
        staying = (*going, *marked)
        kept = f" {_amount(staying)} would stay with Flux alone." if staying else ""
        return f"This would remove the operator.{kept}{where}"
    uninstalling = f" and uninstall {_amount(going)}, with what the charts delete" if going else ""
    kept = f" {_amount(marked)}, marked {ABANDON}, would stay." if marked else ""
    return f"This would remove the operator{uninstalling}.{kept}{where}"


async def _carry_out(api: KubeApi, options: UninstallOptions, inventory: Inventory) -> None:
    waiting = Waiting(options.timeout, now, anyio.sleep)
    steps = steps_of(api, inventory, waiting, keep_applications=options.keep_applications)
    for number, step in enumerate(steps, 1):
        print(f"{number}. {'would ' if options.dry_run else ''}{step.title}", flush=True)
        if options.dry_run:
            continue
        try:
            await _performed(step, waiting)
        except (Stuck, OperatorError) as error:
            raise CommandError(
                f"step {number} did not finish, and no later step was started: {error}. Then run the same command again"
            ) from error


async def _performed(step: UninstallStep, waiting: Waiting) -> None:
    """Perform a step, and again while the API server cannot be reached, until the patience of `waiting` ends.

    Raises Stuck, and the errors of the API server.
    """
    limit = waiting.limit()
    while True:
        try:
            return await step.act()
        except Unavailable as error:
            # An upgrade of the control plane, or a lost connection, is shorter than many a step.
            if waiting.now() >= limit:
                raise
            print(f"   {error.message}: trying again", flush=True)
            await waiting.sleep(_AGAIN_SECONDS)


def _print_remaining_releases(options: UninstallOptions, inventory: Inventory) -> None:
    """Print the HelmReleases that keep running, and the objects that grant the rights that they need."""
    stays = "would stay" if options.dry_run else "stays"
    if releases := inventory.remaining_releases(keep_applications=options.keep_applications):
        names = [f"{ref.namespace}/{ref.name}" for ref in releases]
        print(f"{stays}: {count_and_first(HELM_RELEASE, names)}, with their sources; Flux runs them on")
    if rights := inventory.needed_rights(keep_applications=options.keep_applications):
        print(f"{stays}: what HelmReleases are installed as: {', '.join(map(str, sorted(rights)))}")


def print_other_objects(inventory: Inventory, *, dry_run: bool, keep_applications: bool) -> None:
    """Print what stays other than HelmReleases: boxes, the label of managed namespaces, the operator's namespace."""
    stays, own = "would stay" if dry_run else "stays", f"namespace {inventory.system_namespace} with its Secrets"
    print_boxes(inventory, stays)
    if inventory.managed_namespaces:
        print(f"{stays}: the label managed-by=vworkspace on {', '.join(inventory.managed_namespaces)}")
    if not inventory.has_namespace:
        return
    if inventory.namespace is None:
        print(f"{stays}: {own}: `manifests` did not make it")
    elif inventory.neighbours:
        names = ", ".join(map(str, inventory.neighbours))
        print(f"{stays}: {own}: others use it: {names}")
    elif inventory.namespace_to_delete(keep_applications=keep_applications) is None:
        print(f"{stays}: {own}: a HelmRelease lives in it")


def _amount(instances: Sequence[Manifest]) -> str:
    count = len(instances)
    return "1 application" if count == 1 else f"{count} applications"


def uninstall(
    *,
    keep_applications: Annotated[
        bool,
        Parameter(help="Leave every release running, with Flux alone; without it they are uninstalled.", negative=""),
    ] = False,
    dry_run: Annotated[bool, Parameter(help="Only tell each step.", negative="")] = False,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), help="Do not ask.", negative="")] = False,
    system_namespace: SystemNamespace = "vworkspace-system",
    timeout: Annotated[int, Parameter(help="Seconds to wait for each thing to go.")] = 600,
    kubeconfig: Annotated[Path | None, Parameter(help="Kubeconfig of an administrator.")] = None,
) -> None:
    """Uninstall applications, operator and CRDs from a cluster, in this order, and print each step.

    The command may be repeated, and continues where it stopped. Examples:

        vworkspace-operator uninstall --dry-run
        vworkspace-operator uninstall --keep-applications
    """
    options = UninstallOptions(keep_applications, dry_run, yes, system_namespace, float(timeout))
    at_cluster(kubeconfig, partial(_run, options))
