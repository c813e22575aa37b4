"""Jobs that cannot or may not be done are answered with reason and path, and the loop goes on (PULL-7, PULL-10).

Over both faces: in process, and over HTTP, where a payload has been through JSON and back.
"""

from typing import Any

import pytest

from tests.support.e2e_world import CLUSTER, FIRST, NAME, NS, UNGATED_NS, World, instance
from tests.support.servers import FACES, Face
from tests.support.stories import on_every_face
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_fake.controlplane.faults import AgentCall, ScriptedFault

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "grab", "namespace": NS},
    "stringData": {"token": "abc"},
}
CLUSTER_OBJECT = {
    "apiVersion": "ops.vworkspace.io/v1alpha1",
    "kind": "Cluster",
    "metadata": {"name": CLUSTER, "namespace": NS},
    "spec": {"clusterId": CLUSTER, "security": {"requireSignedPayloads": False}},
}
FOREIGN = {"name": NAME, "namespace": NS, "labels": {"app.vworkspace.io/cluster-id": "cluster-prod-2"}}
UNGATED = {"name": NAME, "namespace": UNGATED_NS}
NOWHERE = {"name": NAME, "namespace": "no-such-place"}


def placed(metadata: dict[str, Any]) -> dict[str, Any]:
    """The instance with other metadata, released into its own namespace."""
    spec = {**instance()["spec"], "release": {"name": NAME, "namespace": metadata["namespace"]}}
    return instance(metadata=metadata, spec=spec)


def wrong_spec(**changes: Any) -> dict[str, Any]:
    """The instance with other fields in its spec."""
    return instance(spec={**instance()["spec"], **changes})


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown job kind": ({"kind": "reboot"}, "InvalidJob", "kind"),
    "an unknown intent": ({"kind": "intent", "payload": {"intent": "reboot"}}, "InvalidJob", "payload.intent"),
    "no payload": ({"payload": None}, "InvalidJob", "payload"),
    "a payload that is text": ({"payload": "apiVersion: v1"}, "InvalidJob", "payload"),
    "a manifest without metadata": ({"payload": instance(metadata=None)}, "ValidationFailed", "payload.metadata"),
    "a chart without a version": (
        {"payload": wrong_spec(chart={"sourceType": "oci", "url": "oci://r.example.com/c", "name": "nextcloud"})},
        "ValidationFailed",
        "payload.spec.chart.version",
    ),
    "a field of the wrong type": ({"payload": wrong_spec(suspend="yes")}, "ValidationFailed", "payload.spec.suspend"),
    "a manifest in an intent": (
        {
            "kind": "intent",
            "payload": {"intent": "ensure-application-instance", "applicationInstance": wrong_spec(suspend=1)},
        },
        "ValidationFailed",
        "payload.applicationInstance.spec.suspend",
    ),
    "a secret in the values": (
        {"payload": wrong_spec(values={"source": "inline", "inline": {"dbPassword": "hunter2"}})},
        "ValidationFailed",
        "payload.spec.values.inline.dbPassword",
    ),
    "another cluster's id": ({"payload": placed(FOREIGN)}, "NotPermitted", "payload.metadata.labels"),
    "an ungated namespace": ({"payload": placed(UNGATED)}, "NotPermitted", "payload.metadata.namespace"),
    "a namespace that is not there": ({"payload": placed(NOWHERE)}, "NotPermitted", "payload.metadata.namespace"),
    "a deletion in an ungated namespace": (
        {
            "kind": "delete",
            "payload": {
                "apiVersion": APPLICATION_INSTANCE.api_version,
                "kind": APPLICATION_INSTANCE.kind,
                "namespace": UNGATED_NS,
                "name": NAME,
            },
        },
        "NotPermitted",
        "payload.namespace",
    ),
    "a kind that is not ours": ({"payload": SECRET}, "NotPermitted", "payload.kind"),
    "a Cluster": ({"payload": CLUSTER_OBJECT}, "NotPermitted", "payload.kind"),
    "a deletion of what is not ours": (
        {"kind": "delete", "payload": {"apiVersion": "v1", "kind": "Secret", "namespace": NS, "name": "grab"}},
        "NotPermitted",
        "payload.kind",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_every_bad_job_fails_with_reason_and_path_and_the_next_good_one_succeeds_PULL_7_PULL_10(face: Face) -> None:
    async def story(world: World) -> None:
        before = len(world.history)
        jobs = {what: world.ask(FIRST, number, **job) for number, (what, (job, _, _)) in enumerate(BAD.items())}

        answers = {what: await world.result(job) for what, job in jobs.items()}

        assert {what: answer["outcome"] for what, answer in answers.items()} == dict.fromkeys(BAD, "failed")
        told = {what: answer["error"] for what, answer in answers.items()}
        desired = {what: f"{reason}: {path}: " for what, (_, reason, path) in BAD.items()}
        assert {what: error for what, error in told.items() if not error.startswith(desired[what])} == {}
        assert "hunter2" not in str(told)
        assert not any("appliedRef" in answer for answer in answers.values())
        assert (len(world.history), world.writes()) == (before, []), "nothing was written"
        await world.ready(FIRST, 100)

    face.run(story)


STRANGE: list[Any] = [None, 5, "reboot", [], {}, {"id": ""}, {"id": {"$oid": "1"}}, {"kind": "apply"}]


@pytest.mark.slow
@on_every_face
async def test_what_is_no_job_at_all_does_not_stop_the_loop_PULL_7(world: World) -> None:
    for raw in STRANGE:
        world.control.enqueue_raw(CLUSTER, raw)
    half = world.control.enqueue_raw(CLUSTER, {"id": "half"})

    result = await world.result(half)

    assert result["outcome"] == "failed"
    assert result["error"].startswith("InvalidJob: ")
    for path in ("createdAt", "expiresAt", "idempotencyKey", "kind", "payload"):
        assert f"{path}: is required" in result["error"]
    await world.ready()


@pytest.mark.slow
@on_every_face
async def test_an_answer_that_is_not_json_does_not_stop_the_loop_PULL_7(world: World) -> None:
    world.control.faults.inject(
        ScriptedFault(call=AgentCall.FETCH, body=b"<html>proxy error</html>", content_type="text/html")
    )
    world.control.faults.inject(ScriptedFault(call=AgentCall.FETCH, body=b'{"jobs": [', status=200))

    await world.ready()
