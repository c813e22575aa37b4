"""Why nothing is applied for an instance, as data."""

import attrs

from vworkspace_core.controller.requeue import Requeue


@attrs.frozen
class Barrier:
    """Why nothing is applied. `stalled`: only a change of the spec can help."""

    reason: str
    message: str
    stalled: bool = False
    requeue: Requeue = Requeue.NO
