"""`box run`: run the operators of some box files, and nothing else."""

import random
from collections.abc import Sequence

import structlog

from purekube.boxes.admission import WebhookDuties
from purekube.boxes.box import Box
from purekube.boxes.decide import composite_of
from purekube.composites.composite import Composite
from purekube.versions import Converter
from purekube_run.composites.running import CompositeOptions, Composites, refuse_shared_kinds
from vworkspace_app.commands.run_alone import MakeRunnable, Surroundings, run_alone
from vworkspace_app.settings import RunSettings
from vworkspace_app.webhooks import ServedKinds

_log = structlog.get_logger("operator")


def run_boxes(settings: RunSettings, boxes: Sequence[Box], namespaces: Sequence[str] = ()) -> None:
    """Run boxes until a signal, in these namespaces or in all. Raises CommandError if no cluster can be determined."""
    tell_unserved(settings, boxes)
    composites = [*map(composite_of, boxes)]
    refuse_shared_kinds(composites)
    makers = [composites_in(composites, settings.workers, namespaces)]
    served = ServedKinds.of(boxes)
    run_alone(settings, makers, served, boxes=[box.name for box in boxes], kinds=[box.kind.crd_name for box in boxes])


def tell_unserved(settings: RunSettings, boxes: Sequence[Box]) -> None:
    """Warn of boxes that need webhooks if none are served: nothing enforces their versions, rules and defaults then."""
    if settings.webhook_listen:
        return
    for box in boxes:
        if duties := WebhookDuties.of(box):
            remedy = "give --webhook-listen and --webhook-certificates; box manifests prints what else belongs to it"
            _log.warning("the box needs a webhook that is not served", box=box.name, needs=str(duties), remedy=remedy)


def tell_unconverted(settings: RunSettings, converters: Sequence[Converter]) -> None:
    """Warn of kinds whose versions are not converted because no webhooks are served."""
    for one in () if settings.webhook_listen else converters:
        told = f"conversion of {', '.join(one.spokes)}"
        remedy = "give --webhook-listen and --webhook-certificates"
        _log.warning("the kind needs a webhook that is not served", kind=one.kind, needs=told, remedy=remedy)


def composites_in(composites: Sequence[Composite], workers: int, namespaces: Sequence[str] = ()) -> MakeRunnable:
    """Return a function that makes the runtime of these parent kinds from what the process has."""

    def make(has: Surroundings) -> Composites:
        options = CompositeOptions(
            random.random, workers, has.run_id, has.telemetry.observer, namespaces=tuple(namespaces)
        )
        return Composites(has.api, has.clock, composites, has.events, options)

    return make
