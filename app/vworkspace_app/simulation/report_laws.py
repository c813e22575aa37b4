"""The laws (required properties) of what is reported about instances: Events, and the control plane's events."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from kubelab.model.records import Record
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import EVENT
from purekube.apimachinery.timestamps import parse_time
from vworkspace_app.simulation.checks import OperatorChecks
from vworkspace_app.simulation.operator_world import CLUSTER_ID

_QUIET: Final = timedelta(minutes=10)
"""A time before the check of reports in which nothing disturbed the cluster."""
_FEWEST: Final = 9
"""The fewest heartbeats in that time."""


class ReportLaws:
    """The checks of the laws (required properties) of reports in a simulated run."""

    def __init__(self, laws: OperatorChecks) -> None:
        self._laws = laws
        self._world = laws.operator_world
        self._last: dict[str, datetime] = {}
        """The time of the last Event about each object, by uid."""
        laws.observe(EVENT, self._event)

    def _event(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is not None:
            self._last[str(get_path(after.shared(), "regarding", "uid"))] = self._world.loop.now()

    def check(self, refs: Iterable[ObjectRef], since: datetime) -> None:
        """Check that each instance, which became Ready again after `since`, has an Event and an event of since then.

        Heartbeats must have come every minute before `since`, in a calm cluster.
        """
        events = self._world.control.events_of(CLUSTER_ID)
        beats = [event for event in events if event["kind"] == "ClusterHeartbeat"]
        recent = [event for event in beats if since - _QUIET <= parse_time(event["timestamp"]) < since]
        told_beats, is_beating = f"{len(recent)} in {_QUIET}", len(recent) >= _FEWEST
        self._laws.check("PULL-6", "a heartbeat comes every minute", "the control plane", is_beating, told_beats)
        told = {
            event["resourceRef"]["uid"]
            for event in events
            if event["kind"] == "ConditionTransition" and parse_time(event["timestamp"]) >= since.replace(microsecond=0)
        }
        for ref in refs:
            uid = str(get_path(self._world.get(ref), "metadata", "uid"))
            is_new = uid in self._last and self._last[uid] >= since
            self._laws.check("REC-1", "a transition at rest has an Event", ref, is_new, "there is no Event")
            is_reported = uid in told
            self._laws.check("PULL-6", "a transition at rest is reported", ref, is_reported, "no report of it came")
