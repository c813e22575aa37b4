"""What of the states of Flux's objects is compared: the same for real and simulated controllers.

Left out is what differs from run to run (times, sizes, uids). Digests of charts and names of
sources are replaced by what they stand for, so that the rest can be equal to the character.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CORE_EVENT
from tests.support.flux_stage import SHOWN, Stage

Sequences = dict[str, list[dict[str, Any]]]
"""What each object went through, by kind and name."""

_COPIED: Final = (
    "observedGeneration",
    "lastAttemptedGeneration",
    "lastAttemptedReleaseAction",
    "lastAttemptedRevision",
    "lastHandledForceAt",
    "lastHandledReconcileAt",
    "lastHandledResetAt",
    "failures",
    "installFailures",
    "upgradeFailures",
    "helmChart",
    "storageNamespace",
    "observedChartName",
)
_DURATION: Final = re.compile(r"\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|µs|s)\b")
_ANSWER: Final = re.compile(r"((?:MANIFEST_UNKNOWN|UNAUTHORIZED|UNAVAILABLE): ).*", re.DOTALL)
_TIME_IS_UP: Final = re.compile(
    r"timeout waiting for: \[[^]]*\]|context deadline exceeded|client rate limiter Wait .* exceed context deadline"
)
"""What Helm says when an action's time is up depends on what it was just doing."""
_LOGS: Final = re.compile(r"\n\nLast Helm logs:.*", re.DOTALL)
_GUESS: Final = re.compile(
    r' \(possibly because of ".*?" while trying to verify candidate authority certificate ".*?"\)'
)
"""What Go adds about a certificate that it does not trust. It was not the same in two runs of one scenario."""
_SIZE: Final = re.compile(r"of size \S+")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def sequences_of(stage: Stage) -> Sequences:
    """Return the states of every object of a stage: the first whole, of the others what changed, None for what went.

    A state that an object was in before is left out: how often a controller tries again is not compared.
    """
    sequences: Sequences = {}
    known: dict[str, list[dict[str, Any]]] = {}
    for kind, manifest in stage.states():
        if kind not in SHOWN:
            continue
        name = _named(manifest["metadata"]["name"], stage)
        key, state = f"{kind.kind}/{name}", _replaced(_state(manifest), stage)
        states = known.setdefault(key, [{}])
        if state not in states:
            sequences.setdefault(key, []).append(changes(states[-1], state))
            states.append(state)
    return sequences


def events_of(stage: Stage) -> Sequences:
    """Return the Events about each object in their order, without repeats and without Helm's logs."""
    sequences: Sequences = {}
    shown = {kind.kind for kind in SHOWN}
    for kind, manifest in stage.states():
        if kind != CORE_EVENT or manifest.get("gone") or manifest["involvedObject"]["kind"] not in shown:
            continue
        about, text = manifest["involvedObject"], _LOGS.sub("", manifest["message"])
        told = {"event": _named(f"{manifest['type']} {manifest['reason']}: {text}", stage)}
        known = sequences.setdefault(f"Events of {about['kind']}/{_named(about['name'], stage)}", [])
        if told not in known:
            known.append(told)
    return sequences


def ends_of(stage: Stage) -> Sequences:
    """Return how many objects of each kind ended in which state, for scenarios with many ways to the same end."""
    last = {(kind, manifest["metadata"]["name"]): manifest for kind, manifest in stage.states() if kind in SHOWN}
    ends: Sequences = {}
    for (kind, _), manifest in last.items():
        state, known = _replaced(_state(manifest), stage), ends.setdefault(kind.kind, [])
        same = next((item for item in known if {**item, "objects": 0} == {**state, "objects": 0}), None)
        if same is None:
            known.append({"objects": 1, **state})
        else:
            same["objects"] += 1
    return ends


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that changed; None for those that went."""
    changed = {field: value for field, value in after.items() if before.get(field) != value}
    return {**changed, **{field: None for field in before if field not in after}}


def _state(manifest: Manifest) -> dict[str, Any]:
    if manifest.get("gone"):
        return {"gone": True}
    meta, status = manifest["metadata"], manifest.get("status") or {}
    state: dict[str, Any] = {"generation": meta.get("generation"), "finalizers": list(meta.get("finalizers") or ())}
    if meta.get("deletionTimestamp"):
        state["deleting"] = True
    state |= {field: status[field] for field in _COPIED if field in status}
    if "artifact" in status:
        state["revision"] = status["artifact"]["revision"]
    if "conditions" in status:
        state["conditions"] = [_condition(item) for item in status["conditions"]]
    if "history" in status:
        state["history"] = [_snapshot(entry) for entry in status["history"]]
    return state


def _condition(item: Mapping[str, Any]) -> str:
    head = f"{item['type']}={item['status']}/{item['reason']} of generation {item.get('observedGeneration')}"
    return f"{head}: {item['message']}"


def _snapshot(entry: Mapping[str, Any]) -> str:
    chart = f"{entry['chartName']}@{entry['chartVersion']}"
    action = f" by {entry['action']}" if "action" in entry else ""
    tests = f" tests {sorted(entry['testHooks'])}" if "testHooks" in entry else ""
    return f"v{entry['version']} {entry['status']} {chart}{action}{tests}"


def _replaced(value: Any, stage: Stage) -> Any:
    if isinstance(value, str):
        return _named(value, stage)
    if isinstance(value, list):
        return [_replaced(item, stage) for item in value]
    return {key: _replaced(item, stage) for key, item in value.items()} if isinstance(value, dict) else value


def _named(text: str, stage: Stage) -> str:
    """Return the text with what is drawn in each run replaced by what it stands for."""
    for actual, meaning in _replacements(stage):
        text = text.replace(actual, meaning)
    text = _GUESS.sub("", _TIME_IS_UP.sub("<the time is up>", text))
    text = _ANSWER.sub(r"\1<what the registry says>", _DIGEST.sub("<digest>", text))
    return _DURATION.sub("<duration>", _SIZE.sub("of <size>", text))


def _replacements(stage: Stage) -> Iterator[tuple[str, str]]:
    place = stage.oci.removeprefix("oci://")
    yield place, "<registry>"
    yield f"{place.partition('/')[0]}/v2/{stage.namespace}", "<registry API>"
    yield stage.http, "<repository>"
    untrusted = stage.untrusted.removeprefix("oci://")
    yield untrusted, "<untrusted registry>"
    yield f"{untrusted.partition('/')[0]}/v2/", "<untrusted registry API>"
    for digest, chart in stage.digests.items():
        yield digest, f"<digest of {chart}>"
        yield f"+{digest.removeprefix('sha256:')[:12]}", f"+<digest of {chart}>"
    yield from stage.names.items()
    yield stage.namespace, "<namespace>"


def differences(left: Sequences, right: Sequences) -> Sequence[str]:
    """Return what differs, object by object, in lines for a person."""
    return [
        f"{name} [{position}]\n    {before}\n    {after}"
        for name in sorted({*left, *right})
        for position, (before, after) in enumerate(zip_longest(left.get(name, []), right.get(name, [])))
        if before != after
    ]
