"""`box run`: run the operators of some box files, and nothing else."""

from collections.abc import Sequence

import structlog

from purekube.boxes.box import Box
from purekube.boxes.decide import composite_of
from purekube.boxes.kind_webhooks import WebhookDuties
from purekube.versions import Converter
from purekube_run.composites.controllers import refuse_shared_kinds
from vworkspace_app.commands.extensions_run import run_extensions
from vworkspace_app.settings import RunSettings
from vworkspace_app.webhooks import ServedKinds

_log = structlog.get_logger("operator")


def run_boxes(settings: RunSettings, boxes: Sequence[Box], namespaces: Sequence[str] = ()) -> None:
    """Run boxes until a signal, in these namespaces or in all. Raises CommandError if no cluster can be determined."""
    warn_unserved(settings, boxes)
    composites = [*map(composite_of, boxes)]
    refuse_shared_kinds(composites)
    names, kinds = [box.name for box in boxes], [box.kind.crd_name for box in boxes]
    run_extensions(settings, composites, (), ServedKinds.of(boxes), namespaces, {"boxes": names, "kinds": kinds})


def warn_unserved(settings: RunSettings, boxes: Sequence[Box]) -> None:
    """Print a warning for boxes that need webhooks if none are served: nothing enforces their rules then."""
    if settings.webhook_listen:
        return
    for box in boxes:
        if duties := WebhookDuties.of(box):
            remedy = "give --webhook-listen and --webhook-certificates; box manifests prints what else belongs to it"
            _log.warning("the box needs a webhook that is not served", box=box.name, needs=str(duties), remedy=remedy)


def warn_unconverted(settings: RunSettings, converters: Sequence[Converter]) -> None:
    """Print a warning for kinds whose versions are not converted because no webhooks are served."""
    for one in () if settings.webhook_listen else converters:
        told = f"conversion of {', '.join(one.spokes)}"
        remedy = "give --webhook-listen and --webhook-certificates"
        _log.warning("the kind needs a webhook that is not served", kind=one.kind, needs=told, remedy=remedy)
