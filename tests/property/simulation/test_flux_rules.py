"""The small rules under the simulated Flux: durations, versions, conditions, patches, Helm's records."""

import base64
import gzip
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from json import dumps
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.flux.artifacts import chart_version_of_tag, sha256_of, short_release_name, with_digest_metadata
from kubelab.flux.behaviour import (
    Action,
    ChartHook,
    FluxBehaviour,
    FluxOutcome,
    HelmTarget,
    OutcomeKind,
    PullRequest,
    PullStage,
    ReleaseRule,
    SourceFault,
    SourceOutcome,
    SourceRule,
)
from kubelab.flux.conditions import merge_conditions, summarize, with_condition
from kubelab.flux.draft import conditions_patch, metadata_patch, status_patch
from kubelab.flux.release_history import observe, previous, record, snapshot, truncate
from kubelab.flux.rule_script import Script
from kubelab.flux.storage import (
    HelmReleaseStatus,
    StoredRelease,
    prune,
    readable_releases,
    release_from_secret,
    release_secret,
    replace,
)
from kubelab.flux.triggers import FluxObjects, triggered
from purekube.apimachinery.durations import go_duration, seconds_of
from purekube.apimachinery.manifest import ObjectRef, patch_between
from purekube.apimachinery.resources import CONFIG_MAP, HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (1.5, "1.5s"), (30, "30s"), (300, "5m0s"), (3600, "1h0m0s"), (3725.5, "1h2m5.5s")],
)
def test_durations_read_as_go_prints_them(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**9))
def test_a_printed_duration_reads_back_as_itself(millis: int) -> None:
    assert round(seconds_of(go_duration(millis / 1000)) * 1000) == millis


@pytest.mark.parametrize("text", ["", "5", "m5", "5 m", "5m!", "1d"])
def test_what_the_crds_pattern_refuses_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("6.6.0", "6.6.0+3f2a00000000"),
        ("6.6.0+build.7", "6.6.0+3f2a00000000"),
        ("6.6.0-rc.1+x", "6.6.0-rc.1+3f2a00000000"),
        ("v1.2", "1.2.0+3f2a00000000"),
    ],
)
def test_build_metadata_is_replaced_by_twelve_digits_of_the_digest(version: str, expected: str) -> None:
    assert with_digest_metadata(version, "sha256:3f2a" + "0" * 60) == expected


def test_a_tag_writes_the_plus_of_its_version_as_underscore_REC_3() -> None:
    assert chart_version_of_tag("6.6.0_build.7") == "6.6.0+build.7"
    assert chart_version_of_tag("latest") == "0.1.0"


@given(st.text("abc-", min_size=1, max_size=120))
def test_release_names_fit_helms_limit_and_stay_apart(name: str) -> None:
    short = short_release_name(name)
    assert len(short) <= 53
    assert short == name or (short != short_release_name(name + "x") and short.startswith(name[:40]))


def _condition(type_: str, status: str, reason: str = "R", message: str = "m") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def test_a_condition_keeps_its_time_while_its_state_stays_and_takes_the_generation_anyway() -> None:
    first = with_condition([], _condition("Ready", "True"), generation=1, now=NOW)
    same = with_condition(first, _condition("Ready", "True"), generation=2, now=LATER)
    assert same == [{**first[0], "observedGeneration": 2}]
    reworded = with_condition(first, _condition("Ready", "True", message="other"), generation=2, now=LATER)
    assert reworded[0]["lastTransitionTime"] == "2026-01-01T00:05:00Z"


_TYPES = st.sampled_from(["Ready", "Reconciling", "Stalled", "Released", "Remediated", "Drifted"])
_CHANGES = st.lists(st.tuples(_TYPES, st.sampled_from(["True", "False", "Unknown"]), st.integers(1, 4)), max_size=12)


@given(_CHANGES)
def test_conditions_are_unique_and_sorted_as_flux_sorts_them(changes: list[tuple[str, str, int]]) -> None:
    conditions: list[Any] = []
    for type_, status, generation in changes:
        conditions = with_condition(conditions, _condition(type_, status), generation=generation, now=NOW)
    types = [item["type"] for item in conditions]
    assert len(types) == len(set(types))
    leading = [type_ for type_ in types if type_ in ("Stalled", "Reconciling", "Ready")]
    assert types[: len(leading)] == leading
    assert leading == [type_ for type_ in ("Stalled", "Reconciling", "Ready") if type_ in types]
    rest = [(-item["observedGeneration"], item["type"]) for item in conditions[len(leading) :]]
    assert rest == sorted(rest)


@given(_CHANGES, _CHANGES, st.integers(1, 9))
def test_a_merge_leaves_conditions_alone_that_the_pass_did_not_touch(
    before: list[tuple[str, str, int]], after: list[tuple[str, str, int]], generation: int
) -> None:
    def build(changes: list[tuple[str, str, int]]) -> list[Any]:
        built: list[Any] = []
        for type_, status, at in changes:
            built = with_condition(built, _condition(type_, status), generation=at, now=NOW)
        return built

    old, new = build(before), build(after)
    foreign = {**_condition("Foreign", "True"), "lastTransitionTime": "2025-01-01T00:00:00Z", "observedGeneration": 1}
    latest = {"metadata": {"generation": generation}, "status": {"conditions": [*old, foreign]}}
    merged = merge_conditions(latest, old, new, LATER)
    assert foreign in merged
    assert {item["type"] for item in merged} == {item["type"] for item in new} | {"Foreign"}
    for item in merged:
        changed = item["type"] != "Foreign" and item not in old
        assert not changed or item["observedGeneration"] == generation


def test_a_pass_that_began_at_an_older_generation_reports_ready_at_the_newer_one() -> None:
    latest = {"metadata": {"generation": 2}, "status": {"conditions": []}}
    after = with_condition([], _condition("Ready", "True"), generation=1, now=NOW)
    assert merge_conditions(latest, [], after, NOW)[0]["observedGeneration"] == 2


def test_the_worst_condition_makes_ready_and_the_first_of_them_its_reason() -> None:
    scope, negative = ("FetchFailed", "ArtifactInStorage", "Reconciling"), frozenset({"FetchFailed", "Reconciling"})
    stored, fetching = _condition("ArtifactInStorage", "True", "Succeeded"), _condition("Reconciling", "True", "Retry")
    assert summarize([stored], scope, negative) == ("True", "Succeeded", "m")
    assert summarize([stored, fetching], scope, negative) == ("False", "Retry", "m")
    failed = _condition("FetchFailed", "True", "OCIArtifactPullFailed")
    assert summarize([fetching, stored, failed], scope, negative) == ("False", "OCIArtifactPullFailed", "m")
    assert summarize([_condition("Foreign", "True")], scope, negative) is None


_JSON = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.sampled_from("abcd"), _JSON, max_size=4)


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


@given(_OBJECTS, _OBJECTS)
@example({"a": {"b": 1}}, {"a": {}})
def test_a_merge_diff_turns_one_object_into_the_other_and_is_empty_for_equals(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert _merge(before, patch_between(before, after)) == after
    assert patch_between(after, after) == {}


def test_what_did_not_change_is_not_written() -> None:
    conditions = with_condition([], _condition("Ready", "True"), generation=1, now=NOW)
    same = {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "conditions": conditions}}
    assert conditions_patch(same, same, same, LATER) is None
    assert metadata_patch(same, same) is None
    assert status_patch(same, same) is None


def test_conditions_travel_apart_from_the_rest_of_the_status_and_with_a_lock() -> None:
    before = {"metadata": {"generation": 1, "resourceVersion": "7"}, "status": {"observedGeneration": -1}}
    conditions = with_condition([], _condition("Ready", "True"), generation=1, now=NOW)
    after = {**before, "status": {"observedGeneration": 1, "conditions": conditions}}
    patch = conditions_patch(before, before, after, NOW)
    assert patch == {"metadata": {"resourceVersion": "7"}, "status": {"conditions": conditions}}
    assert status_patch(before, after) == {"status": {"observedGeneration": 1}}


def _release(version: int, status: HelmReleaseStatus = HelmReleaseStatus.DEPLOYED, **changes: Any) -> StoredRelease:
    release = StoredRelease(
        name="shop",
        namespace="org",
        version=version,
        status=status,
        chart_name="nextcloud",
        chart_version=f"6.{version}.0",
        config={"replicas": 2},
        config_digest=sha256_of("values"),
        first_deployed=NOW,
        last_deployed=LATER,
    )
    return attrs.evolve(release, **changes)


_STATUSES = st.sampled_from(list(HelmReleaseStatus))


@given(
    st.integers(1, 99),
    _STATUSES,
    st.none() | st.just(LATER),
    st.lists(st.builds(ChartHook, st.text("ab", min_size=1), st.just("Job"), st.text()), max_size=2),
)
def test_helms_secret_holds_the_whole_release(
    version: int, status: HelmReleaseStatus, deleted: datetime | None, hooks: list[ChartHook]
) -> None:
    release = _release(version, status, deleted=deleted, hooks=tuple(hooks))
    secret = release_secret(release, "org")
    assert secret["metadata"]["name"] == f"sh.helm.release.v1.shop.v{version}"
    assert secret["metadata"]["labels"]["status"] == status.value
    assert release_from_secret(secret) == release
    assert release_secret(release_from_secret(secret), "org") == secret


@given(st.lists(_STATUSES, min_size=1, max_size=12), st.integers(0, 12))
def test_helm_keeps_its_limit_of_revisions_and_the_last_deployed_one(
    statuses: list[HelmReleaseStatus], limit: int
) -> None:
    releases = tuple(_release(index + 1, status) for index, status in enumerate(statuses))
    kept = prune(releases, limit)
    deployed = [item for item in releases if item.status is HelmReleaseStatus.DEPLOYED]
    assert not deployed or deployed[-1] in kept
    assert [item.version for item in kept] == sorted(item.version for item in kept)
    if limit == 0:
        assert kept == releases
    else:
        assert len(kept) <= max(limit - 1, 1)


def test_releases_are_replaced_by_revision() -> None:
    failed = _release(2, HelmReleaseStatus.FAILED)
    assert replace((_release(1), _release(2)), failed) == (_release(1), failed)


def test_an_upgrade_enters_the_history_in_front_and_costs_the_superseded_entry_its_action() -> None:
    first = [snapshot(_release(1), "install", "sha256:aa")]
    superseded = _release(1, HelmReleaseStatus.SUPERSEDED)
    history = record(first, _release(2), superseded, action="upgrade", oci_digest="sha256:bb")
    assert [(item["version"], item["status"], item.get("action"), item["ociDigest"]) for item in history] == [
        (2, "deployed", "upgrade", "sha256:bb"),
        (1, "superseded", None, "sha256:aa"),
    ]


def test_a_rollback_enters_the_history_without_its_oci_digest() -> None:
    history = [
        snapshot(_release(2, HelmReleaseStatus.FAILED), "upgrade", "sha256:bb"),
        snapshot(_release(1), "install"),
    ]
    rolled = observe(observe(history, _release(3), ""), _release(3), "rollback")
    assert (rolled[0]["version"], rolled[0]["action"]) == (3, "rollback")
    assert "ociDigest" not in rolled[0]


def test_the_history_is_cut_behind_the_previous_success() -> None:
    failed = [snapshot(_release(version, HelmReleaseStatus.FAILED)) for version in (9, 8, 7)]
    good = snapshot(_release(6, HelmReleaseStatus.SUPERSEDED))
    tail = [snapshot(_release(version, HelmReleaseStatus.SUPERSEDED)) for version in (5, 4)]
    history = [*failed, good, *tail]
    assert previous(history, ignore_tests=True) == good
    assert truncate(history, ignore_tests=True) == [*failed, good]
    assert len(truncate(failed * 4, ignore_tests=True)) == 5
    untested = {**good, "testHooks": {"t": {"phase": "Failed"}}}
    assert previous([*failed, untested, *tail], ignore_tests=False) == tail[0]


_TARGET = HelmTarget("org", "shop", "nextcloud", "6.6.0")


@given(st.integers(0, 4), st.integers(1, 8))
def test_a_rule_fails_as_often_as_it_says_and_for_every_release_anew(times: int, asked: int) -> None:
    rule = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "boom", times=times), action=Action.UPGRADE)
    script = Script(FluxBehaviour(release_rules=(rule,)))
    for target in (_TARGET, attrs.evolve(_TARGET, release="other")):
        errors = [script.decide(Action.UPGRADE, target, 300.0).error for _ in range(asked)]
        assert errors == ["boom"] * min(times, asked) + [""] * max(0, asked - times)
        assert script.decide(Action.INSTALL, target, 300.0).error == ""


def test_a_hanging_action_takes_its_timeout_and_so_does_one_that_is_too_slow() -> None:
    hang = FluxBehaviour(release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.HANG)),))
    slow = FluxBehaviour(upgrade_seconds=1000.0)
    for behaviour in (hang, slow):
        answer = Script(behaviour).decide(Action.UPGRADE, _TARGET, 120.0)
        assert answer.error.startswith("timeout waiting for: [Deployment/")
        assert (answer.seconds, answer.stores_release) == (120.0, True)


@pytest.mark.parametrize("kind", [OutcomeKind.RENDER_ERROR, OutcomeKind.VALUES_ERROR])
def test_what_does_not_render_stores_no_release(kind: OutcomeKind) -> None:
    answer = Script(FluxBehaviour(release_rules=(ReleaseRule(FluxOutcome(kind)),))).decide(
        Action.INSTALL, _TARGET, 300.0
    )
    assert answer.error
    assert not answer.stores_release


def _oci(version: str, url: str = "oci://registry.example/charts/nextcloud") -> PullRequest:
    return PullRequest(PullStage.OCI, "org", "shop", url, "nextcloud", version)


def test_a_digest_follows_from_url_and_tag_and_from_a_new_push_of_the_same_tag() -> None:
    script = Script(FluxBehaviour())
    first = script.pull(_oci("6.6.0"))
    assert first == script.pull(_oci("6.6.0"))
    assert first.digest == sha256_of("oci://registry.example/charts/nextcloud:6.6.0")
    assert first.digest != script.pull(_oci("6.7.0")).digest
    script.behaviour = FluxBehaviour(digest_salts={"oci://registry.example/charts/nextcloud:6.6.0": "again"})
    assert script.pull(_oci("6.6.0")).digest != first.digest
    assert script.pull(_oci("sha256:" + "a" * 64)).digest == "sha256:" + "a" * 64


def test_what_was_not_published_is_not_found() -> None:
    script = Script(FluxBehaviour(published={"nextcloud": ("6.6.0+b1", "6.7.0")}))
    assert script.pull(_oci("6.6.0_b1")).fault is SourceFault.NONE
    assert script.pull(_oci("9.9.9")).fault is SourceFault.NOT_FOUND
    chart = PullRequest(PullStage.CHART, "org", "shop", "https://charts.example", "nextcloud", "*")
    assert script.pull(chart).version == "6.7.0"
    assert script.pull(attrs.evolve(chart, version="9.9.9")).fault is SourceFault.NOT_FOUND
    assert script.pull(attrs.evolve(chart, chart="other", version="9.9.9")).version == "9.9.9"


def test_source_trouble_passes_when_its_times_are_over() -> None:
    rule = SourceRule(SourceOutcome(SourceFault.UNAVAILABLE, times=2), stage=PullStage.OCI)
    script = Script(FluxBehaviour(source_rules=(rule,)))
    faults = [script.pull(_oci("6.6.0")).fault for _ in range(3)]
    assert faults == [SourceFault.UNAVAILABLE, SourceFault.UNAVAILABLE, SourceFault.NONE]


def _object(kind_name: str, name: str, spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "org", "generation": 1, "uid": "u"}
    return {"kind": kind_name, "metadata": meta, "spec": spec, "status": status}


def _ready(status: str) -> dict[str, Any]:
    return {**_condition("Ready", status), "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_only_a_new_artifact_of_its_source_wakes_a_helm_release() -> None:
    release = _object(
        "HelmRelease",
        "shop",
        {"chartRef": {"kind": "OCIRepository", "name": "shop"}},
        lastAttemptedRevisionDigest="sha256:aa",
        conditions=[_ready("True")],
    )
    world = {ObjectRef(HELM_RELEASE, "org", "shop"): release}
    empty = _object("OCIRepository", "shop", {}, conditions=[_ready("True")])
    old = _object("OCIRepository", "shop", {}, artifact={"revision": "1@sha256:aa"}, conditions=[_ready("True")])
    new = _object("OCIRepository", "shop", {}, artifact={"revision": "2@sha256:bb"}, conditions=[_ready("True")])
    assert list(triggered(OCI_REPOSITORY, old, new, FluxObjects(world))) == [ObjectRef(HELM_RELEASE, "org", "shop")]
    assert list(triggered(OCI_REPOSITORY, old, old, FluxObjects(world))) == []
    assert list(triggered(OCI_REPOSITORY, new, empty, FluxObjects(world))) == []
    # It knows that digest already and is ready: nothing to do.
    assert list(triggered(OCI_REPOSITORY, empty, old, FluxObjects(world))) == []


@pytest.mark.parametrize(("ready", "woken"), [("True", False), ("False", True)])
def test_a_source_that_recovers_wakes_a_release_that_is_not_ready(ready: str, woken: bool) -> None:
    ref = ObjectRef(HELM_RELEASE, "org", "shop")
    spec = {"chartRef": {"kind": "OCIRepository", "name": "shop"}}
    attempted = {"lastAttemptedRevisionDigest": "sha256:aa", "conditions": [_ready(ready)]}
    world = {ref: _object("HelmRelease", "shop", spec, **attempted)}
    held = {"artifact": {"revision": "1@sha256:aa"}}
    broken = _object("OCIRepository", "shop", {}, **held, conditions=[_ready("False")])
    well = _object("OCIRepository", "shop", {}, **held, conditions=[_ready("True")])
    assert list(triggered(OCI_REPOSITORY, broken, well, FluxObjects(world))) == ([ref] if woken else [])
    assert list(triggered(OCI_REPOSITORY, well, broken, FluxObjects(world))) == []


def test_status_writes_wake_nothing_and_a_request_wakes_its_object() -> None:
    release = _object("HelmRelease", "shop", {"chartRef": {"kind": "OCIRepository", "name": "shop"}})
    ref = ObjectRef(HELM_RELEASE, "org", "shop")
    written = {**release, "status": {"observedGeneration": 1}}
    assert list(triggered(HELM_RELEASE, None, release, FluxObjects({ref: release}))) == [ref]
    assert list(triggered(HELM_RELEASE, release, written, FluxObjects({ref: written}))) == []
    asked = {**release, "metadata": {**release["metadata"], "annotations": {"reconcile.fluxcd.io/requestedAt": "1"}}}
    assert list(triggered(HELM_RELEASE, release, asked, FluxObjects({ref: asked}))) == [ref]


def test_a_labelled_config_map_wakes_the_helm_releases_that_take_values_from_it() -> None:
    release = _object("HelmRelease", "shop", {"valuesFrom": [{"kind": "ConfigMap", "name": "values"}]})
    ref, config = ObjectRef(HELM_RELEASE, "org", "shop"), _object("ConfigMap", "values", {})
    assert list(triggered(CONFIG_MAP, None, config, FluxObjects({ref: release}))) == [ref]
    assert list(triggered(CONFIG_MAP, config, None, FluxObjects({ref: release}))) == [ref]
    other = {**config, "metadata": {**config["metadata"], "namespace": "elsewhere"}}
    assert list(triggered(CONFIG_MAP, None, other, FluxObjects({ref: release}))) == []


def test_a_new_index_wakes_the_charts_of_its_repository() -> None:
    chart = _object("HelmChart", "org-shop", {"sourceRef": {"kind": "HelmRepository", "name": "charts"}})
    ref = ObjectRef(HELM_CHART, "org", "org-shop")
    old = _object("HelmRepository", "charts", {}, artifact={"revision": "sha256:aa"})
    new = _object("HelmRepository", "charts", {}, artifact={"revision": "sha256:bb"})
    assert list(triggered(HELM_REPOSITORY, old, new, FluxObjects({ref: chart}))) == [ref]
    assert list(triggered(HELM_REPOSITORY, old, old, FluxObjects({ref: chart}))) == []
    seen = {**chart, "status": {"observedSourceArtifactRevision": "sha256:bb"}}
    assert list(triggered(HELM_REPOSITORY, old, new, FluxObjects({ref: seen}))) == []


def test_a_repository_of_type_oci_is_only_looked_at_to_be_emptied() -> None:
    repository = _object("HelmRepository", "charts", {"type": "oci"})
    assert list(triggered(HELM_REPOSITORY, None, repository, FluxObjects())) == []
    fresh = _object("HelmRepository", "charts", {"type": "oci"}, observedGeneration=-1)
    assert list(triggered(HELM_REPOSITORY, None, fresh, FluxObjects())) == [ObjectRef(HELM_REPOSITORY, "org", "charts")]


def _stored(content: bytes) -> str:
    return base64.b64encode(base64.b64encode(gzip.compress(content, mtime=0))).decode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "info", "chart"]), inner),
    max_leaves=8,
)


@given(
    st.none()
    | st.dictionaries(
        st.just("release"), st.text() | st.binary().map(_stored) | JSON.map(lambda it: _stored(dumps(it).encode()))
    )
)
@example({"release": "aHVudGVyMg=="})
@example({"release": _stored(b"[" * 100_000)})
def test_a_record_that_no_helm_has_written_is_passed_over_as_helm_does(data: dict[str, str] | None) -> None:
    """One such Secret ended `cluster --simulate flux` with a traceback."""
    good = release_secret(_release(1), "org")
    bad = {**good, "data": data} if data is not None else {"metadata": good["metadata"]}

    assert list(readable_releases([bad, good, bad])) == [_release(1)]
