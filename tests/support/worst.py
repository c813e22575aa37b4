"""The worst that an API server takes, and what a chart, an engine or a control plane may say (RUN-11).

Each `Grower` makes an object of a size that can be doubled; `full` is the size at which kube-apiserver (a request of
3 MiB, etcd's 1.5 MiB, texts of 32 kB in conditions, 262 kB of annotations) just takes it. `CORPUS` holds them all.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from tests.support.instance_worlds import deployed, fetched, flux_condition, history, instance_manifest
from tests.support.operation_worlds import OP_UID, operation_manifest

DEEPEST = 600
"""Levels that every decoder takes. What is deeper does not come this far: the adapters cut it off, and say so (H2)."""

Tree = dict[str, Any]


@attrs.frozen
class Grower:
    """Something that grows: `make(n)`, with the size at which the API server takes no more."""

    name: str
    full: int
    make: Callable[[int], Any] = attrs.field(repr=False)

    def __str__(self) -> str:
        return self.name


def deep(levels: int, key: str | None = "a") -> Any:
    """Objects in objects, or lists in lists where `key` is None."""
    found: Any = "x"
    for _ in range(levels):
        found = [found] if key is None else {key: found}
    return found


# --- texts that cost a redactor or a rule more than they are long -----------------------------------------------------


def spoken(before: str, again: str, after: str = "") -> Callable[[int], str]:
    """`again` as often as fits into so many characters, between two others."""
    return lambda size: before + again * max(1, (size - len(before) - len(after)) // len(again)) + after


LONGEST_TEXT = 32_768
TEXTS = tuple(
    Grower(name, LONGEST_TEXT, make)
    for name, make in {
        "a word that ends in commas (H1)": spoken("token=a", ",", "b"),
        "a word that ends in brackets (H1)": spoken("token=a", ")", "b"),
        "beginnings of a token (H1)": spoken("", "eyJaaaaaaaa-"),
        "beginnings of a token with a dot": spoken("", "eyJaaaaaaaa."),
        "dots behind a token": spoken("eyJaaaaaaaa.a", ".", " "),
        "dashes": spoken("token", "-"),
        "words with dashes": spoken("", "a-"),
        "words that end as keys do": spoken("", "secret"),
        "keys with spaces": spoken("password", " "),
        "keys without a value": spoken("", "password: "),
        "keys with values": spoken("", "password: a "),
        "keys and quotes": spoken("", 'password: "'),
        "a quote that does not end": spoken('password: "', "a"),
        "quotes that are escaped": spoken('password: "', '\\"'),
        "backslashes": spoken("password", "\\"),
        "backslashes and quotes": spoken("", 'password\\\\"'),
        "a block": spoken("password: |", "\n a"),
        "blocks": spoken("", "password: |\n a\n"),
        "a list of quoted texts": spoken("password: [", '"a", '),
        "lists that do not end": spoken("", 'password: ["a" '),
        "brackets": spoken("password: ", "["),
        "braces": spoken("password: ", "{ "),
        "addresses": spoken("", "://"),
        "an address with a user that does not end": spoken("https://", "a:"),
        "an address with at signs": spoken("https://", "@"),
        "an address with at signs and digests": spoken("https://", "a:b@sha256:"),
        "slashes": spoken("https://", "/"),
        "keys of a PEM": spoken("", "-----BEGIN PRIVATE KEY"),
        "a PEM that does not end": spoken("-----BEGIN PRIVATE KEY-----", "a"),
        "beginnings of a PEM": spoken("-----BEGIN ", "A "),
        "bearers": spoken("", "bearer "),
        "a bearer and spaces": spoken("bearer", " "),
        "authorizations": spoken("", "authorization: "),
        "an authorization of words": spoken("authorization: ", "a "),
        "an authorization and spaces": spoken("authorization: a", " "),
        "approvals": spoken("", "vws1."),
        "an approval of dashes": spoken("vws1.", "-"),
        "flags": spoken("", "--token "),
        "a flag of dashes": spoken("", "--a-"),
        "a flag and spaces": spoken("--token", " "),
        "line ends": spoken("password:", "\n"),
        "letters": spoken("", "a"),
        "spaces": spoken("", " "),
        "emoji": spoken("password: ", "\U0001f600"),
        "letters that fold to two": spoken("password: ", "ß"),
    }.items()
)
"""Each text repeats what some rule begins with, or what it goes on with and does not end."""


# --- objects of our kinds -------------------------------------------------------------------------------------------


def instance(path: str, make: Callable[[int], Any], full: int, name: str = "") -> Grower:
    """An ApplicationInstance with something that grows at `path` (dots; the last step may hold none)."""
    return Grower(name or f"instance: {path}", full, lambda size: _with(instance_manifest(), path, make(size)))


def operation(of: str, path: str, make: Callable[[int], Any], full: int, name: str = "") -> Grower:
    """The same for an Operation of that template."""
    return Grower(name or f"operation {of}: {path}", full, lambda size: _with(operation_manifest(of), path, make(size)))


def _with(manifest: Mapping[str, Any], path: str, value: Any) -> Tree:
    found = copy.deepcopy(dict(manifest))
    at: Any = found
    *steps, last = path.split(".")
    for step in steps:
        at = at.setdefault(step, {})
    at[last] = value
    return found


def listed(item: Any) -> Callable[[int], list[Any]]:
    return lambda size: [item] * size


def keyed(key: Callable[[int], str], value: Any) -> Callable[[int], Tree]:
    return lambda size: {key(number): value for number in range(size)}


def letters(size: int) -> str:
    return "a" * size


def conditions(size: int) -> list[Tree]:
    return [flux_condition(f"Type{number}", "True", "Reason", "m") for number in range(size)]


KEY = 60_000
INLINE = "spec.values.inline"
INSTANCES = (
    instance(INLINE, deep, DEEPEST, "instance: values nested deep"),
    instance(f"{INLINE}.a", lambda size: deep(size, None), DEEPEST, "instance: lists nested deep"),
    instance(f"{INLINE}.a", listed("x"), 100_000, "instance: a long list"),
    instance(f"{INLINE}.a", listed({}), 60_000, "instance: a long list of objects"),
    instance(f"{INLINE}.password", listed("x"), 100_000, "instance: a long list of secrets (H6)"),
    instance(INLINE, keyed(lambda n: f"password{n}password", "x"), 40_000, "instance: many secret keys (H6)"),
    instance(INLINE, keyed(str, 1), 100_000, "instance: many keys"),
    instance(INLINE, lambda size: {"k" * size: {"password": "x"}}, KEY, "instance: a long key above a secret (H1)"),
    instance(
        INLINE,
        lambda size: {spoken("token=a", ",", "b")(size): {"password": "x"}},
        KEY,
        "instance: a key that is hard to redact above a secret (H1)",
    ),
    instance(INLINE, lambda size: {"a": letters(size)}, 1_400_000, "instance: a long text"),
    instance(INLINE, lambda size: {"a": "-----BEGIN A" * (size // 12)}, 1_400_000, "instance: beginnings of a PEM"),
    instance("spec", lambda size: {"appRef": {"catalogId": "n"}, **keyed(str, 1)(size)}, 100_000),
    instance("spec.chart.url", spoken("oci://", "a/"), 1_400_000),
    instance("spec.chart.version", spoken("1.2.3-", "a."), 1_400_000),
    instance("spec.chart.version", letters, 1_400_000, "instance: a version without an end"),
    instance("spec.chart.name", letters, 1_400_000),
    instance("spec.release.name", spoken("", "a-"), 1_400_000),
    instance("spec.integrations.ingress.host", spoken("", "a."), 1_400_000),
    instance("spec.values.secretRef", keyed(str, 1), 100_000),
    instance("metadata.labels", keyed(lambda n: f"example.com/l{n}", "v"), 20_000),
    instance("metadata.annotations", keyed(lambda n: f"example.com/a{n}", "v"), 10_000),
    instance("metadata.annotations", lambda size: {"vworkspace.io/retry": letters(size)}, 262_000, "a long retry"),
    instance("metadata.finalizers", lambda size: [f"example.com/f{n}" for n in range(size)], 40_000),
    instance("metadata.ownerReferences", listed({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"}), 20_000),
    instance("metadata.managedFields", listed({"manager": "m", "fieldsV1": {"f:spec": {}}}), 30_000),
    instance("status.conditions", conditions, 10_000),
    instance("status.conditions", listed(7), 100_000, "instance: conditions that are none"),
    instance("status", deep, DEEPEST),
    instance("status.releaseOverride", keyed(str, 1), 100_000),
)

RUN = "runCommand.job"
OPERATIONS = (
    operation(RUN, "spec.parameters", deep, DEEPEST),
    operation(RUN, "spec.parameters.command", listed(1), 130_000, "operation: a command of numbers (H6)"),
    operation(RUN, "spec.parameters.command", listed("x"), 100_000, "operation: a long command"),
    operation(RUN, "spec.parameters.env", listed({}), 60_000, "operation: env that is a list (H6)"),
    operation(RUN, "spec.parameters.env", keyed(lambda n: f"A{n}", "x"), 40_000),
    operation(RUN, "spec.parameters.env", keyed(lambda n: f"{n}-", "x"), 40_000, "operation: names that are none"),
    operation(RUN, "spec.parameters.image", spoken("registry.example/", "a-"), 250_000),
    operation(RUN, "spec.parameters.image", spoken("", "a/"), 250_000, "operation: an image of slashes"),
    operation(RUN, "spec.parameters", lambda size: {"k" * size: 1}, KEY, "operation: a long key"),
    operation(RUN, "spec.parameters", keyed(str, 1), 100_000, "operation: many keys"),
    operation("backup.velero", "spec.parameters.includedResources", listed("x y"), 60_000),
    operation("backup.velero", "spec.parameters.retention", letters, 250_000),
    operation("upgrade.helm", "spec.parameters.valuesPatch", deep, DEEPEST),
    operation(
        "upgrade.helm",
        "spec.parameters.valuesPatch",
        lambda n: {"password": ["x"] * n},
        60_000,
        "operation: secrets in a patch",
    ),
    operation("upgrade.helm", "spec.parameters.targetVersion", letters, 250_000),
    operation("migration.workflow", "spec.parameters.workflowTemplateParameters", keyed(str, "x"), 30_000),
    operation("restore.snapshot", "spec.parameters.size", spoken("", "1"), 250_000),
    operation(RUN, "spec.approvals", lambda size: {"required": True, "claim": letters(size)}, 1_400_000),
    operation(RUN, "spec.targetRef.name", letters, 1_400_000),
    operation(RUN, "spec", keyed(str, 1), 100_000, "operation: a spec that is none"),
    operation(RUN, "metadata.annotations", keyed(lambda n: f"ops.vworkspace.io/{n}", "v"), 10_000),
    operation(RUN, "status.conditions", conditions, 10_000),
    operation(RUN, "status", deep, DEEPEST),
    operation(RUN, "status.outputs", keyed(str, "x"), 60_000),
)

JOBS = (
    Grower("job: a payload nested deep", DEEPEST, lambda size: {"payload": deep(size)}),
    Grower("job: a long list", 100_000, lambda size: {"payload": {"spec": ["x"] * size}}),
    Grower("job: many keys", 100_000, lambda size: {"payload": keyed(str, 1)(size)}),
    Grower("job: a long id", 1_400_000, lambda size: {"id": letters(size)}),
    Grower("job: a long key", 1_400_000, lambda size: {"idempotencyKey": letters(size)}),
    Grower("job: numbers that are none", 100_000, lambda size: {"payload": {"spec": [float("nan")] * size}}),
    Grower("job: halves of letters", 100_000, lambda size: {"payload": {"spec": ["\ud800"] * size}}),
)

# --- what others say of their objects ---------------------------------------------------------------------------------


ENTRY: Tree = {
    **history(),
    "name": "nextcloud",
    "namespace": "org-myteam",
    "chartName": "nextcloud",
    "version": 1,
    "digest": f"sha256:{'0' * 64}",
    "configDigest": f"sha256:{'0' * 64}",
    "firstDeployed": "2026-06-01T10:00:00Z",
    "lastDeployed": "2026-06-01T10:00:00Z",
}


def status(**more: Any) -> Tree:
    """What Flux says of a release, whole enough for its definition."""
    return {**deployed(), "history": [ENTRY], **more}


def in_condition(message: str) -> Tree:
    """A status of a HelmRelease that is not Ready for this reason."""
    return status(conditions=[flux_condition("Ready", "False", "UpgradeFailed", message)])


STATUSES = (
    *(Grower(f"flux: {text.name}", text.full, lambda n, text=text: in_condition(text.make(n))) for text in TEXTS),  # type: ignore[misc]
    Grower("flux: many conditions", 10_000, lambda size: status(conditions=conditions(size))),
    Grower("flux: a long history", 2_000, lambda size: status(history=[ENTRY] * size)),
    Grower("flux: conditions that are none", 100_000, lambda size: status(conditions=[7] * size)),
    Grower("flux: a status nested deep", DEEPEST, lambda size: status(inventory=deep(size))),
    Grower("flux: a long revision", 1_000_000, lambda size: status(lastAttemptedRevision=letters(size))),
    Grower("flux: a long reset", 1_000_000, lambda size: status(lastHandledResetAt=letters(size))),
)


def source(**more: Any) -> Tree:
    """What Flux says of a source that it has fetched."""
    return {**fetched(), **more}


SOURCES = (
    *(
        Grower(
            f"source: {text.name}",
            text.full,
            lambda n, text=text: source(
                conditions=[flux_condition("Ready", "False", "OCIArtifactPullFailed", text.make(n))]
            ),  # type: ignore[misc]
        )
        for text in TEXTS[:4]
    ),
    Grower("source: many conditions", 10_000, lambda size: source(conditions=conditions(size))),
    Grower("source: conditions that are none", 100_000, lambda size: source(conditions=[7] * size)),
    Grower("source: an artifact nested deep", DEEPEST, lambda size: source(artifact=deep(size))),
    Grower("source: a long revision", 1_000_000, lambda size: source(artifact={"revision": letters(size)})),
    Grower("source: much metadata", 30_000, lambda size: source(artifact={"metadata": keyed(str, "x")(size)})),
)
"""What Flux says of the chart's source."""


@attrs.frozen
class EngineGrower(Grower):
    """What an engine says of the object that was made by the template `of`: the object's `status`.

    `beside` makes what stands beside that object, given its uid: pods and Events.
    """

    of: str = attrs.field(kw_only=True)
    beside: Callable[[int, str], list[Tree]] = attrs.field(default=lambda size, uid: [], repr=False, kw_only=True)


def engine(of: str, name: str, full: int, make: Callable[[int], Any], **more: Any) -> EngineGrower:
    return EngineGrower(f"{of}: {name}", full, make, of=of, **more)


def told(of: str, *path: str, **around: Any) -> Iterator[EngineGrower]:
    """Each text that is hard to redact, where an engine repeats what others said."""
    for text in TEXTS[:4]:

        def make(size: int, text: Grower = text) -> Tree:
            found: Any = text.make(size)
            for step in reversed(path):
                found = [{**CONDITION, step: found}] if step == "message" and path[0] == "conditions" else {step: found}
            return {**around, **found}

        yield engine(of, text.name, text.full, make)


CONDITION: Tree = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
SYNCED: Tree = {"lastManualSync": OP_UID, "latestMoverStatus": {"result": "Successful"}}


def many_nodes(**more: Any) -> Callable[[int], Tree]:
    return lambda size: {"phase": "Failed", "nodes": {f"n-{n}": {"id": f"n-{n}", **more} for n in range(size)}}


def pod(uid: str, **status: Any) -> Tree:
    meta = {"name": "pod-1", "namespace": "org-myteam", "ownerReferences": [{"uid": uid}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status}


def refused_pods(size: int, uid: str) -> list[Tree]:
    meta = {"namespace": "org-myteam"}
    body = {"involvedObject": {"uid": uid}, "reason": "FailedCreate", "message": spoken("token=a", ",", "b")(size)}
    return [{"apiVersion": "v1", "kind": "Event", "metadata": {**meta, "name": f"e-{n}"}, **body} for n in range(50)]


WAITING: Tree = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "m"}}}
FAILED_NODE: Tree = {"type": "Pod", "phase": "Failed", "displayName": "a", "message": "m"}
ENGINES: tuple[EngineGrower, ...] = (
    *told("runCommand.job", "conditions", "message"),
    engine("runCommand.job", "many conditions", 10_000, lambda size: {"conditions": conditions(size)}),
    engine("runCommand.job", "conditions that are none", 100_000, lambda size: {"conditions": [7] * size}),
    engine("runCommand.job", "a long reason", 1_000_000, lambda n: {"conditions": [{**CONDITION, "reason": "R" * n}]}),
    engine("runCommand.job", "a status nested deep", DEEPEST, lambda size: {"uncountedTerminatedPods": deep(size)}),
    engine("runCommand.job", "Events that say much", LONGEST_TEXT, lambda size: {}, beside=refused_pods),
    engine(
        "runCommand.job",
        "a pod of many containers",
        20_000,
        lambda size: {"active": 1},
        beside=lambda size, uid: [pod(uid, containerStatuses=[WAITING] * size)],
    ),
    engine(
        "runCommand.job",
        "a pod with many conditions",
        10_000,
        lambda size: {"active": 1},
        beside=lambda size, uid: [pod(uid, conditions=conditions(size))],
    ),
    *told("migration.workflow", "message", phase="Error"),
    engine("migration.workflow", "many nodes that failed", 5_000, many_nodes(**FAILED_NODE)),
    engine("migration.workflow", "many nodes that wait", 5_000, many_nodes(type="Suspend", phase="Running")),
    engine("migration.workflow", "nodes that are none", 100_000, lambda size: {"nodes": keyed(str, 7)(size)}),
    engine(
        "migration.workflow",
        "many outputs",
        15_000,
        lambda size: {
            "phase": "Succeeded",
            "outputs": {"parameters": [{"name": f"p{n}", "value": "v"} for n in range(size)]},
        },
    ),
    engine(
        "migration.workflow",
        "an output with a long name",
        1_000_000,
        lambda size: {"phase": "Succeeded", "outputs": {"parameters": [{"name": letters(size), "value": "v"}]}},
    ),
    engine(
        "migration.workflow",
        "long outputs",
        1_000_000,
        lambda size: {
            "phase": "Succeeded",
            "outputs": {"parameters": [{"name": "p", "value": TEXTS[0].make(size)}, {"name": "q", "value": deep(9)}]},
        },
    ),
    engine(
        "migration.workflow", "outputs nested deep", DEEPEST, lambda size: {"phase": "Succeeded", "outputs": deep(size)}
    ),
    *told("backup.velero", "failureReason", phase="Failed"),
    engine(
        "backup.velero",
        "many problems",
        60_000,
        lambda size: {"phase": "FailedValidation", "validationErrors": ["token=a,,,b"] * size},
    ),
    engine("backup.velero", "a long phase", 1_000_000, lambda size: {"phase": letters(size)}),
    engine("backup.velero", "a long end", 1_000_000, lambda size: {"phase": "Completed", "expiration": letters(size)}),
    engine(
        "backup.velero", "counts that are trees", DEEPEST, lambda size: {"phase": "Completed", "errors": deep(size)}
    ),
    engine(
        "backup.velero",
        "counts that are lists",
        100_000,
        lambda size: {"phase": "Completed", "errors": [1] * size, "progress": {"itemsBackedUp": [1] * size}},
    ),
    engine(
        "restore.velero", "a long end", 1_000_000, lambda size: {"phase": "PartiallyFailed", "warnings": letters(size)}
    ),
    engine(
        "backup.volsync",
        "long logs",
        1_000_000,
        lambda size: {"latestMoverStatus": {"result": "Failed", "logs": TEXTS[0].make(size)}},
    ),
    engine("backup.volsync", "many conditions", 10_000, lambda size: {"conditions": conditions(size)}),
    engine(
        "backup.volsync", "a long image", 1_000_000, lambda size: {**SYNCED, "latestImage": {"name": letters(size)}}
    ),
    engine("restore.volsync", "a long time", 1_000_000, lambda size: {**SYNCED, "lastSyncTime": letters(size)}),
    *told("backup.snapshot", "error", "message"),
    engine(
        "backup.snapshot", "a long content", 1_000_000, lambda size: {"boundVolumeSnapshotContentName": letters(size)}
    ),
    engine(
        "backup.snapshot",
        "a long content that is ready",
        1_000_000,
        lambda size: {
            "readyToUse": True,
            "boundVolumeSnapshotContentName": letters(size),
            "restoreSize": letters(size),
        },
    ),
    engine(
        "restore.snapshot", "many conditions", 10_000, lambda size: {"phase": "Pending", "conditions": conditions(size)}
    ),
    engine("restore.snapshot", "a long phase", 1_000_000, lambda size: {"phase": letters(size)}),
)
"""What an engine may say of the object that it works on, and what stands beside it."""

CORPUS = (*INSTANCES, *OPERATIONS)
"""Objects of our own kinds; the others are made of what is said in them."""

DEEP_IN_THE_STORE = 9_000
"""Levels that kube-apiserver takes and stores."""


def deep_json(levels: int, begin: bytes, end: bytes) -> bytes:
    """JSON nested so deep that no reader of this process may follow it."""
    return begin * levels + b"1" + end * levels
