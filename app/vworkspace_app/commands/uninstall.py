"""`uninstall`: take the operator out of a cluster, telling each step; the applications with it, or without them."""

import sys
from functools import partial
from pathlib import Path

import attrs

from vworkspace_app.commands.session import at_cluster, now
from vworkspace_app.process.errors import USAGE, CommandError
from vworkspace_app.uninstall import Inventory, Stuck, steps_of, take_inventory
from vworkspace_core.apimachinery.manifest import get_path
from vworkspace_core.overview.replicas import is_held
from vworkspace_core.ports import KubeApi


@attrs.frozen
class UninstallOptions:
    """The options of `uninstall`."""

    keep_applications: bool
    dry_run: bool
    yes: bool
    system_namespace: str
    timeout: float
    kubeconfig: Path | None


def run_uninstall(options: UninstallOptions) -> None:
    """Uninstall, or tell what that would be. Raises CommandError."""
    at_cluster(options.kubeconfig, partial(_run, options))


async def _run(options: UninstallOptions, api: KubeApi) -> None:
    inventory = await take_inventory(api, options.system_namespace)
    if inventory.is_empty:
        print("nothing of the operator is installed here")
        return
    if not options.dry_run:
        _refuse_without_operator(options, inventory)
        _confirm(options, inventory)
    await _carry_out(api, options, inventory)
    _tell_what_stays(options, inventory)


def _refuse_without_operator(options: UninstallOptions, inventory: Inventory) -> None:
    """Before anything is deleted: what would then be left half gone, waiting for an operator that is not there."""
    if options.keep_applications or not inventory.applications:
        return
    at = now()
    if inventory.leases and not any(is_held(lease, at) for lease in inventory.leases):
        since = max(str(get_path(lease, "spec", "renewTime") or "") for lease in inventory.leases) or "a while"
        raise CommandError(
            f"no operator runs in {options.system_namespace} (its Lease was last renewed at {since}), and without one "
            f"nobody uninstalls {_applications(inventory)}: start it again, or give --keep-applications"
        )


def _confirm(options: UninstallOptions, inventory: Inventory) -> None:
    if options.yes:
        return
    what, is_single = _applications(inventory), len(inventory.applications) == 1
    if options.keep_applications:
        question = f"The operator goes, and {what} {'stays' if is_single else 'stay'} with Flux alone."
    else:
        question = (
            f"The operator goes, and {what} {'is' if is_single else 'are'} UNINSTALLED, with what the charts delete."
        )
    if not sys.stdin.isatty():
        raise CommandError(
            f"{question} Nobody can be asked here, so nothing was done: give --yes; --dry-run shows each step",
            status=USAGE,
        )
    if input(f"{question} Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


async def _carry_out(api: KubeApi, options: UninstallOptions, inventory: Inventory) -> None:
    steps = steps_of(api, inventory, keep_applications=options.keep_applications, patience=options.timeout, now=now)
    for number, step in enumerate(steps, 1):
        print(f"{number}. {'would ' if options.dry_run else ''}{step.title}", flush=True)
        if options.dry_run:
            continue
        try:
            await step.act()
        except Stuck as error:
            raise CommandError(
                f"step {number} is stuck, and nothing after it was done: {error}. Run the same command again "
                "when that is mended"
            ) from error


def _tell_what_stays(options: UninstallOptions, inventory: Inventory) -> None:
    stays = []
    if options.keep_applications and inventory.applications:
        stays.append(f"the HelmReleases and sources of {_applications(inventory)}")
    if options.keep_applications and inventory.release_rights:
        stays.append(
            "the accounts that Flux installs them as: " + ", ".join(map(str, sorted(inventory.release_rights)))
        )
    if inventory.gated:
        stays.append("the label managed-by=vworkspace on " + ", ".join(inventory.gated))
    if inventory.namespace is None:
        stays.append(f"namespace {inventory.system_namespace} with its Secrets: `manifests` did not make it")
    for what in stays:
        print(f"{'would stay' if options.dry_run else 'stays'}: {what}")


def _applications(inventory: Inventory) -> str:
    count = len(inventory.applications)
    return "no application" if count == 0 else "1 application" if count == 1 else f"{count} applications"
