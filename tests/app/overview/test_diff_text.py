"""The unified diffs that `diff`, `plan` and `box plan` print: only what changes, in one order of keys (SEE-2)."""

from typing import Any

from purekube.apimachinery.manifest import LAST_APPLIED, ObjectRef
from purekube.apimachinery.resources import SECRET, SERVICE
from vworkspace_app.commands.shared.plan_documents import diff_text, object_lines

REF = ObjectRef(SERVICE, "team", "shop")
PORTS: list[dict[str, Any]] = [{"port": 80, "name": "http", "protocol": "TCP"}]
BEFORE: dict[str, Any] = {
    "spec": {"type": "ClusterIP", "sessionAffinity": "None", "ports": PORTS},
    "metadata": {"namespace": "team", "name": "shop", "uid": "u-1"},
    "data": {},
    "kind": "Service",
    "apiVersion": "v1",
}
AFTER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "data": {},
    "metadata": {"name": "shop", "namespace": "team"},
    "spec": {
        "ports": [{"name": "http", "port": 81, "protocol": "TCP"}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    },
}


def lines(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    return diff_text([(REF, before, after)], colour=False).splitlines()


def test_the_order_of_keys_is_no_change() -> None:
    """A change of a Service's port also printed its type and its session affinity, removed and added."""
    assert [line for line in lines(BEFORE, AFTER) if line[0] in "+-"] == [
        "--- Service team/shop now",
        "+++ Service team/shop then",
        "-    port: 80",
        "+    port: 81",
    ]


def test_an_object_is_printed_with_its_metadata_before_its_content() -> None:
    assert [line[1:] for line in lines(None, AFTER)[3:]] == [
        "apiVersion: v1",
        "kind: Service",
        "metadata:",
        "  name: shop",
        "  namespace: team",
        "data: {}",
        "spec:",
        "  ports:",
        "  - name: http",
        "    port: 81",
        "    protocol: TCP",
        "  sessionAffinity: None",
        "  type: ClusterIP",
    ]
    assert list(object_lines("a", None, AFTER))[3:] == lines(None, AFTER)[3:]


def test_what_kubectl_keeps_for_itself_is_no_change() -> None:
    kept = {**AFTER, "metadata": {**AFTER["metadata"], "annotations": {LAST_APPLIED: "{}"}}}
    assert lines(AFTER, kept) == []
    other = {**AFTER, "metadata": {**AFTER["metadata"], "annotations": {LAST_APPLIED: "{}", "a": "b"}}}
    assert [line for line in lines(AFTER, other)[2:] if line[0] in "+-"] == ["+  annotations:", "+    a: b"]


def secret(**content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "team"}, **content}


def test_no_diff_shows_what_a_secret_holds() -> None:
    """`diff --box` printed the Secrets that a box writes and deletes, for every log of a pipeline to keep."""
    ref = ObjectRef(SECRET, "team", "s")
    before = secret(data={"same": "c2VjcmV0LTE=", "other": "c2VjcmV0LTI=", "gone": "c2VjcmV0LTM="})
    after = secret(data={"same": "c2VjcmV0LTE=", "other": "c2VjcmV0LTQ="}, stringData={"new": "c2VjcmV0LTU="})

    changed = diff_text([(ref, before, after)], colour=False)
    assert [line for line in changed.splitlines()[2:] if line[0] in "+-"] == [
        "-  gone: '***'",
        "-  other: '*** (now)'",
        "+  other: '*** (then)'",
        "+stringData:",
        "+  new: '***'",
    ]
    made_and_deleted = diff_text([(ref, None, after), (ref, before, None)], colour=False)
    assert "+  new: '***'" in made_and_deleted
    assert "-  gone: '***'" in made_and_deleted
    odd = diff_text([(ref, secret(data="c2VjcmV0LTE="), secret(data=None))], colour=False)
    assert "c2VjcmV0" not in changed + made_and_deleted + odd
    assert diff_text([(ref, before, before)], colour=False) == ""
