"""A reason of Blocked (REC-8, RES-4), as data: its own module, since those that find one import each other."""

import attrs

from vworkspace_core.controller.requeue import Requeue


@attrs.frozen
class Blocker:
    """Why nothing is applied for an instance: a reason of the condition Blocked, and when to look again.

    `stalled`: only a change of the spec can help.
    """

    reason: str
    message: str
    stalled: bool = False
    requeue: Requeue = Requeue.NO
