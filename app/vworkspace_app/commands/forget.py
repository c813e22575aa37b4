"""`controllers forget` and `box forget`: free the objects of a controller that will not run again."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from purekube.boxes.decide import composite_of
from purekube.composites.composite import Composite
from purekube.ports import KubeApi
from purekube.reconcilers.controllers import kind_of, name_of
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.reconcilers.loading import load_controllers
from purekube_run.reconcilers.passes import rules_of
from vworkspace_app.commands.session import at_cluster
from vworkspace_app.handling.forgetting import Forgetting, Held


def forget_controllers(names: Sequence[str], kubeconfig: Path | None, *, dry_run: bool) -> None:
    """Remove the finalizers of some controllers from their objects. Raises CommandError."""
    loaded = load_controllers(names)
    held = [_held_by(one) for one in loaded.composites]
    for one in loaded.made:
        rules = rules_of(one)
        held.append(Held(kind_of(one), (rules.begun, rules.kept), f"controller {name_of(one)}"))
    at_cluster(kubeconfig, partial(_forget, held, dry_run))


def forget_box(file: str, crds: Sequence[Path], kubeconfig: Path | None, *, dry_run: bool) -> None:
    """Remove the finalizer of a box from its objects. Raises CommandError."""
    held = [_held_by(composite_of(one)) for one in runnable(load_boxes([file], crds))]
    at_cluster(kubeconfig, partial(_forget, held, dry_run))


def _held_by(composite: Composite) -> Held:
    return Held(composite.kind, (composite.finalizer,), composite.title)


async def _forget(held: Sequence[Held], dry_run: bool, api: KubeApi) -> None:
    forgetting = Forgetting(api, partial(print, flush=True), dry_run)
    for one in held:
        if not await forgetting.run(one):
            print(f"the {one.by} holds no {one.kind.kind}")
