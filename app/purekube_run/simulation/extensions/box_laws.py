"""The trials of `box test`: they check laws (required properties) on generated objects of a box (PH-2, PH-3).

A box is an operator that is defined in YAML.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

import attrs

from kubelab.clock import START
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest
from purekube.boxes.box import Box
from purekube_run.examples.data_source import Seeded
from purekube_run.examples.examples import Examples, NoExample
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.cluster import MemoryCluster
from purekube_run.simulation.extensions.box_world import install_box, simulated_for
from purekube_run.simulation.extensions.runnables import schema_of
from purekube_run.simulation.extensions.trial import BrokenLaw, Trial

_NAMESPACE: Final = "examples"
_TRIES: Final = 30
_WITHIN: Final = 3600.0


@attrs.frozen
class BrokenBoxLaw:
    """The result of a trial (a check on one generated object) in which the box (an operator defined in YAML) broke a
    law (a required property).

    `example` is the object of the trial, and `timeline` the course of it. The trial can be repeated by `try_example`
    with `number` and the same seed.
    """

    law: str
    number: int
    example: Manifest
    told: str
    timeline: tuple[str, ...]


@attrs.frozen
class Rested:
    """The result of a trial (a check on one generated object) in which the box (an operator defined in YAML) kept all
    laws (required properties).

    `ready` is True if the object became Ready. The text has the reason and message of its condition Ready.
    """

    ready: bool
    told: str


def try_example(box: Box, definitions: Sequence[Manifest], number: int, seed: int) -> BrokenBoxLaw | Rested:
    """Try the laws (required properties) of controllers on one generated object of the box's kind, which `number` and
    `seed` determine.

    Return the law that was broken, or the object's condition Ready at the end if none was. `definitions` are CRDs of
    further kinds.
    """
    example = _example(box, definitions, Random(f"{seed}/{number}"))
    try:
        live = Trial(box, example, f"{seed}/{number}", definitions, within=_WITHIN).run()
    except BrokenLaw as broken:
        return BrokenBoxLaw(broken.law, number, example, broken.told, broken.timeline)
    ready = condition_of(live, "Ready")
    return Rested(ready.get("status") == "True", f"{ready.get('reason')}: {ready.get('message')}")


def _example(box: Box, definitions: Sequence[Manifest], random: Random) -> Manifest:
    """Return a generated object of the box's kind that the API server admits, also by the CRD's CEL rules.

    Raises CommandError if every generated object is refused.
    """
    examples = Examples(schema_of(box, {}), Seeded(random))
    cluster, refused = MemoryCluster(lambda: START, **simulated_for(box)), ""
    install_box(cluster, box, definitions)
    for number in range(_TRIES):
        meta = {"name": f"example-{number}", **({"namespace": _NAMESPACE} if box.kind.namespaced else {})}
        try:
            manifest = examples.object_of(box.kind, meta)
            cluster.create(manifest, box.kind)
        except NoExample as error:
            refused = str(error)
        except Invalid as error:
            refused = error.message
        else:
            return manifest
    raise CommandError(f"no example of {box.kind.kind} is admitted after {_TRIES} tries: {refused}")
