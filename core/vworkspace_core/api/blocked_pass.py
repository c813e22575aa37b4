"""Conditions on objects of our own kinds over which a pass was stopped (REC-13); kinds differ in wording only."""

from datetime import datetime

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.structuring import read_own_conditions
from purekube.controller.blocked_pass import BlockedPass, BlockedWords, blocked_status
from purekube.controller.decision import Decision
from vworkspace_core.api.gating import is_labelled_for


def decide_blocked(
    words: BlockedWords, manifest: Manifest, blocked: BlockedPass, cluster_id: str | None, now: datetime
) -> Decision:
    """Return the status that reports it; an empty decision if it does already or is not ours to write.

    Without a `cluster_id` every object of the kind is ours.
    """
    if cluster_id is not None and not is_labelled_for(manifest, cluster_id):
        return Decision()
    return blocked_status(words, manifest, read_own_conditions(manifest, words.types), blocked, now)
