"""The laws (required properties) of what is reported about instances: Events, and the control plane's events."""

from collections.abc import Iterable
from datetime import datetime

from kubelab.model.records import Record
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import EVENT
from purekube.apimachinery.timestamps import parse_time
from vworkspace_app.simulation.checks import OperatorChecks
from vworkspace_app.simulation.operator_world import CLUSTER_ID


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
        """Check that each instance, which became Ready again after `since`, has an Event and an event of since then."""
        told = {
            event["resourceRef"]["uid"]
            for event in self._world.control.events_of(CLUSTER_ID)
            if event["kind"] == "ConditionTransition" and parse_time(event["timestamp"]) >= since.replace(microsecond=0)
        }
        for ref in refs:
            uid = str(get_path(self._world.get(ref), "metadata", "uid"))
            is_new = uid in self._last and self._last[uid] >= since
            self._laws.check("REC-1", "a transition at rest has an Event", ref, is_new, "there is no Event")
            is_reported = uid in told
            self._laws.check("PULL-6", "a transition at rest is reported", ref, is_reported, "no report of it came")
