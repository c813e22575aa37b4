"""Whose hook it is, what its pods may be, and what reading it costs (OPS-8; C1, D14, H5)."""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.flux.storage import release_secret
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import HELM_RELEASE, JOB, SECRET
from tests.support.instance_worlds import DIGEST, UID
from tests.support.operation_worlds import (
    CONTEXT,
    GOOD,
    HOOK_SPEC,
    HOOK_TEMPLATE,
    NS,
    RESTRICTED,
    SETTINGS,
    TARGET,
    TEMPLATES,
    approval_for,
    as_created,
    at,
    hook,
    observed,
    operation,
    recorded,
    released,
    started,
    target_manifest,
)
from tests.support.strategies import json_values
from tests.support.template_data import BUILTIN_TEMPLATES
from vworkspace_core.api.operation import EngineRef
from vworkspace_core.operations.context import OperationContext
from vworkspace_core.operations.contract import EngineContext
from vworkspace_core.operations.engines import ENGINES, helm_hook_job
from vworkspace_core.operations.engines import job as job_engine
from vworkspace_core.operations.engines.helm_hook_job import (
    HOOK_EVENTS,
    LARGEST_HOOK,
    LARGEST_RELEASE,
    UnreadableRelease,
    proved_hooks,
)
from vworkspace_core.operations.pods import job_problems, restricted_problems
from vworkspace_core.operations.preconditions import Start, UnmetPrecondition, start_or_unmet
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.operations.settings import RUNNER
from vworkspace_core.operations.templates import load_template

OF = "migration.helmHookJob"
RELEASE = ObjectRef(HELM_RELEASE, NS, "nextcloud")
RECORD = ObjectRef(SECRET, NS, "sh.helm.release.v1.nextcloud.v1")
TEMPLATE = next(builtin_template for builtin_template in BUILTIN_TEMPLATES if builtin_template["name"] == OF)


def start(
    objects: Mapping[ObjectRef, Manifest], context: OperationContext = CONTEXT, **more: Any
) -> Start | UnmetPrecondition:
    return start_or_unmet(operation(OF, **more), observed(OF, objects=dict(objects)), context)


def refused(found: Start | UnmetPrecondition, reason: str = "HookNotFound") -> str:
    assert isinstance(found, UnmetPrecondition)
    assert (found.reason, found.accepted) == (reason, False)
    assert "hunter2" not in found.message
    return found.message


def packed(text: bytes) -> dict[str, str]:
    return {"release": base64.b64encode(base64.b64encode(text)).decode()}


def unpacked(secret: Manifest) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))


def forged(secret: Manifest, **change: Any) -> Manifest:
    """What a tenant who may write Secrets makes of Helm's record."""
    return {**secret, "data": packed(gzip.compress(json.dumps({**unpacked(secret), **change}).encode()))}


@pytest.mark.parametrize(
    ("given", "own", "seconds"),
    [
        (7200, None, 7260),
        (600, None, 3600),
        (None, None, 3600),
        ("7200", None, 3600),
        (True, None, 3600),
        (10**18, None, 31_536_000),
        (7200, 900, 900),
    ],
)
def test_a_hook_that_its_chart_gives_more_time_is_not_stopped_after_an_hour_OPS_12(
    given: Any, own: int | None, seconds: int
) -> None:
    asked = {} if own is None else {"timeoutSeconds": own}
    one, made = started(OF, **asked)
    assert made is not None
    job = as_created(made)
    job["spec"]["activeDeadlineSeconds"] = given
    seen = observed(OF, objects={made.ref: job})

    # It has run for half a minute.
    early, late = (reconcile_operation(one, seen, at(moment)) for moment in (seconds - 31.0, seconds - 30.0))

    assert early.deletes == ()
    assert [delete.ref for delete in late.deletes] == [made.ref]


# --- whose hook it is -------------------------------------------------------------------------------------------------


def test_the_hook_is_the_one_that_flux_recorded_for_the_target_OPS_8() -> None:
    found = start(recorded(hook()))

    assert isinstance(found, Start), found
    manifest = found.objects[0].manifest
    template = manifest["spec"]["template"]
    assert template["spec"]["containers"] == HOOK_TEMPLATE["spec"]["containers"]
    assert template["metadata"]["labels"]["app"] == "nextcloud"
    assert "controller-uid" not in template["metadata"]["labels"]
    assert "helm.sh/hook" not in json.dumps(manifest)
    assert template["spec"]["serviceAccountName"] == "vworkspace-operation-runner"
    assert template["spec"]["automountServiceAccountToken"] is False


def test_the_checksum_is_the_one_of_helm_controller_OPS_8() -> None:
    """The digest that helm-controller's own tests expect for a release with nothing but the name `foo`."""
    known = {"digest": "sha256:f1498f27a16a09cd7e1ee610d924df065c03d30035638babc95dd9a8d412ce4d"}

    assert proved_hooks({"data": packed(b'{"name":"foo"}')}, known) == ()
    with pytest.raises(UnreadableRelease, match="checksum"):
        proved_hooks({"data": packed(b'{"name":"fop"}')}, known)


@pytest.mark.parametrize("oci", [DIGEST, ""])
def test_a_release_from_an_oci_artifact_and_one_from_a_repository_are_proved_OPS_8(oci: str) -> None:
    release = released(hook(), hook(name="smoke", kind="Pod"))
    entry = {"digest": release.digest(oci), **({"ociDigest": oci} if oci else {})}

    assert [recorded_hook.name for recorded_hook in proved_hooks(release_secret(release, NS), entry)] == [
        "db-migrate",
        "smoke",
    ]


@given(st.binary(min_size=1, max_size=4), st.integers(0, 10_000))
def test_no_change_of_the_record_goes_unnoticed(patch: bytes, place: int) -> None:
    objects = recorded(hook())
    text = json.dumps(unpacked(objects[RECORD]), separators=(",", ":")).encode()
    place %= len(text)
    changed = text[:place] + patch + text[place + len(patch) :]
    found = start({**objects, RECORD: {**objects[RECORD], "data": packed(changed)}})

    if isinstance(found, Start):  # what Flux does not look at: the chart's templates, how it was applied
        assert found.objects[0].manifest == _made(start(objects)).objects[0].manifest


def _made(found: Start | UnmetPrecondition) -> Start:
    assert isinstance(found, Start), found
    return found


ROOTKIT = hook(
    {
        "template": {
            "spec": {
                "hostPID": True,
                "nodeName": "control-plane-1",
                "containers": [{"name": "x", "image": "evil.example/x", "securityContext": {"privileged": True}}],
            }
        }
    }
)


def test_a_secret_that_a_tenant_wrote_proves_nothing() -> None:
    honest = recorded(hook())
    evil = release_secret(released(ROOTKIT), NS)

    told = refused(start({**honest, RECORD: evil}))
    assert "checksum differs" in told
    refused(start({**honest, RECORD: forged(honest[RECORD], hooks=unpacked(evil)["hooks"])}))
    later = release_secret(released(ROOTKIT, version=9), NS)
    made = start({**honest, ObjectRef(SECRET, NS, "sh.helm.release.v1.nextcloud.v9"): later})
    assert _made(made).objects[0].manifest["spec"]["template"]["spec"]["containers"][0]["image"] == "nextcloud:30"


def test_helm_s_record_is_read_by_name_until_the_job_is_known_and_only_for_a_target_that_is_there() -> None:
    engine, one, objects = ENGINES["helmHookJob"], operation(OF), observed(OF, objects=recorded(hook())).objects
    known = EngineRef("batch/v1", "Job", NS, "x", "u-1")
    going = attrs.evolve(one, status=attrs.evolve(one.status, engine_ref=known))

    assert engine.extra_reads(one, objects) == (RECORD,)
    assert engine.extra_reads(going, objects) == ()
    assert engine.extra_reads(one, {}) == ()


@pytest.mark.parametrize("event", ["pre-upgrade", "post-delete"])
def test_a_job_that_says_it_is_a_hook_proves_nothing(event: str) -> None:
    live = {
        **JOB.manifest("db-migrate", NS),
        "metadata": {"name": "db-migrate", "namespace": NS, "annotations": {"helm.sh/hook": event}},
        "spec": {"template": {"spec": {"containers": [{"name": "x", "image": "of-another-application"}]}}},
    }
    ref = ObjectRef(JOB, NS, "db-migrate")

    refused(start({**recorded(), ref: live}))
    made = _made(start({**recorded(hook()), ref: live})).objects[0].manifest
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "nextcloud:30"


def test_the_release_has_to_be_the_targets_own() -> None:
    refused(start(recorded(hook(), uid="the-uid-of-another-instance")))
    other = recorded(hook())
    renamed = {**other[RELEASE], "status": {"history": [{**_entry(other), "name": "of-another"}]}}
    refused(start({**other, RELEASE: renamed}))
    elsewhere = {**other[RELEASE], "status": {"history": [{**_entry(other), "namespace": "org-other"}]}}
    refused(start({**other, RELEASE: elsewhere}))


def _entry(objects: Mapping[ObjectRef, Manifest]) -> dict[str, Any]:
    return dict(objects[RELEASE]["status"]["history"][0])


@pytest.mark.parametrize("status", [None, {}, {"history": None}, {"history": [7, {"status": "failed"}]}])
def test_without_a_deployed_revision_there_is_no_hook_OPS_8(status: Any) -> None:
    objects = recorded(hook())

    told = refused(start({**objects, RELEASE: {**objects[RELEASE], "status": status}}))

    assert "no deployed revision" in told


def test_a_record_that_is_just_being_written_is_waited_for_OPS_8() -> None:
    objects = {**recorded(hook()), RECORD: release_secret(released(hook(), description="later"), NS)}

    found = start({**objects, TARGET: target_manifest(OF, ready=False)})

    assert isinstance(found, UnmetPrecondition)
    assert (found.reason, found.accepted) == ("TargetNotReady", True)


EVENTS = [*HOOK_EVENTS, "pre-delete", "post-delete", "pre-rollback", "post-rollback", "test", "crd-install", ""]


@given(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=3))
@example(["test", "pre-upgrade"])
def test_only_hooks_that_are_for_a_migration_are_run(events: list[str]) -> None:
    found = start(recorded(hook(HOOK_SPEC, *events)))

    assert isinstance(found, Start) == set(events).issubset(HOOK_EVENTS)
    if not isinstance(found, Start):
        refused(found)


POLICY = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}


def test_a_hook_that_forbids_another_try_gets_none_OPS_8() -> None:
    """A chart says by `podFailurePolicy` after which end of a migration a second try would do damage."""
    found = start(recorded(hook(spec_with({"restartPolicy": "Never"}, podFailurePolicy=POLICY))))

    spec = _made(found).objects[0].manifest["spec"]
    assert (spec["podFailurePolicy"], spec["backoffLimit"]) == (POLICY, 3)


def test_no_second_pod_of_a_hook_begins_before_the_first_has_ended_OPS_8() -> None:
    """By default a pod is replaced when its eviction begins, and two would migrate the same database."""
    for spec, policy in (
        (HOOK_SPEC, "Failed"),
        ({"template": HOOK_TEMPLATE}, "Failed"),
        (spec_with(backoffLimit=0), None),
    ):
        made = _made(start(recorded(hook(spec)))).objects[0].manifest["spec"]
        assert made.get("podReplacementPolicy") == policy, "the default of backoffLimit is 6"


# --- what its pods may be ---------------------------------------------------------------------------------------------


def spec_with(pod: Mapping[str, Any] | None = None, container: Mapping[str, Any] | None = None, **job: Any) -> Any:
    """The good hook with a change of the pod, of its container, of the container's securityContext, or of the Job."""
    (good,) = HOOK_TEMPLATE["spec"]["containers"]
    body = {**HOOK_TEMPLATE["spec"], "containers": [{**good, **(container or {})}], **(pod or {})}
    return {**HOOK_SPEC, "template": {**HOOK_TEMPLATE, "spec": body}, **job}


def secure(**change: Any) -> dict[str, Any]:
    context = {name: value for name, value in {**RESTRICTED, **change}.items() if value is not None}
    return {"securityContext": context}


FORBIDDEN: list[tuple[Any, str]] = [
    (spec_with({"hostPID": True}), "hostPID"),
    (spec_with({"hostNetwork": True}), "hostNetwork"),
    (spec_with({"hostIPC": True}), "hostIPC"),
    (spec_with({"nodeName": "control-plane-1"}), "nodeName"),
    (spec_with({"priorityClassName": "system-node-critical"}), "priorityClassName"),
    (spec_with({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}), "volumes[0].hostPath"),
    (spec_with({"volumes": [{"name": "disk", "nfs": {}}]}), "volumes[0].nfs"),
    (spec_with({"volumes": {"name": "root"}}), "volumes"),
    (spec_with({"serviceAccountName": "helm-controller"}), "serviceAccountName"),
    (spec_with({"serviceAccount": "helm-controller"}), "serviceAccountName"),
    (spec_with({"serviceAccountName": ["x"]}), "serviceAccountName"),
    (spec_with({"securityContext": {"runAsUser": 0}}), "securityContext.runAsUser"),
    (spec_with({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}), "sysctls[0]"),
    (spec_with({"securityContext": {"windowsOptions": {"hostProcess": True}}}), "hostProcess"),
    (spec_with({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), "seccompProfile"),
    (spec_with({"initContainers": [{"name": "a", "image": "b"}]}), "initContainers[0]"),
    (spec_with({"initContainers": {"name": "a"}}), "initContainers"),
    (spec_with({"containers": ["a"]}), "containers[0]"),
    (spec_with(container=secure(privileged=True)), "containers[0].securityContext.privileged"),
    (spec_with(container=secure(runAsNonRoot=None)), "runAsNonRoot"),
    (spec_with(container=secure(runAsUser=0)), "runAsUser"),
    (spec_with(container=secure(seccompProfile=None)), "seccompProfile"),
    (spec_with(container=secure(allowPrivilegeEscalation=None)), "allowPrivilegeEscalation"),
    (spec_with(container=secure(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]})), "capabilities.add"),
    (spec_with(container=secure(capabilities=None)), "capabilities.drop"),
    (spec_with(container=secure(procMount="Unmasked")), "procMount"),
    (spec_with(container=secure(appArmorProfile={"type": "Unconfined"})), "appArmorProfile"),
    (spec_with(container=secure(seLinuxOptions={"type": "spc_t"})), "seLinuxOptions"),
    (spec_with(container={"securityContext": "x"}), "securityContext"),
    (spec_with(container={"ports": [{"hostPort": 443}]}), "ports[0]"),
    (spec_with(container={"livenessProbe": {"httpGet": {"host": "10.0.0.1"}}}), "containers[0]"),
    (spec_with(container={"image": None}), "containers[0].image"),
    (spec_with(completions=2), "completions"),
    (spec_with(parallelism=50), "parallelism"),
    (spec_with(backoffLimit=1000), "backoffLimit"),
]


@pytest.mark.parametrize(("spec", "path"), FORBIDDEN, ids=[f"{i}-{path}" for i, (_, path) in enumerate(FORBIDDEN)])
def test_a_hook_with_more_than_the_restricted_profile_is_refused_by_its_path(spec: Any, path: str) -> None:
    told = refused(start(recorded(hook(spec))), "ValidationFailed")

    assert path in told
    assert "allowUnrestrictedHooks" in told, "and what to do about it"


def test_images_are_limited_for_hooks_too() -> None:
    settings = attrs.evolve(CONTEXT.settings, allowed_images=("registry.example/approved/",))

    told = refused(start(recorded(hook()), attrs.evolve(CONTEXT, settings=settings)), "ValidationFailed")

    assert "containers[0].image" in told


def test_an_account_that_is_allowed_is_kept_OPS_8() -> None:
    settings = attrs.evolve(CONTEXT.settings, allowed_service_accounts=frozenset({"migrator"}))

    found = start(
        recorded(hook(spec_with({"serviceAccountName": "migrator"}))), attrs.evolve(CONTEXT, settings=settings)
    )

    pod = _made(found).objects[0].manifest["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "migrator"
    assert "automountServiceAccountToken" not in pod


@given(json_values(12))
def test_no_job_spec_whatever_breaks_the_rules_RUN_11(spec: Any) -> None:
    for field in ("serviceAccountName", "containers", "volumes", "securityContext"):
        job_problems({"template": {"spec": {field: spec}}, "backoffLimit": spec}, CONTEXT.settings)
    deep = {"template": {"spec": spec, "metadata": {"annotations": spec}}, "completions": spec}
    assert len(job_problems(deep, CONTEXT.settings)) <= 8


def test_the_job_engines_own_pod_passes_the_same_rules() -> None:
    (made,) = _made(start_or_unmet(operation(), observed(), CONTEXT)).objects
    assert made.kind == JOB
    assert job_problems(made.manifest["spec"], CONTEXT.settings) == ()
    assert job_engine.ENGINE.name == "job"
    assert tuple(restricted_problems(made.manifest["spec"]["template"]["spec"], "pod")) == ()


def relaxed(**more: Any) -> OperationContext:
    templates = TEMPLATES.with_template(load_template({**TEMPLATE, "allowUnrestrictedHooks": True, **more}))
    return attrs.evolve(CONTEXT, templates=templates)


def test_relaxed_rules_need_an_approval_OPS_8() -> None:
    objects = recorded(ROOTKIT)
    ask = {"parameters": {"hookName": "db-migrate"}}

    waits = start(objects, relaxed(), **ask)
    assert isinstance(waits, UnmetPrecondition)
    assert waits.reason == "AwaitingApproval"
    runs = start(objects, relaxed(), approvals=approval_for("op-1", days=1, of=OF), **ask)
    assert _made(runs).objects[0].manifest["spec"]["template"]["spec"]["hostPID"] is True
    with pytest.raises(ValidationProblems, match="allowUnrestrictedHooks"):
        relaxed(needsApproval=False)


# --- what reading it costs --------------------------------------------------------------------------------------------


def test_a_hook_is_parsed_once_a_decision() -> None:
    parsed: list[str] = []

    def parse(text: str) -> Any:
        parsed.append(text)
        return json.loads(text)

    _made(start(recorded(hook()), attrs.evolve(CONTEXT, parse_yaml=parse)))

    assert len(parsed) == 1


def test_a_hook_that_is_too_long_is_not_parsed() -> None:
    def parse(_text: str) -> Any:
        raise AssertionError("not to be parsed")

    long = hook({**HOOK_SPEC, "note": "x" * LARGEST_HOOK})
    told = refused(start(recorded(long), attrs.evolve(CONTEXT, parse_yaml=parse)))

    assert "256 KiB" in told


def test_a_release_that_unpacks_to_too_much_is_not_unpacked() -> None:
    objects = recorded(hook())
    bomb = gzip.compress(b" " * (LARGEST_RELEASE + 1))

    told = refused(start({**objects, RECORD: {**objects[RECORD], "data": packed(bomb)}}))

    assert "more than 4 MiB" in told


@pytest.mark.parametrize(
    "data",
    [
        {},
        None,
        {"release": "%%%"},
        {"release": ""},
        {"release": 7},
        packed(b"\x1f\x8b\x08garbage"),
        packed(gzip.compress(b"{}" * 99)[:-9]),
        packed(b"[" * 100_000),
        packed(b'{"hooks": ' + b"[" * 100_000),
        packed(b'{"hooks": "nonsense"}'),
        packed(b'{"chart": 7}'),
    ],
)
def test_a_release_that_cannot_be_read_is_named_and_not_shown_OPS_8(data: Any) -> None:
    objects = recorded(hook())

    told = refused(start({**objects, RECORD: {**objects[RECORD], "data": data}}))

    assert RECORD.name in told


@pytest.mark.parametrize("spec", [None, 7, {}, {"template": 7}, {"template": {"spec": {"containers": {}}}}])
def test_a_hook_without_a_pod_template_is_no_job_OPS_8(spec: Any) -> None:
    assert "no Job with a pod template" in refused(start(recorded(hook(spec))))


def test_what_the_release_has_instead_is_told_OPS_8() -> None:
    told = refused(start(recorded(hook(name="other"), hook(name="a-pod", kind="Pod"))))

    assert told == "the deployed release nextcloud has no Job hook db-migrate; it has other"


@given(json_values(10))
def test_any_release_is_judged_without_raising(hooks: Any) -> None:
    objects = recorded(hook())
    start({**objects, RECORD: forged(objects[RECORD], hooks=hooks)})


def test_the_worlds_own_hook_is_asked_for() -> None:
    assert GOOD[OF] == {"hookName": "db-migrate"}
    assert UID in str(recorded(hook())[RELEASE])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"serviceAccount": "old"},
        {"serviceAccountName": "new"},
        {"serviceAccount": "old", "serviceAccountName": "new"},
    ],
)
@pytest.mark.parametrize("restart", [None, "Always", "Never", "OnFailure"])
@pytest.mark.parametrize("unrestricted", [False, True])
def test_a_pod_of_a_hook_has_one_account_and_ends(
    fields: dict[str, str], restart: str | None, unrestricted: bool
) -> None:
    """The old name of the field is gone, so that two accounts never disagree; Always is no policy of a Job's pod."""
    context = EngineContext(SETTINGS, attrs.evolve(load_template(TEMPLATE), allow_unrestricted_hooks=unrestricted))
    spec = {"containers": [{"name": "a"}], **fields, **({"restartPolicy": restart} if restart else {})}

    pod = helm_hook_job._pod(spec, context)

    account = fields.get("serviceAccountName") or fields.get("serviceAccount") or (None if unrestricted else RUNNER)
    expected = {
        "containers": [{"name": "a"}],
        "restartPolicy": restart if restart in ("Never", "OnFailure") else "Never",
        **({"serviceAccountName": account} if account else {}),
        **({"automountServiceAccountToken": False} if account == RUNNER else {}),
    }
    assert pod == expected
