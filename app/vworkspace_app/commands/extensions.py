"""The process that runs extensions (boxes and controllers in Python), alone or with the operator's own kinds.

A box is an operator that a YAML file declares. A process without extensions does not import this module, which saves 7
MB of memory.
"""

import random
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import attrs
import structlog

from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.webhooks.kind_webhooks import WebhookDuties
from purekube.composites.composite import Composite, status_writer
from purekube.composites.status_writers import StatusWriter
from purekube.reconcilers import Resource
from purekube.reconcilers.kind_reviews import webhook_needs
from purekube_run.boxes.applied_boxes import AppliedBoxes, AppliedInstallation
from purekube_run.boxes.applied_converters import AppliedConverters
from purekube_run.boxes.applied_load import BoxReview
from purekube_run.boxes.enforcement import Enforcement
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.composites.controller import refuse_shared_kinds
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.process.signals import run_in_background
from purekube_run.reconcilers.controller_loading import load_controllers
from purekube_run.reconcilers.controllers import GivenController
from purekube_run.reconcilers.extensions import ExtensionManager
from purekube_run.versions.round_trips import check_kinds
from vworkspace_app.commands.shared.process import ProcessParts, configure_log, run_process
from vworkspace_app.manager.telemetry import components_of_extensions
from vworkspace_app.settings import RunSettings
from vworkspace_app.webhooks import ServedKinds, webhooks_of_kinds
from vworkspace_app.webhooks.kinds_of_users import served_kinds
from vworkspace_core.api.kinds import OWN_KINDS
from vworkspace_core.api.labels import FIELD_MANAGER

OPERATORS = tuple(StatusWriter(kind, "operator") for kind in OWN_KINDS)
"""The records that the operator itself writes the statuses of its own kinds, so no extension may write them."""

_log = structlog.get_logger("operator")


@attrs.frozen
class LoadedExtensions:
    """The boxes (operators that YAML files declare) and Python controllers that run with the operator's own kinds.

    `composites` are the controllers made of boxes and pure reconcilers (functions that return the desired children of
    an object). `writers` are the other controllers that write statuses, each with its kind.
    """

    boxes: Sequence[Box]
    resources: Sequence[Resource[Any, Any]]
    composites: Sequence[Composite]
    controllers: Sequence[GivenController]
    writers: Sequence[StatusWriter]

    @classmethod
    def load(cls, settings: RunSettings) -> "LoadedExtensions":
        """Load the extensions (boxes and controllers in Python) that `settings` name.

        Raises CommandError if one cannot be loaded, or if two controllers would write the status of the same kind.
        """
        loaded, boxes = load_controllers(settings.controllers), runnable(load_boxes(settings.box))
        composites = [*map(composite_of, boxes), *loaded.composites]
        check_kinds(loaded.resources)
        writers = (*OPERATORS, *loaded.writers)
        refuse_shared_kinds(composites, writers)
        return cls(boxes, loaded.resources, composites, loaded.given, writers)

    @asynccontextmanager
    async def webhooks(self, settings: RunSettings, process: ProcessParts) -> AsyncIterator[ServedKinds]:
        """Yield the kinds whose webhooks the process must serve. First log a warning for each webhook that is needed
        but not enabled.

        While the block runs, the rules of the boxes are compared with those in the cluster's CRDs, and a warning is
        logged if a CRD lacks rules.
        """
        warn_unserved(settings, self.boxes)
        warn_unreviewed(settings, self.resources)
        kinds, enforcement = served_kinds(self.boxes, self.resources), Enforcement(process.api, self.boxes)
        async with run_in_background(partial(enforcement.run, process.machine.clock)):
            # Each shard reviews boxes, although one runs them: the webhooks' Service sends a review to any of them.
            yield with_applied_boxes(kinds, settings, process) if settings.applied_boxes else kinds


def run_extensions(
    settings: RunSettings,
    composites: Sequence[Composite],
    controllers: Sequence[GivenController],
    webhooks: ServedKinds,
    namespaces: Sequence[str] = (),
    starting: Mapping[str, object] = {},
    *,
    boxes: Sequence[Box] = (),
    applied: bool = False,
) -> None:
    """Run composites (boxes and reconcilers that are pure functions) and other controllers until the process gets a
    signal.

    The fields of `starting` are logged at the start. `webhooks` are the kinds whose webhooks the process serves.
    `boxes` are the boxes of which composites were made; a warning is logged if their CRDs in the cluster lack rules of
    the boxes. With `applied`, the boxes that are in the cluster as OperatorBox objects run too. Composites act in
    `namespaces`, or in all namespaces if it is empty. Raises CommandError if no API server is configured, and for
    unusable certificates.
    """

    async def work(process: ProcessParts, stop: anyio.Event) -> None:
        _log.info("starting", **starting)
        kinds = with_applied_boxes(webhooks, settings, process) if applied else webhooks
        async with webhooks_of_kinds(settings, process.metrics, kinds):
            api, clock = process.api, process.machine.clock
            events = BackgroundEvents(api, clock, instance=socket.gethostname(), field_manager=FIELD_MANAGER)
            options = ManagerOptions(
                process.machine.random,
                settings.workers,
                f"{random.getrandbits(32):08x}",
                process.telemetry.observer,
                namespaces=tuple(namespaces),
            )
            manager = ExtensionManager(
                api, clock, events, options, composites=composites, controllers=controllers, namespaces=applied
            )
            boxes_applied = None
            if applied:
                writers = tuple(map(status_writer, composites))
                place, installed = (
                    settings.namespace,
                    AppliedInstallation(serves_webhooks=bool(settings.webhook_listen)),
                )
                boxes_applied = AppliedBoxes(api, clock, events, manager, options, place, writers, installed)
                manager.load(boxes_applied.controller())
            components = components_of_extensions(manager, events, process.election.leases, boxes_applied)
            process.telemetry.attach(components)
            async with anyio.create_task_group() as group:
                group.start_soon(events.run, name="events")
                group.start_soon(Enforcement(api, boxes).run, clock, name="enforcement")
                group.start_soon(manager.run, process.election.elected, name="controllers")
                await stop.wait()
                await manager.finish()
                group.cancel_scope.cancel()

    run_process(settings, configure_log(settings), work)


def with_applied_boxes(webhooks: ServedKinds, settings: RunSettings, process: ProcessParts) -> ServedKinds:
    """Return `webhooks` (the kinds whose webhooks a process serves), extended by the webhooks of applied boxes.

    Applied boxes are those in the cluster as OperatorBox objects. The process then also validates OperatorBoxes, and
    converts objects of the kinds that they define.
    """
    converters = AppliedConverters(process.api, process.machine.clock, settings.namespace)
    return webhooks.with_applied_boxes(BoxReview(process.api), converters.of_group)


def run_boxes(
    settings: RunSettings, boxes: Sequence[Box], namespaces: Sequence[str] = (), *, applied: bool = False
) -> None:
    """Run boxes (operators that YAML files declare) until the process gets a signal.

    The boxes act in `namespaces`, or in all namespaces if `namespaces` is empty. With `applied`, the boxes that are in
    the cluster as OperatorBox objects run too. Raises CommandError if no API server is configured.
    """
    warn_unserved(settings, boxes)
    composites = [*map(composite_of, boxes)]
    refuse_shared_kinds(composites)
    names, kinds = [box.name for box in boxes], [box.kind.crd_name for box in boxes]
    starting = {"boxes": names, "kinds": kinds}
    run_extensions(settings, composites, (), served_kinds(boxes), namespaces, starting, boxes=boxes, applied=applied)


def warn_unserved(settings: RunSettings, boxes: Sequence[Box]) -> None:
    """Log a warning for each box that needs a webhook, if the settings enable no webhooks.

    Without the webhook, some rules, defaults or conversions of the box are missing.
    """
    if settings.webhook_listen:
        return
    for box in boxes:
        if duties := WebhookDuties.of(box):
            remedy = "give --webhook-listen and --webhook-certificates; box manifests prints what else belongs to it"
            _log.warning("the box needs a webhook that is not served", box=box.name, needs=str(duties), remedy=remedy)


def warn_unreviewed(settings: RunSettings, resources: Sequence[Resource[Any, Any]]) -> None:
    """Log a warning for each kind that needs a webhook, if the settings enable no webhooks.

    Without the webhook, objects of the kind are not converted, validated or defaulted.
    """
    for one in () if settings.webhook_listen else resources:
        if one.needs_webhooks:
            told, remedy = webhook_needs(one), "give --webhook-listen and --webhook-certificates"
            _log.warning("the kind needs a webhook that is not served", kind=one.kind.kind, needs=told, remedy=remedy)
