"""What a kube-apiserver's audit log is taken to say of who wrote what, and in which order it took effect (RUN-4)."""

import json
from pathlib import Path
from typing import Any

from tests.support.audit_log import Act, kube_log

ACCOUNT = "system:serviceaccount:vworkspace-system:vworkspace-operator"
APP = "/apis/apps.vworkspace.io/v1alpha1/namespaces/a/applicationinstances/x"


def entry(second: int, *, version: int | None, status: int = 200, pod: str = "", **more: Any) -> dict[str, Any]:
    user = {"username": ACCOUNT, "extra": {"authentication.kubernetes.io/pod-name": [pod]}} if pod else {}
    metadata = {} if version is None else {"resourceVersion": str(version)}
    return {
        "requestURI": APP,
        "verb": "patch",
        "user": user or {"username": "admin"},
        "responseStatus": {"code": status},
        "responseObject": {"metadata": metadata},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.000000Z",
        **more,
    }


def read(folder: Path, *entries: dict[str, Any], rest: str = "") -> list[Act]:
    file = folder / "audit"
    file.write_text("".join(json.dumps(one) + "\n" for one in entries) + rest, encoding="utf-8")
    return kube_log(file)()


def test_requests_are_told_by_their_arrival_and_changes_by_their_versions(tmp_path: Path) -> None:
    """The one that came first was answered last, and took effect last."""
    acts = read(tmp_path, entry(2, version=7, pod="b"), entry(1, version=8, pod="a"))

    assert [(act.user, act.arrived.second, act.place) for act in acts] == [("a", 1, 8), ("b", 2, 7)]


def test_who_calls_from_no_pod_goes_by_the_name(tmp_path: Path) -> None:
    (act,) = read(tmp_path, entry(1, version=1))

    assert act.user == "admin"


def test_what_is_refused_or_brings_nothing_new_changes_nothing(tmp_path: Path) -> None:
    made, same = entry(1, version=7), entry(2, version=7, pod="a")
    refused, reviewed = entry(3, version=9, status=409, pod="a"), entry(4, version=None, status=201, pod="a")
    acts = read(tmp_path, made, same, refused, reviewed)

    assert [act.place for act in acts] == [7, None, None, None]


def test_dry_runs_and_the_line_that_is_being_written_are_left_out(tmp_path: Path) -> None:
    dry = entry(1, version=7, requestURI=f"{APP}?dryRun=All")
    acts = read(tmp_path, dry, entry(2, version=8, requestURI=f"{APP}?fieldManager=m"), rest='{"requestURI": "/ap')

    assert [(act.path, act.place) for act in acts] == [(APP, 8)]


def test_a_deletion_that_tells_no_version_is_not_passed_over(tmp_path: Path) -> None:
    """It comes after what was answered by then; that of somebody else is not looked at."""
    theirs, ours = entry(2, version=None, verb="delete"), entry(3, version=None, verb="delete", pod="a")

    assert [act.place for act in read(tmp_path, entry(1, version=7), theirs, ours)] == [7, None, 7]


def test_leases_are_told_apart(tmp_path: Path) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/a/leases/x"
    acts = read(tmp_path, entry(1, version=1, requestURI=path), entry(2, version=2))

    assert [act.is_lease for act in acts] == [True, False]
