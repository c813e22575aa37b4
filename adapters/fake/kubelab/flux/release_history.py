"""The `status.history` of a HelmRelease: snapshots of Helm releases, newest first."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubelab.flux.storage import StoredRelease
from purekube.apimachinery.timestamps import format_time

Snapshot = dict[str, Any]

# The same constant as the default of maxHistory (api/v2/helmrelease_types.go, defaultMaxHistory), but no setting
# changes this one.
_KEPT_WITHOUT_SUCCESS: Final = 5
# A superseded release was deployed once, so it is a target (api/v2/snapshot_types.go, Previous).
_SUCCEEDED: Final = frozenset({"deployed", "superseded"})


def snapshot(release: StoredRelease, action: str = "", oci_digest: str = "") -> Snapshot:
    """Return the entry for `release` in the HelmRelease's history.

    `action` is the Helm action that made the entry, such as `install`; `oci_digest` is the digest of the chart's OCI
    artifact. If one of them is empty, the entry is without it, as in Flux.
    """
    entry: Snapshot = {
        # The version of the digest's calculation, not of a chart (api/v2/snapshot_types.go).
        "apiVersion": "v2",
        "digest": release.digest(oci_digest),
        "name": release.name,
        "namespace": release.namespace,
        "version": release.version,
        "status": release.status.value,
        "chartName": release.chart_name,
        "chartVersion": release.chart_version,
        "configDigest": release.config_digest,
        "firstDeployed": format_time(release.first_deployed),
        "lastDeployed": format_time(release.last_deployed),
    }
    if release.deleted is not None:
        entry["deleted"] = format_time(release.deleted)
    if action:
        entry["action"] = action
    if oci_digest:
        entry["ociDigest"] = oci_digest
    return entry


def full_name(entry: Mapping[str, Any]) -> str:
    """Return `<namespace>/<name>.v<revision>` of the release in `entry`, an entry of the HelmRelease's history."""
    return f"{entry['namespace']}/{entry['name']}.v{entry['version']}"


def versioned_chart(entry: Mapping[str, Any]) -> str:
    """Return `<chart>@<version>` of the release in `entry`, an entry of the HelmRelease's history."""
    return f"{entry['chartName']}@{entry['chartVersion']}"


def tested(entry: Mapping[str, Any]) -> bool:
    """Report whether all Helm tests of the release in `entry`, an entry of a HelmRelease's history, have ended.

    An empty `testHooks` gives True, because the chart has no tests. A missing `testHooks` gives False.
    """
    hooks = entry.get("testHooks")
    return hooks is not None and all(hook.get("phase") in ("Succeeded", "Failed") for hook in hooks.values())


def has_failed_test(entry: Mapping[str, Any]) -> bool:
    """Report whether at least one Helm test of the release in `entry` failed."""
    return any(hook.get("phase") == "Failed" for hook in (entry.get("testHooks") or {}).values())


def previous(history: Sequence[Snapshot], *, ignore_tests: bool) -> Snapshot | None:
    """Return the entry in `history` of the release to which a rollback returns, or None if there is none.

    This is the newest successful release before the current one. A release with a failed test counts as successful only
    with `ignore_tests`.
    """
    for entry in history[1:]:
        if entry["status"] in _SUCCEEDED and (ignore_tests or not has_failed_test(entry)):
            return entry
    return None


def truncate(history: Sequence[Snapshot], *, ignore_tests: bool) -> list[Snapshot]:
    """Return the history without the entries that are older than the one to which a rollback returns.

    That entry is found by `previous`, with the same `ignore_tests`. If there is none, return the newest five entries.
    """
    target = previous(history, ignore_tests=ignore_tests)
    if target is not None:
        return list(history[: history.index(target) + 1])
    return newest(history)


def newest(history: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the newest five entries of the history, which remain if no rollback needs an older one."""
    return list(history[:_KEPT_WITHOUT_SUCCESS])


def record(history: Sequence[Snapshot], *releases: StoredRelease, action: str, oci_digest: str) -> list[Snapshot]:
    """Return the history of a HelmRelease after the Helm action `action` (install or upgrade) stored `releases`.

    The newest of `releases` gets a new entry at the front, with `action` and `oci_digest`, the digest of the chart's
    OCI artifact. The second newest, if given, has an entry already. This entry is updated: as in Flux, it keeps the OCI
    digest and the test results, but loses its `action`.
    """
    newest, *older = sorted(releases, key=lambda item: item.version, reverse=True)
    entries = [snapshot(newest, action, oci_digest), *history]
    # Only one older revision is renewed: recordOnObject in reconcile/state.go returns after the first match.
    for release in older[:1]:
        entries = [entries[0], *(_updated(entry, release, "") for entry in entries[1:])]
    return entries


def observe(history: Sequence[Snapshot], release: StoredRelease, action: str) -> list[Snapshot]:
    """Return the history after a rollback changed `release`. The entry of `release` gets the Helm action `action`.

    The entry is updated in place. If `release` has no entry, one is added at the front, without an OCI digest as in
    Flux.
    """
    if any(_is(entry, release) for entry in history):
        return update(history, release, action)
    return [snapshot(release, action), *history]


def update(history: Sequence[Snapshot], release: StoredRelease, action: str) -> list[Snapshot]:
    """Return the history after an uninstall changed `release`. The entry of `release` gets the Helm action `action`.

    If `release` has no entry, the history is unchanged.
    """
    return [_updated(entry, release, action) for entry in history]


def _is(entry: Mapping[str, Any], release: StoredRelease) -> bool:
    return (entry["name"], entry["namespace"], entry["version"]) == (release.name, release.namespace, release.version)


def _updated(entry: Snapshot, release: StoredRelease, action: str) -> Snapshot:
    if not _is(entry, release):
        return entry
    fresh = snapshot(release, action, entry.get("ociDigest", ""))
    if "testHooks" in entry:
        fresh["testHooks"] = entry["testHooks"]
    return fresh
