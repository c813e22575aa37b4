"""The laws (required properties) of HelmReleases, and of what instances report about them (REC-4, REC-5, REC-14)."""

from collections import defaultdict
from functools import partial
from typing import Any, Final

from kubelab.flux.helm_controller import RESET_AT
from kubelab.model.records import ObjectKey, Record
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.controller.ownership import owner_uids
from purekube_run.simulation.laws import condition_text, place_of
from vworkspace_app.simulation.checks import OperatorChecks, course_of
from vworkspace_app.simulation.instance_laws import BY_US
from vworkspace_app.simulation.settled_laws import has_values, is_ready
from vworkspace_app.simulation.workload_requests import TAKEN
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

_TOLD: Final = 30.0
"""The seconds within which an instance reports a release that Flux has confirmed."""
_EVERYWHERE: Final = ("releaseName", "targetNamespace", "storageNamespace")


class ReleaseLaws:
    """The checks of the laws (required properties) of HelmReleases and of reports about them in a simulated run."""

    def __init__(self, laws: OperatorChecks) -> None:
        self._laws = laws
        self._check = laws.check
        self._store = laws.world.server.store
        self._handled: defaultdict[str, set[str]] = defaultdict(set)
        """The retries that Flux has handled, by the uid of the HelmRelease."""
        self._deployed: defaultdict[ObjectKey, set[str]] = defaultdict(set)
        """The versions that Flux has deployed, by the HelmRelease."""
        self._foreign: set[str] = set()
        """The uids of the HelmReleases that others have made with the name of an instance."""
        self._changed: dict[ObjectKey, float] = {}
        """The time of the last change of each HelmRelease."""
        self._asked: dict[ObjectKey, float] = {}
        """The time at which users last changed what they want of each instance."""
        laws.observe(HELM_RELEASE, self._release)
        laws.observe(APPLICATION_INSTANCE, self._instance)

    # --- HelmReleases ------------------------------------------------------------------------------------------------

    def _release(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            self._changed.pop((str(ref.namespace), ref.name), None)
            return
        is_ours = BY_US in after.raw
        if before is None and ref.name.startswith(TAKEN) and not is_ours:
            self._foreign.add(after.uid)
        if after.uid in self._foreign:
            told = "the operator has written it"
            self._check("REC-4", "what others made is not taken over", ref, not is_ours, told)
            return
        was: Manifest = {} if before is None else before.shared()
        live = after.shared()
        history: Any = get_path(live, "status", "history") or ()
        deployed = (str(entry.get("chartVersion")) for entry in history if entry.get("status") == "deployed")
        self._deployed[after.key] |= {version.partition("+")[0] for version in deployed}
        self._check_retry(ref, after.uid, was, live)
        if is_ours and was.get("spec") != live["spec"]:
            self._check_place(ref, live["spec"])
        at = self._laws.world.seconds
        if self._changed.get(after.key) != at:  # of several changes at one moment one check is enough
            self._changed[after.key] = at
            self._laws.world.loop.call_later(_TOLD, partial(self._check_told, after.key, at))

    def _check_retry(self, ref: ObjectRef, uid: str, was: Manifest, live: Manifest) -> None:
        """Check that no retry is requested from Flux again after Flux has handled it."""
        if self._laws.is_restored_now:
            self._handled.pop(uid, None)
        asked, former = (get_path(each, "metadata", "annotations", RESET_AT) for each in (live, was))
        if was and asked and asked != former:
            is_new = asked not in self._handled[uid]
            self._check("REC-14", "a retry is sent once", ref, is_new, f"Flux has handled {asked} before")
        self._handled[uid].add(str(get_path(live, "status", "lastHandledResetAt")))

    def _check_place(self, ref: ObjectRef, spec: Manifest) -> None:
        """Check that Flux acts for a release in the release's own namespace, and with an account of that namespace."""
        desired = dict(zip(_EVERYWHERE, (ref.name, ref.namespace, ref.namespace), strict=True))
        wrong = [field for field, value in desired.items() if spec.get(field) != value]
        wrong += [] if spec.get("serviceAccountName") else ["serviceAccountName"]
        told = f"{', '.join(wrong)} is not as it must be"
        self._check("REC-4", "a release stays in its namespace, with its account", ref, not wrong, told)

    def _check_told(self, key: ObjectKey, at: float) -> None:
        """Check what an instance says half a minute after the last change of its release in a calm cluster."""
        laws = self._laws
        release = self._store.get(place_of(HELM_RELEASE), key)
        instance = self._store.get(place_of(APPLICATION_INSTANCE), key)  # a release has the name of its instance
        if self._changed.get(key) != at or release is None or instance is None:
            return
        if laws.is_recovering or not laws.prompt.is_calm_since(at):
            return
        live, owner = release.shared(), instance.shared()
        if self._asked.get(key, 0.0) > at or instance.uid not in owner_uids(live) or _is_held(owner):
            return
        ref, told = ObjectRef(APPLICATION_INSTANCE, *key), condition_text(owner)
        is_confirmed = _is_confirmed(live)
        if is_confirmed and _is_of(live, owner):
            self._check("REC-5", "a confirmed release is told at once", ref, is_ready(owner), told)
            self._check("REC-5", "trouble that is over is not told", ref, not _old_trouble(live, owner), told)
        if is_confirmed and _is_true(live, "Drifted"):
            self._check("REC-5", "drift is told at once", ref, _is_true(owner, "Degraded"), told)
        if _has_given_up(live):
            holds = _is_true(owner, "Stalled") and _is_true(owner, "Degraded") and not is_ready(owner)
            self._check("REC-5", "a release that Flux gave up is told at once", ref, holds, told)

    # --- instances ---------------------------------------------------------------------------------------------------

    def _instance(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            return
        was: Manifest = {} if before is None else before.shared()
        live = after.shared()
        if not was or course_of(was) != course_of(live):
            self._asked[after.key] = self._laws.world.seconds
        if was.get("status") == live.get("status") or self._laws.is_just_restored(self._laws.world.seconds):
            return
        version = str(get_path(live, "status", "deployedChart", "version") or "")
        if version and version != get_path(was, "status", "deployedChart", "version"):
            is_deployed = version.partition("+")[0] in self._deployed[after.key]
            told = f"Flux has not deployed {version}"
            self._check("RES-1", "the deployed chart is one that Flux deployed", ref, is_deployed, told)
        if condition_of(live, "Suspended") != condition_of(was, "Suspended"):
            self._check_suspended(ref, live)

    def _check_suspended(self, ref: ObjectRef, live: Manifest) -> None:
        """Check that an instance which users have suspended says so only when its HelmRelease is suspended."""
        suspended, generation = condition_of(live, "Suspended"), live["metadata"]["generation"]
        is_told = (suspended.get("status"), suspended.get("observedGeneration")) == ("True", generation)
        if not is_told or get_path(live, "spec", "suspend") is not True:
            return
        release = self._store.get(place_of(HELM_RELEASE), (str(ref.namespace), ref.name))
        holds = release is None or release.deleting or get_path(release.shared(), "spec", "suspend") is True
        self._check("REC-5", "a suspension is not told early", ref, holds, "its HelmRelease is not suspended")


def _is_confirmed(live: Manifest) -> bool:
    """Report whether Flux reports that it has deployed the present generation of a HelmRelease."""
    ready, generation = condition_of(live, "Ready"), live["metadata"]["generation"]
    is_current = ready.get("observedGeneration") == generation == get_path(live, "status", "observedGeneration")
    is_deployed = get_path(live, "status", "history", 0, "status") == "deployed"
    return ready.get("status") == "True" and is_current and not _is_stopped(live) and is_deployed


def _is_true(live: Manifest, condition: str) -> bool:
    return bool(condition_of(live, condition).get("status") == "True")


def _has_given_up(live: Manifest) -> bool:
    """Report whether Flux has given up the present generation of a HelmRelease, as its attempts have failed."""
    is_current = get_path(live, "status", "observedGeneration") == live["metadata"]["generation"]
    return is_current and not _is_stopped(live) and _is_true(live, "Stalled")


def _is_stopped(live: Manifest) -> bool:
    """Report whether a HelmRelease or an instance is being deleted, or is suspended."""
    return bool(metadata(live).get("deletionTimestamp")) or get_path(live, "spec", "suspend") is True


def _old_trouble(live: Manifest, owner: Manifest) -> bool:
    """Report whether an instance still tells trouble of a release that is confirmed now."""
    degraded = condition_of(owner, "Degraded")
    reasons = {"HelmReleaseFailed", "HelmReleaseDegraded", *(() if _is_true(live, "Drifted") else ["Drifted"])}
    is_degraded = degraded.get("status") == "True" and degraded.get("reason") in reasons
    return is_degraded or _is_true(owner, "Stalled") or _is_true(owner, "Reconciling")


def _is_held(owner: Manifest) -> bool:
    """Report whether something other than Flux decides what an instance says: a person, an Operation, or a gate."""
    return bool(_is_stopped(owner) or _is_true(owner, "Blocked") or get_path(owner, "status", "releaseOverride"))


def _is_of(live: Manifest, owner: Manifest) -> bool:
    """Report whether a confirmed HelmRelease is exactly what its instance `owner` wants."""
    meta = metadata(owner)
    retry = str(get_path(meta, "annotations", labels.RETRY) or "")
    is_handled = str(get_path(live, "status", "lastHandledResetAt") or "").startswith(retry)
    version = str(get_path(live, "status", "history", 0, "chartVersion")).partition("+")[0]
    is_wanted = version == get_path(owner, "spec", "chart", "version") and has_values(live, owner)
    return is_wanted and is_handled and labels.MANAGED_BY in (meta.get("labels") or {})
