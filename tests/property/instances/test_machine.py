"""An instance under attack: people, Flux, network and process do their worst in any order, and every clause holds.

After every pass the laws of `reconcile_oracle` are checked; at the end of every run the faults stop and people let go,
and the instance has to converge and then be silent (eventually stable reconciliation).
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kubelab.flux import Action, OutcomeKind, SourceFault
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import ABANDON, APPLIED_HASH
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, SECRET
from purekube.apimachinery.timestamps import format_time
from purekube.controller.decision import Requeue
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import Propagation
from tests.support import instance_oracle as oracle
from tests.support.attack import attack, in_chunks
from tests.support.instance_oracle import conditions_of, is_true
from tests.support.instance_turmoil import (
    CHART,
    DOWNSTREAM,
    GATE,
    SECRETS,
    TWIN,
    Interrupted,
    LiveRule,
    LiveSourceRule,
    Turmoil,
    cut_off,
    died,
    intent,
    strangers,
)
from tests.support.instance_worlds import CLUSTER
from tests.support.simulation import FRAGMENT, HELM, INSTANCE, NS, OCI, REPOSITORY
from vworkspace_core.api.application_instance import ReleaseOverride
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.labels import APPLICATION_INSTANCE, CLUSTER_ID, MANAGED_BY, RETRY
from vworkspace_core.api.release_override import is_overtaken, spec_hash

Edit: TypeAlias = tuple[ObjectRef, Mapping[str, Any]]

VERSIONS = ("6.5.0", "6.6.0", "6.7.0", "6.7.0+build.1")
FORBIDDEN_VERSION = "6.5.0"
SECRET_MATERIAL = {"source": "inline", "inline": {"adminPassword": "hunter2"}}
VALUES: tuple[Mapping[str, Any] | None, ...] = (
    None,
    {"source": "inline", "inline": {"replicas": 2}},
    {"source": "inline", "inline": {"replicas": 3, "ingress": {"class": "nginx", "enabled": False}}},
    {"source": "secretRef", "secretRef": {"name": "values-a", "key": "values.yaml"}},
    {"source": "secretRef", "secretRef": {"name": "values-b", "key": "values.yaml"}},
    {"source": "configMapRef", "configMapRef": {"name": "values-c", "key": "values.yaml"}},
)
INTEGRATIONS: tuple[Mapping[str, Any] | None, ...] = (
    None,
    {"ingress": {"enabled": True, "host": "cloud.example"}},
    {"certManager": {"enabled": True}, "externalSecrets": {"enabled": False}},
)
UNOWNED: tuple[Edit, ...] = (
    (HELM, {"metadata": {"annotations": {"team": "blue"}}}),
    (HELM, {"spec": {"commonMetadata": {"labels": {"team": "blue"}}}}),
    (HELM, {"spec": {"values": {"people": {"added": 1}}}}),
    (OCI, {"metadata": {"labels": {"team": "blue"}}}),
    (OCI, {"spec": {"ignore": "*.md"}}),
    (REPOSITORY, {"spec": {"timeout": "30s"}}),
)
OWNED: tuple[Edit, ...] = (
    (HELM, {"spec": {"interval": "1h"}}),
    (HELM, {"spec": {"values": {"replicas": 9}}}),
    (HELM, {"spec": {"values": None}}),
    (HELM, {"spec": {"maxHistory": None}}),
    (HELM, {"spec": {"upgrade": None}}),
    (HELM, {"metadata": {"ownerReferences": None}}),
    (HELM, {"metadata": {"labels": {MANAGED_BY: None}}}),
    (HELM, {"metadata": {"labels": {APPLICATION_INSTANCE: "mine"}}}),
    (HELM, {"metadata": {"annotations": {APPLIED_HASH: "mine"}}}),
    (OCI, {"spec": {"ref": {"tag": "6.6.0"}}}),
    (OCI, {"spec": {"url": "oci://elsewhere.example/charts/nextcloud"}}),
    (OCI, {"metadata": {"labels": None}}),
    (REPOSITORY, {"spec": {"interval": "1h"}}),
    (FRAGMENT, {"data": {"values.yaml": "{}"}}),
    (FRAGMENT, {"data": None}),
)
PATCHES: tuple[Mapping[str, Any] | None, ...] = (None, {"replicas": 7}, {"ingress": {"class": None, "size": "s"}})
STATUS_EDITS: tuple[Mapping[str, Any] | None, ...] = (
    None,
    {"conditions": None},
    {"observedGeneration": None, "helmReleaseRef": None},
    {"lastAppliedChart": {"version": "9.9.9"}},
    {"helmReleaseRef": {"name": "another", "namespace": NS}},
)


def _is_whole(result: ReconcileResult) -> bool:
    """Whether a pass came to its end: a decision that asks for backoff has an error to show for it."""
    return result.error is None or result.requeue is result.decision.requeue is Requeue.BACKOFF


FAILURES = (OutcomeKind.FAIL, OutcomeKind.FAIL, OutcomeKind.HANG, OutcomeKind.RENDER_ERROR, OutcomeKind.VALUES_ERROR)
FAULTS = (SourceFault.NOT_FOUND, SourceFault.UNAUTHORIZED, SourceFault.UNAVAILABLE, SourceFault.INVALID_URL)
COUNTS = st.sampled_from((1, 2, 5, None))
SECONDS = st.sampled_from((0, 1, 2, 5, 9, 15, 40, 90, 400))
RARELY = st.sampled_from((False, False, False, True))


def specs(**fixed: Any) -> st.SearchStrategy[dict[str, Any]]:
    """What the control plane may ask for."""
    parts: dict[str, st.SearchStrategy[Any]] = {
        "version": st.sampled_from(VERSIONS),
        "source_type": st.sampled_from(("oci", "oci", "helm")),
        "host": st.sampled_from(("one", "one", "two")),
        "chart": st.sampled_from(("nextcloud", "nextcloud", "nextcloud-slim")),
        "values": st.sampled_from(VALUES[:3] * 2 + VALUES),
        "integrations": st.sampled_from(INTEGRATIONS),
        "suspend": st.sampled_from((False,) * 5 + (True,)),
        "credentials": st.sampled_from((False,) * 5 + (True,)),
    }
    return st.fixed_dictionaries(parts | {key: st.just(value) for key, value in fixed.items()})


class ReconcileMachine(RuleBasedStateMachine):
    """One cluster, one instance that everybody works on, and at times a twin that wants the same names."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Turmoil()
        self.spec: dict[str, Any] = {}
        self.asked = 0
        self.copies: list[Manifest] = []
        self.known: dict[str, Manifest] = {}
        self.pardoned: set[str] = set()
        self.loose = False
        self.moment = 0
        self.disturbed_at = 0
        self.ready_at: dict[str, int] = {}
        self.lingering = False
        self.retries = 0
        self.retried_after = 0

    @initialize(
        spec=specs(),
        collects=st.sampled_from((True, True, True, False)),
        flux=st.sampled_from((True, True, True, True, False)),
        seconds=st.sampled_from((20, 20, 20, 4, 0)),
    )
    def begin(self, spec: dict[str, Any], collects: bool, flux: bool, seconds: float) -> None:
        self.world = Turmoil(with_flux=flux, collects=collects)
        self.world.on_pass = self._pass
        for name in SECRETS[::2]:
            self.world.put_secret(name, "a: 1")
        self._submit(spec)
        self.world.run(seconds)

    # --- the control plane ----------------------------------------------------------------------------------------

    def _disturb(self, *, lingering: bool = False) -> None:
        self.moment += 1
        self.disturbed_at = self.moment
        self.lingering = self.lingering or lingering

    def _submit(self, spec: Mapping[str, Any]) -> None:
        self._disturb()
        if self.world.try_submit(intent(**spec)):
            self.spec = dict(spec)
        asked, live = self.world.override, self.world.look(INSTANCE)
        if asked is not None and live is not None:
            new = read_application_instance(live).spec
            if is_overtaken(new, asked.spec_hash, asked.version, asked.values_patch):
                self.world.withdraw()  # it ends with SpecChanged

    @rule(spec=specs(), seconds=SECONDS)
    def submit_anything(self, spec: dict[str, Any], seconds: float) -> None:
        self._submit(spec)
        self.world.run(seconds)

    @rule(version=st.sampled_from(VERSIONS), seconds=SECONDS)
    def submit_another_version(self, version: str, seconds: float) -> None:
        self._submit({**self.spec, "version": version})
        self.world.run(seconds)

    @rule(
        field=st.sampled_from(("values", "integrations", "suspend", "source_type", "host", "chart", "credentials")),
        spec=specs(),
        seconds=SECONDS,
    )
    def submit_one_change(self, field: str, spec: dict[str, Any], seconds: float) -> None:
        self._submit({**self.spec, field: spec[field]})
        self.world.run(seconds)

    @rule(seconds=SECONDS, stays=RARELY)
    def submit_secret_material(self, seconds: float, stays: bool) -> None:
        before = self.spec
        self._submit({**self.spec, "values": SECRET_MATERIAL})
        self.world.run(seconds)
        if not stays:
            self._submit(before)

    @rule(spec=specs(), seconds=SECONDS, stays=st.booleans())
    def submit_a_twin(self, spec: dict[str, Any], seconds: float, stays: bool) -> None:
        self._disturb()
        self.world.try_submit(intent("twin", **spec))
        self.world.run(seconds)
        if not stays:
            self.world.try_remove(TWIN)

    # --- Operations -----------------------------------------------------------------------------------------------

    def _hash_of_the_spec(self) -> str:
        live = self.world.look(INSTANCE)
        return "" if live is None else spec_hash(read_application_instance(live).spec)

    @rule(version=st.sampled_from((None, *VERSIONS)), patch=st.sampled_from(PATCHES), seconds=SECONDS)
    def an_operation_asks_for_more(self, version: str | None, patch: Mapping[str, Any] | None, seconds: float) -> None:
        self._disturb()
        self.asked += 1
        name, uid, spec = f"up-{self.asked}", f"uid-{self.asked}", self._hash_of_the_spec()
        self.world.override = ReleaseOverride(name, uid, spec, version, patch)
        self.world.run(seconds)

    @rule()
    def the_operation_fails_or_is_cancelled(self) -> None:
        self._disturb()
        self.world.withdraw()

    @rule()
    def the_operation_is_deleted(self) -> None:
        self._disturb()
        self.world.override = None

    # --- people ---------------------------------------------------------------------------------------------------

    @rule(status=st.sampled_from(STATUS_EDITS), seconds=SECONDS, stays=RARELY)
    def people_edit_our_status(self, status: Mapping[str, Any] | None, seconds: float, stays: bool) -> None:
        self._disturb()
        if self.world.look(INSTANCE) is None:
            return
        with suppress(Invalid):  # half a chart where there was none is refused
            self.world.patch_status(INSTANCE, status)
        self.world.run(seconds)
        if not stays:
            self._disturb()
            self.world.let_go_of_status()

    @rule(edit=st.sampled_from(UNOWNED), manager=st.sampled_from(("kubectl-edit", "team")))
    def people_add_fields(self, edit: Edit, manager: str) -> None:
        self._disturb()
        self.world.try_edit(edit[0], edit[1], manager=manager)

    @rule(edit=st.sampled_from(OWNED), manager=st.sampled_from(("kubectl-edit", "team")), seconds=SECONDS)
    def people_change_our_fields(self, edit: Edit, manager: str, seconds: float) -> None:
        self._disturb()
        self.world.try_edit(edit[0], edit[1], manager=manager)
        self.world.run(seconds)

    @rule(version=st.sampled_from(VERSIONS))
    def people_change_the_version_of_the_helm_release(self, version: str) -> None:
        self._disturb()
        if get_path(self.world.look(HELM), "spec", "chart"):
            self.world.try_edit(HELM, {"spec": {"chart": {"spec": {"version": version}}}})

    @rule()
    def people_hand_back(self) -> None:
        self._disturb()
        self.world.hand_back()

    @rule(suspend=st.sampled_from((True, None)), ref=st.sampled_from((HELM, HELM, OCI, REPOSITORY)))
    def people_suspend_or_resume(self, suspend: bool | None, ref: ObjectRef) -> None:
        self._disturb()
        self.world.try_edit(ref, {"spec": {"suspend": suspend}}, manager="flux")
        if ref == HELM and suspend and get_path(self.world.look(ref), "metadata", "deletionTimestamp"):
            self.loose = True

    @rule()
    def people_run_flux_reconcile(self) -> None:
        self._disturb()
        token = format_time(self.world.now)
        self.world.try_edit(
            HELM, {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": token}}}, manager="flux"
        )

    @rule(ref=st.sampled_from((HELM, HELM, OCI, REPOSITORY, FRAGMENT)))
    def people_delete(self, ref: ObjectRef) -> None:
        self._disturb()
        if ref == HELM and get_path(self.world.look(HELM), "spec", "suspend"):
            self.loose = True  # Flux skips the uninstall of what is suspended
        self.world.try_remove(ref)

    @rule()
    def people_ask_for_a_retry(self) -> None:
        self._disturb()
        self.retries += 1
        if self.world.try_edit(INSTANCE, {"metadata": {"annotations": {RETRY: f"token-{self.retries}"}}}):
            self.retried_after = len(self.world.attempts)

    @rule(name=st.sampled_from((*SECRETS, "values-c")), content=st.sampled_from(("a: 1", "a: 2", None)))
    def people_change_the_values(self, name: str, content: str | None) -> None:
        self._disturb(lingering=True)
        kind = CONFIG_MAP if name == "values-c" else SECRET
        if content is None:
            self.world.try_remove(ObjectRef(kind, NS, name))
        elif kind == SECRET:
            self.world.put_secret(name, content)
        else:
            self._put_config_map(content)

    def _put_config_map(self, content: str) -> None:
        body = {**CONFIG_MAP.manifest("values-c", NS), "data": {"values.yaml": content}}
        run_sync(self.world.admin.apply(body, kind=CONFIG_MAP, field_manager="people", force=True))

    @rule(stays=st.booleans(), seconds=SECONDS, ref=st.sampled_from((FRAGMENT, HELM)))
    def people_make_things_of_that_name(self, stays: bool, seconds: float, ref: ObjectRef) -> None:
        self._disturb()
        if not self.world.serves(ref.kind) or ref in self.world.everything(ref.kind):
            return
        theirs = {"interval": "1h", "chartRef": {"kind": "OCIRepository", "name": "theirs"}}
        body = {**ref.kind.manifest(ref.name, NS), **({"spec": theirs} if ref == HELM else {"data": {"theirs": "yes"}})}
        made = run_sync(self.world.admin.create(body, kind=ref.kind, field_manager="kubectl-create"))
        self.world.run(seconds)
        found = self.world.everything(ref.kind).get(ref)
        assert get_path(found, "metadata", "uid") == made["metadata"]["uid"], f"REC-4: {ref} is not theirs any more"
        if not stays:
            self._disturb()
            self.world.try_remove(ref)

    @rule(finalizers=st.sampled_from((["example.com/theirs"], None)))
    def people_add_or_remove_a_finalizer_of_theirs(self, finalizers: list[str] | None) -> None:
        self._disturb()
        live = self.world.look(INSTANCE)
        if live is None or (finalizers and get_path(live, "metadata", "deletionTimestamp")):
            return
        kept = [
            finalizer
            for finalizer in live["metadata"].get("finalizers") or ()
            if not finalizer.startswith("example.com/")
        ]
        self.world.try_edit(INSTANCE, {"metadata": {"finalizers": kept + (finalizers or [])}})

    @rule(seconds=SECONDS, stays=RARELY)
    def people_close_the_gate(self, seconds: float, stays: bool) -> None:
        self._disturb()
        self.world.edit(GATE, {"metadata": {"labels": {"managed-by": None}}})
        self.world.run(seconds)
        if not stays:
            self.people_open_the_gate()

    @rule()
    def people_open_the_gate(self) -> None:
        self._disturb()
        self.world.edit(GATE, {"metadata": {"labels": {"managed-by": "vworkspace"}}})

    @rule(
        label=st.sampled_from((CLUSTER_ID, MANAGED_BY)),
        value=st.sampled_from((None, "another")),
        seconds=SECONDS,
        stays=RARELY,
    )
    def people_change_a_label_of_the_instance(self, label: str, value: str | None, seconds: float, stays: bool) -> None:
        self._disturb()
        self.world.try_edit(INSTANCE, {"metadata": {"labels": {label: value}}})
        self.world.run(seconds)
        if not stays:
            self._right_labels()

    def _right_labels(self) -> None:
        self._disturb()
        for ref in (INSTANCE, TWIN):
            self.world.try_edit(ref, {"metadata": {"labels": {CLUSTER_ID: CLUSTER, MANAGED_BY: "control-plane"}}})

    @rule(seconds=SECONDS, stays=RARELY)
    def people_forbid_a_version(self, seconds: float, stays: bool) -> None:
        self._disturb()
        self._policy(FORBIDDEN_VERSION)
        self.world.run(seconds)
        if not stays:
            self._policy()

    def _policy(self, *forbidden: str) -> None:
        self.world.settings = attrs.evolve(self.world.settings, policy=Policy(forbidden_versions=forbidden))

    @rule()
    def another_controller_sets_its_condition(self) -> None:
        self._disturb()
        live = self.world.look(INSTANCE)
        if live is not None:
            condition = {"type": "Backup", "status": "True", "reason": "Done", "message": format_time(self.world.now)}
            condition["lastTransitionTime"] = format_time(self.world.now)
            body = {**INSTANCE.kind.manifest(INSTANCE.name, NS), "status": {"conditions": [condition]}}
            run_sync(self.world.admin.apply_status(body, kind=INSTANCE.kind, field_manager="backup"))

    # --- deletion -------------------------------------------------------------------------------------------------

    @rule(
        how=st.sampled_from((Propagation.BACKGROUND, Propagation.FOREGROUND, Propagation.ORPHAN)),
        ref=st.sampled_from((INSTANCE, INSTANCE, INSTANCE, TWIN)),
        seconds=SECONDS,
    )
    def people_delete_the_instance(self, how: Propagation, ref: ObjectRef, seconds: float) -> None:
        self._disturb()
        live = self.world.look(ref)
        if live is None:
            return
        suspended = get_path(self.world.look(HELM), "spec", "suspend") is True
        if how is Propagation.ORPHAN or (how is Propagation.FOREGROUND and suspended):
            # The garbage collector may delete a suspended release before anybody can resume it.
            self.pardoned.add(live["metadata"]["uid"])
        self.world.try_remove(ref, how)
        self.world.run(seconds)

    @rule(ref=st.sampled_from((INSTANCE, TWIN)))
    def people_abandon(self, ref: ObjectRef) -> None:
        live = self.world.look(ref)
        if live is not None and get_path(live, "metadata", "deletionTimestamp"):
            self._disturb()
            self.pardoned.add(live["metadata"]["uid"])
            self.world.try_edit(ref, {"metadata": {"annotations": {ABANDON: "true"}}})

    @rule()
    def the_garbage_collector_comes_by(self) -> None:
        self._disturb()
        self.world.server.run_gc()

    # --- Flux -----------------------------------------------------------------------------------------------------

    @rule(
        action=st.sampled_from((Action.INSTALL, Action.UPGRADE, Action.UPGRADE, Action.ROLLBACK, Action.UNINSTALL)),
        kind=st.sampled_from(FAILURES),
        times=COUNTS,
        version=st.sampled_from((None, *VERSIONS[:3])),
    )
    def flux_is_going_to_fail(self, action: Action, kind: OutcomeKind, times: int | None, version: str | None) -> None:
        self._disturb(lingering=True)
        self.world.rules.append(LiveRule(self.world, action, kind, times, version))
        self.world.script()

    @rule(
        kind=st.sampled_from(FAILURES),
        times=COUNTS,
        version=st.sampled_from(VERSIONS),
        following=st.sampled_from((*VERSIONS, None)),
        seconds=SECONDS,
        more=SECONDS,
    )
    def an_upgrade_goes_wrong(
        self, kind: OutcomeKind, times: int | None, version: str, following: str | None, seconds: float, more: float
    ) -> None:
        for action in (Action.INSTALL, Action.UPGRADE):
            self.flux_is_going_to_fail(action, kind, times, version.partition("+")[0])
        self._submit({**self.spec, "version": version, "suspend": False})
        self.world.run(seconds)
        self._submit({**self.spec, "version": following} if following else {**self.spec, "values": None})
        self.world.run(more)

    @rule(fault=st.sampled_from(FAULTS), times=COUNTS, version=st.sampled_from((None, *VERSIONS[:3])), seconds=SECONDS)
    def a_registry_is_going_to_fail(
        self, fault: SourceFault, times: int | None, version: str | None, seconds: float
    ) -> None:
        self._disturb(lingering=True)
        self.world.source_rules.append(LiveSourceRule(self.world, fault, times, version))
        self.world.script()
        if version is not None:
            self._submit({**self.spec, "version": version})
        self.world.run(seconds)

    @rule(version=st.sampled_from(VERSIONS[:3]), host=st.sampled_from(("one", "two")))
    def the_same_tag_is_pushed_again(self, version: str, host: str) -> None:
        self._disturb(lingering=True)
        self.moment += 1
        self.world.moved_tags[f"oci://{host}.example/charts/nextcloud:{version}"] = f"push {self.moment}"
        self.world.script()

    @rule(drifted=st.booleans())
    def people_change_the_workload(self, drifted: bool) -> None:
        self._disturb(lingering=True)
        self.world.drifted = drifted
        self.world.script()

    @rule(stuck=st.booleans())
    def flux_loses_ready(self, stuck: bool) -> None:
        self._disturb(lingering=True)
        self.world.stuck_unknown = stuck
        self.world.script()

    @rule()
    def flux_and_registries_recover(self) -> None:
        self.world.behave()

    @rule()
    def flux_crashes(self) -> None:
        self._disturb(lingering=True)
        pending = [release for release in oracle.releases(self.world) if release.status.pending]
        self.loose = self.loose or bool(pending)  # Flux forgets what it was installing
        self.world.flux.crash()

    def _definitions(self) -> list[tuple[ObjectRef, Manifest]]:
        return [(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, crd["metadata"]["name"]), crd) for crd in flux_crds()]

    @precondition(lambda self: any(self.world.look(ref) is None for ref, _ in self._definitions()))
    @rule()
    def flux_arrives(self) -> None:
        self._disturb(lingering=True)
        for ref, crd in self._definitions():
            if self.world.look(ref) is None:
                self.world.create_definition(crd)

    @rule(whole=st.booleans(), seconds=SECONDS, stays=RARELY)
    def flux_is_removed(self, whole: bool, seconds: float, stays: bool) -> None:
        self._disturb(lingering=True)
        self.loose = True  # definitions take their objects with them, in no order
        for ref, _ in self._definitions():
            if whole or ref.name == HELM_RELEASE.crd_name:
                self.world.try_remove(ref)
        self.world.run(seconds)
        if not stays:
            self.flux_arrives()

    # --- the operator ---------------------------------------------------------------------------------------------

    @rule(
        kinds=st.sets(st.sampled_from(("helmreleases", "ocirepositories", "helmrepositories", "configmaps"))),
        version=st.sampled_from(VERSIONS),
        seconds=SECONDS,
        stays=RARELY,
    )
    def permissions_are_missing(self, kinds: set[str], version: str, seconds: float, stays: bool) -> None:
        self.world.forbidden = kinds
        self._submit({**self.spec, "version": version})
        self.world.run(seconds)
        if not stays:
            self._disturb()
            self.world.forbidden = set()

    @rule(ref=st.sampled_from((INSTANCE, INSTANCE, INSTANCE, TWIN)))
    def reconcile(self, ref: ObjectRef) -> None:
        self._pass(ref)

    @rule(age=st.integers(0, 12))
    def reconcile_a_stale_copy(self, age: int) -> None:
        if self.copies:
            self._pass(INSTANCE, stale=self.copies[-1 - age % len(self.copies)])

    @rule(
        calls=st.integers(0, 14),
        happens=st.booleans(),
        lasting=st.booleans(),
        error=st.sampled_from((cut_off, died)),
        ref=st.sampled_from((INSTANCE, INSTANCE, INSTANCE, TWIN)),
        change=st.none() | specs(),
    )
    def reconcile_and_fail_at_some_call(
        self, calls: int, happens: bool, lasting: bool, error: Any, ref: ObjectRef, change: dict[str, Any] | None
    ) -> None:
        if change is not None:
            self._submit(change)
        self._pass(ref, face=Interrupted(calls, happens, error, lasting))

    @rule(waits=st.booleans())
    def other_keys_wait(self, waits: bool) -> None:
        self.world.is_backlogged = waits

    @rule(seconds=st.sampled_from((0, 0.5, 1, 2, 5, 10)))
    def flux_works(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(seconds=st.sampled_from((0, 1, 3, 8, 16, 61, 200, 400)))
    def everybody_works(self, seconds: float) -> None:
        self.world.run(seconds)

    @rule()
    def an_hour_passes_at_once(self) -> None:
        self.world.pass_time(3600)

    # --- what is checked around every pass ------------------------------------------------------------------------

    def _pass(
        self, ref: ObjectRef, *, stale: Manifest | None = None, face: Interrupted | None = None
    ) -> ReconcileResult | None:
        world, live = self.world, self.world.look(ref)
        source = stale or live
        if source is None:
            return None
        self.moment += 1
        before, version = oracle.take(world), world.server.store.version
        result = world.interrupted(ref, face) if face is not None else world.reconcile(ref, stale)
        if stale is not None and stale["metadata"]["resourceVersion"] != get_path(live, "metadata", "resourceVersion"):
            assert world.server.store.version == version, "REC-7: a stale copy of the source led to a write"
            return result
        after = oracle.take(world)
        oracle.check_others(before, after, source)
        oracle.check_finalizers(after, self.pardoned)
        whole = face is None and result is not None and _is_whole(result)
        if ref in after and after[ref]["metadata"]["uid"] == source["metadata"]["uid"]:
            self._check_instance(source, after[ref], whole=whole)
        if whole:
            self._check_fixed_point(ref)
        return result

    def _check_instance(self, before: Manifest, after: Manifest, *, whole: bool) -> None:
        oracle.check_status(after)
        oracle.check_succession(before, after, format_time(self.world.now))
        oracle.check_label(after, CLUSTER, before)
        oracle.check_failures(self.world, before, after, self.retried_after)
        if whole and oracle.claims_ready(after):
            oracle.check_confirmed(self.world, after)
            self.loose = False
        self._check_no_flap(before, after)

    def _check_no_flap(self, before: Manifest, after: Manifest) -> None:
        """Ready goes only for a change of intent, a failure of Flux, or something that people did."""
        uid, was, now = after["metadata"]["uid"], is_true(before, "Ready"), is_true(after, "Ready")
        if now and not was:
            self.ready_at[uid] = self.moment
        if was and not now:
            changed = conditions_of(before)["Ready"]["observedGeneration"] != after["metadata"]["generation"]
            excused = changed or self.lingering or self.disturbed_at > self.ready_at.get(uid, 0)
            assert excused, f"REC-5: Ready went without a cause: {conditions_of(after)['Ready']}"

    def _check_fixed_point(self, ref: ObjectRef) -> None:
        """Reconciling once more, with nothing moving, writes nothing (REC-6 c), but a status that was left to it."""
        if self.world.is_backlogged and (postponed := self.world.reconcile(ref)) is not None:
            assert postponed.writes == (1 if postponed.status else 0), f"REC-6: {postponed.executed}"
        version, told = self.world.server.store.version, len(self.world.events.events)
        again = self.world.reconcile(ref)
        assert again is None or again.writes == 0, f"REC-6: the second pass wrote {again.written}"
        assert self.world.server.store.version == version, "REC-6: the second pass changed something"
        assert len(self.world.events.events) == told, "REC-6: the second pass told something"

    # --- what is checked after every step -------------------------------------------------------------------------

    @invariant()
    def no_event_shows_a_secret_RES_7(self) -> None:
        for event in self.world.events.events:
            assert "hunter2" not in event.note, f"RES-7: {event}"
        self.world.events.events.clear()

    @invariant()
    def the_instance_is_watched(self) -> None:
        found = self.world.everything(INSTANCE.kind)
        live = {manifest["metadata"]["uid"]: manifest for manifest in found.values()}
        for uid in self.known.keys() - live.keys():
            gone = self.known.pop(uid)
            if gone["metadata"]["name"] == INSTANCE.name:
                self.world.withdraw()
            self._check_nothing_left(gone)
        self.known.update(live)
        copy = found.get(INSTANCE)
        if copy is not None and (not self.copies or self.copies[-1] != copy):
            self.copies.append(copy)

    def _check_nothing_left(self, gone: Manifest) -> None:
        """Deletion leaves no workload behind, unless somebody asked for just that (REC-10)."""
        uid, name = gone["metadata"]["uid"], gone["metadata"]["name"]
        release = self.world.look(HELM)
        if uid in self.pardoned:
            self.loose = self.loose or bool(self.world.flux.workloads)  # none of those that come after is to blame
        if uid in self.pardoned or self.loose:
            return
        left = [
            ref
            for ref, manifest in self.world.everything(*DOWNSTREAM).items()
            if oracle.controller_uid(manifest) == uid and not get_path(manifest, "metadata", "deletionTimestamp")
        ]
        assert not left, f"REC-10: {name} is gone, {left} are not"
        assert release is not None or not self.world.flux.workloads, f"REC-10: {name} left {self.world.flux.workloads}"

    # --- liveness -------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if sys.exc_info()[0] is None and self.spec:
            self._heal()
            self._converge()
            self._rest()

    def _heal(self) -> None:
        """Faults stop, and people let go of everything."""
        world = self.world
        self._disturb(lingering=True)
        world.behave()
        world.let_go_of_status()
        self._until(self._has_flux, "Flux does not come")
        self.people_open_the_gate()
        self._policy()
        for name in SECRETS:
            world.put_secret(name, "a: 1")
        self._put_config_map("a: 1")
        world.try_remove(TWIN)
        self._right_labels()
        self.people_add_or_remove_a_finalizer_of_theirs(None)
        world.server.run_gc()
        self._until(lambda: world.look(TWIN) is None, "the twin does not go")
        if get_path(world.look(INSTANCE), "metadata", "deletionTimestamp"):
            self._until(lambda: world.look(INSTANCE) is None, "the deleted instance does not go")
        self.the_instance_is_watched()
        if world.look(INSTANCE) is None:
            self._submit({**self.spec, "values": None})
        uid = get_path(world.look(INSTANCE), "metadata", "uid")
        for ref in [*strangers(world, {uid})]:
            world.try_remove(ref)
        for ref in (HELM, OCI, REPOSITORY):
            if not (ref == HELM and get_path(world.look(INSTANCE), "spec", "suspend")):
                world.try_edit(ref, {"spec": {"suspend": None}}, manager="flux")

    def _has_flux(self) -> bool:
        """Definitions that are on their way out make room for new ones once their objects have gone."""
        self.flux_arrives()
        return not any(
            get_path(self.world.look(ref), "metadata", "deletionTimestamp") for ref, _ in self._definitions()
        )

    def _until(self, holds: Any, told: str, *, minutes: int = 150) -> None:
        self.world.run(1)
        for _ in range(minutes):
            if holds():
                return
            self.world.run(60)
            self.world.server.run_gc()
            self.the_instance_is_watched()
        raise AssertionError(f"{told}: {self._told()}")

    def _told(self) -> str:
        """What everybody says of the instance, for the message of a failed run."""
        lines = []
        for ref in (INSTANCE, TWIN, HELM, OCI, REPOSITORY):
            live = self.world.look(ref)
            for one in get_path(live, "status", "conditions") or ():
                about = f"generation {one.get('observedGeneration')} of {get_path(live, 'metadata', 'generation')}"
                lines.append(f"{ref}, {about}: {one['type']}={one['status']}/{one['reason']}: {one['message'][:300]}")
        return "\n".join(lines)

    def _converge(self) -> None:
        """Ready=True of the present spec, within bounded time (ESR), or terminal when the spec is broken (REC-13)."""
        world = self.world
        self.world.run(130)
        world.take_over()
        self.world.run(70)
        for _ in range(8):
            if not world.hand_back():
                break
            world.run(70)
        assert world.condition(INSTANCE, "Blocked") != ("True", "FieldConflict"), world.message(INSTANCE, "Blocked")
        if self.spec["values"] is SECRET_MATERIAL and get_path(world.look(INSTANCE), "spec", "values", "inline"):
            self._until(lambda: is_true(world.look(INSTANCE), "Stalled"), "a broken spec is not told")
            assert world.condition(INSTANCE, "Blocked") == ("True", "ValidationFailed")
            return
        if get_path(world.look(INSTANCE), "spec", "suspend"):
            self._until(lambda: is_true(world.look(INSTANCE), "Suspended"), "the suspension is not told")
            self._submit({**self.spec, "suspend": False})
            world.run(1)
            world.try_edit(HELM, {"spec": {"suspend": None}}, manager="flux")
        self._until(self._is_settled, "neither ready nor stalled")
        if is_true(world.look(INSTANCE), "Stalled"):
            origins = (OCI, REPOSITORY, CHART)
            told = [ref for ref in (HELM, *origins) if is_true(world.look(ref), "Stalled")]
            assert told, f"REC-13: stalled, though Flux is not: {self._told()}"
            for ref in origins:
                annotations = {"reconcile.fluxcd.io/requestedAt": format_time(world.now)}
                world.try_edit(ref, {"metadata": {"annotations": annotations}}, manager="flux")
            self.people_ask_for_a_retry()
            world.run(1)
            self._until(lambda: oracle.claims_ready(world.look(INSTANCE)), "a retry does not help")
        instance = world.look(INSTANCE)
        assert instance is not None
        oracle.check_confirmed(world, instance)

    def _is_settled(self) -> bool:
        instance = self.world.look(INSTANCE)
        return oracle.claims_ready(instance) or is_true(instance, "Stalled")

    def _rest(self) -> None:
        """Nothing is written any more, whatever Flux does at its intervals."""
        world = self.world
        world.run(700)
        world.server.audit.clear()
        world.on_pass = world.reconcile
        world.run(3600)
        writes = [entry.path for entry in world.server.audit.writes(user=world.operator.user)]
        assert not writes, f"REC-6: writes in the steady state: {writes}"


@in_chunks(4, at_once=2)
def test_an_instance_under_attack(chunk: int, runs: int) -> None:
    attack(ReconcileMachine, chunk, runs, steps=40)


PLAIN: dict[str, Any] = {
    "version": "6.6.0",
    "source_type": "helm",
    "host": "one",
    "chart": "nextcloud",
    "values": None,
    "integrations": None,
    "suspend": False,
    "credentials": False,
}


@contextmanager
def life(*, collects: bool = False, seconds: float = 20, **spec: Any) -> Iterator[ReconcileMachine]:
    """One life of an instance that somebody found, told step by step, with the end that every life has."""
    machine = ReconcileMachine()
    machine.begin({**PLAIN, **spec}, collects=collects, flux=True, seconds=seconds)
    yield machine
    machine.teardown()


@pytest.mark.slow
def test_a_flux_reconcile_by_hand_while_suspended_does_not_stand_in_the_way_of_a_retry() -> None:
    """`--hypothesis-seed=277421029824638537148037158647815052323` found it: Blocked=FieldConflict for good."""
    with life(suspend=True) as machine:
        machine.people_run_flux_reconcile()
        machine.people_ask_for_a_retry()
        machine.world.run(40)


@pytest.mark.slow
def test_what_was_orphaned_is_taken_up_by_the_next_instance_of_its_name_REC_4() -> None:
    """`SEED=12347583254591155987` found it: the oracle forbade what decision 88 says."""
    with life() as machine:
        machine.people_delete_the_instance(Propagation.ORPHAN, INSTANCE, 1)
        machine.the_garbage_collector_comes_by()
        machine.the_instance_is_watched()
        release = machine.world.look(HELM)
        machine.submit_anything({**PLAIN, "version": "6.7.0"}, 40)
        assert get_path(machine.world.look(HELM), "metadata", "uid") == get_path(release, "metadata", "uid")


@pytest.mark.slow
def test_what_was_orphaned_is_not_taken_up_by_a_twin_that_wants_its_release_REC_4() -> None:
    """`SEED=12347583254591155987` found it, too: with a twin in wait for the release."""
    with life() as machine:
        machine.submit_a_twin(PLAIN, 5, stays=True)
        machine.people_delete_the_instance(Propagation.ORPHAN, INSTANCE, 1)
        machine.the_garbage_collector_comes_by()
        machine.the_instance_is_watched()
        release = machine.world.look(HELM)
        machine.everybody_works(61)
        assert machine.world.look(HELM) == release
        assert machine.world.condition(TWIN, "Blocked") == ("True", "NameTaken")
        machine.submit_anything({**PLAIN, "version": "6.7.0"}, 40)
        assert get_path(machine.world.look(HELM), "metadata", "uid") == get_path(release, "metadata", "uid")


@pytest.mark.slow
def test_a_right_that_comes_back_is_noticed_without_a_change_REC_13() -> None:
    """`SEED=12347583254591155987` found it: the world of these tests did not come back to what was refused."""
    with life(source_type="oci") as machine:
        machine.a_registry_is_going_to_fail(SourceFault.INVALID_URL, 1, "6.7.0", 15)
        machine.permissions_are_missing({"helmreleases", "ocirepositories"}, "6.6.0", 15, stays=False)


@pytest.mark.slow
def test_a_failure_belongs_to_the_source_that_was_pulled_REC_5() -> None:
    """`SEED=2411230005` found it: the oracle took the source of the former version for the one that was pulled."""
    with life(source_type="oci", values=None, credentials=False) as machine:
        machine.a_registry_is_going_to_fail(SourceFault.NOT_FOUND, 1, "6.6.0", 40)
        machine.permissions_are_missing({"helmreleases", "ocirepositories"}, "6.5.0", 0, stays=False)
        machine.an_hour_passes_at_once()
        machine.people_delete(HELM)
        machine.a_registry_is_going_to_fail(SourceFault.INVALID_URL, 1, None, 0)
        machine.an_hour_passes_at_once()


@pytest.mark.slow
def test_an_abandoned_instance_that_is_deleted_in_the_foreground_ends_REC_4() -> None:
    """`SEED=2405` found it: the oracle took what the garbage collector did within a pass for the operator's deed."""
    with life(collects=True) as machine:
        machine.people_delete_the_instance(Propagation.FOREGROUND, INSTANCE, 1)
        machine.people_abandon(INSTANCE)
        machine.everybody_works(61)
        assert machine.world.look(INSTANCE) is None


@pytest.mark.slow
def test_an_operation_takes_up_the_source_that_an_instance_before_left_REC_9() -> None:
    """`SEED=2405` found it: the world of these tests did not look for the source of the version that is asked for."""
    with life(collects=True, seconds=0, source_type="oci", version="6.7.0") as machine:
        machine.an_hour_passes_at_once()
        machine.people_delete_the_instance(Propagation.ORPHAN, INSTANCE, 0)
        machine.flux_is_removed(seconds=0, stays=False, whole=False)
        machine.permissions_are_missing(set(), "6.5.0", 0, stays=False)
        machine.an_hour_passes_at_once()
        machine.an_operation_asks_for_more("6.7.0", None, 0)


@pytest.mark.slow
def test_a_chart_that_was_not_fetched_is_not_the_one_before_REC_5() -> None:
    """`SEED=2811280001` found it: a retry lifts Stalled from the HelmChart, and Flux reports on its former artifact.

    Both versions differ in build metadata alone.
    """
    with life(version="6.5.0", source_type="helm", collects=True, seconds=20) as machine:
        machine.a_registry_is_going_to_fail(SourceFault.NOT_FOUND, 5, "6.7.0", 0)
        machine.an_upgrade_goes_wrong(OutcomeKind.RENDER_ERROR, None, "6.7.0+build.1", "6.7.0", 9, 0)


@pytest.mark.slow
def test_an_operation_on_a_deleted_instance_asks_nothing_of_its_twin_REC_9() -> None:
    """`SEED=2403` found it: the oracle held the twin of the same intent to the Operation."""
    with life(source_type="oci") as machine:
        machine.an_operation_asks_for_more(None, None, 0)
        machine.submit_a_twin({**PLAIN, "source_type": "oci"}, 0, stays=True)
        machine.people_delete_the_instance(Propagation.BACKGROUND, INSTANCE, 400)
        assert machine.world.condition(TWIN, "Ready") == ("True", "HelmReleaseReady")


@pytest.mark.slow
def test_a_source_that_is_not_ready_is_not_blamed_with_words_about_the_chart_before_REC_5() -> None:
    """`SEED=2811280001` found it: helm-controller repeats the HelmChart's report on the version wanted before."""
    slim = {
        **PLAIN,
        "version": "6.7.0",
        "chart": "nextcloud-slim",
        "integrations": {"ingress": {"enabled": True, "host": "cloud.example"}},
        "values": {"source": "secretRef", "secretRef": {"name": "values-a", "key": "values.yaml"}},
    }
    with life(version="6.5.0", source_type="oci", collects=True, seconds=20) as machine:
        machine.a_registry_is_going_to_fail(SourceFault.UNAUTHORIZED, None, "6.7.0", 0)
        machine.submit_anything(slim, 9)
        machine.people_change_our_fields((HELM, {"spec": {"upgrade": None}}), "team", 9)
        machine.people_delete(REPOSITORY)
        machine.an_upgrade_goes_wrong(OutcomeKind.RENDER_ERROR, 1, "6.6.0", None, 90, 2)


@pytest.mark.slow
def test_a_suspended_release_that_may_not_be_resumed_is_not_deleted_yet_REC_10() -> None:
    """`SEED=2811281003` found it: its delete went ahead, Flux skipped the uninstall, and the application was left."""
    with life(version="6.5.0", source_type="oci", collects=True) as machine:
        machine.permissions_are_missing({"helmreleases", "ocirepositories"}, "6.7.0", 1, stays=True)
        machine.people_suspend_or_resume(True, HELM)
        machine.people_delete_the_instance(Propagation.BACKGROUND, INSTANCE, 2)
        assert machine.world.look(HELM) is not None
        assert "patch" in (machine.world.message(INSTANCE, "Deleting") or "")
