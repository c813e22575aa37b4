"""`controllers forget` and `box forget`: free the objects of a controller that will not run again."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from cyclopts import App, Parameter

from purekube.boxes.decide import composite_of
from purekube.composites.composite import Composite
from purekube.ports import KubeApi
from purekube.reconcilers.controllers import kind_of, name_of
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.reconcilers.loading import load_controllers
from purekube_run.reconcilers.passes import rules_of
from vworkspace_app.commands.parameters import Crds, DryRun, Kubeconfig
from vworkspace_app.commands.session import at_cluster
from vworkspace_app.verbs.forgetting import Forgetting, Held


def _held_by(composite: Composite) -> Held:
    return Held(composite.kind, (composite.finalizer,), composite.title)


async def _forget(held: Sequence[Held], dry_run: bool, api: KubeApi) -> None:
    forgetting = Forgetting(api, partial(print, flush=True), dry_run)
    for one in held:
        if not await forgetting.run(one):
            print(f"the {one.by} holds no {one.kind.kind}")


box = App(name="box", help="Operators from a file: check them, show them, begin one, convert those of others.")


def forget_objects_of_box(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box.")],
    /,
    *,
    crds: Crds = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Take the finalizer of a box off its objects, which can be deleted then. For a box that will not run again.

    Stop what runs it first: it puts its finalizer on again. The children stay; those with an owner reference go with
    their object. Example:

        vworkspace-operator box forget webapp.yaml --dry-run
    """
    boxes = runnable(load_boxes([file], crds or ()))
    at_cluster(kubeconfig, partial(_forget, [_held_by(composite_of(box)) for box in boxes], dry_run))


controllers = App(name="controllers", help="Reconcilers and watchers in Python: list, run, and print what they need.")

Names = Annotated[list[str], Parameter(name="NAME", help="Names of installed controllers, or module:attribute.")]


def forget_objects(
    names: Names,
    /,
    *,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Take the finalizers of controllers off their objects, which can be deleted then. For controllers that are gone.

    Stop them first: one that runs puts its finalizer on again. What they have made stays. Example:

        vworkspace-operator controllers forget shops --dry-run
    """
    loaded = load_controllers(names)
    held = [_held_by(composite) for composite in loaded.composites]
    for controller in loaded.made:
        rules = rules_of(controller)
        held.append(Held(kind_of(controller), (rules.begun, rules.kept), f"controller {name_of(controller)}"))
    at_cluster(kubeconfig, partial(_forget, held, dry_run))
