"""Defects that show where pages are short, buffers full, tokens end or others interfere, for `defects.py`."""

from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from purekube.apimachinery import conditions
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import SECRET
from purekube.controller.informer.store import ObjectStore
from vworkspace_core.api.labels import JOB_STORE
from vworkspace_core.control_plane.outbox import Outbox
from vworkspace_core.credentials import machine as credentials
from vworkspace_core.jobs import job_stages
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_core.operations import engine_run


def makes_a_deleted_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the engine's object again after a person has deleted it."""
    monkeypatch.setattr(engine_run._Run, "_ended_unseen", lambda self, *_: self._created())


def does_withdrawn_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on with a job although the control plane refuses its ack."""
    monkeypatch.setattr(job_stages, "_dropped", job_stages._acked)


def makes_up_for_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send no snapshot for events that were dropped."""
    monkeypatch.setattr(Outbox, "owes_snapshot", property(lambda self: False))


def keeps_the_last_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the buffered objects of a list by those of each next page."""
    correct = ObjectStore.buffer

    def defective(self: ObjectStore, manifests: Iterable[Manifest]) -> None:
        self.discard_buffer()
        correct(self, manifests)

    monkeypatch.setattr(ObjectStore, "buffer", defective)


def reads_one_page_of_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load no more records of jobs than a page has."""

    async def defective(self: Any) -> list[Manifest]:
        page = await self._api.list(SECRET, namespace=self._namespace, label_selector=JOB_STORE, limit=50)
        return [*page.items]

    monkeypatch.setattr(KubeJobStore, "_all", defective)


def never_renews_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the token of the control plane end."""
    monkeypatch.setattr(credentials, "renewal_of", lambda *_: None)


def keeps_the_time_of_a_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move no `lastTransitionTime` when a condition's status changes."""
    correct = conditions._timed

    def defective(old: Any, *given: Any) -> Any:
        timed = correct(old, *given)
        return timed if old is None else attrs.evolve(timed, last_transition_time=old.last_transition_time)

    monkeypatch.setattr(conditions, "_timed", defective)
