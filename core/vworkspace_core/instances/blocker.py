"""A reason of Blocked (REC-8, RES-4) as data, in a module of its own, since its users import each other."""

import attrs

from purekube.controller.requeue import Requeue


@attrs.frozen
class Blocker:
    """A reason of the condition Blocked, for which nothing is applied, and when to try again.

    `stalled`: only a change of the spec can help.
    """

    reason: str
    message: str
    stalled: bool = False
    requeue: Requeue = Requeue.NO
