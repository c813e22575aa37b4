"""Remedies for people whose object has a problem: commands to run, and advice as a sentence (SEE-1)."""

import re
from collections.abc import Iterable
from shlex import quote
from typing import Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.controller.managed_fields import other_holders
from vworkspace_core.api.advice import (
    CHART_UNREACHABLE,
    GIVEN_UP,
    VALUES_MISSING,
    Advice,
    advice_for,
    chart_unreachable,
    given_up,
    values_missing,
)
from vworkspace_core.api.installation import Installation, managing_tool
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import CLI_MANAGER, FIELD_MANAGER, IDEMPOTENCY_KEY
from vworkspace_core.api.reasons import InstanceConditionType, InstanceReason
from vworkspace_core.api.remedies import APPLY, INTO_GIT

_COMMAND: Final = re.compile(r"(?:kubectl|vworkspace-operator|openssl) [a-z](?:(?!\. [A-Z]|[`)]|\Z).)*", re.DOTALL)
"""The pattern of a shell command inside a message. The command ends with the sentence, or at `)` or a backtick."""

_SHORT: Final = {APPLICATION_INSTANCE: "appinst", OPERATION: "op"}
"""The short names of kinds, as in the operator's CRDs."""

_OURS: Final = (APPLICATION_INSTANCE, OPERATION, CLUSTER)

_DECIDING: Final = {
    FIELD_MANAGER: "the control plane",
    "kustomize-controller": "GitOps, by Flux's kustomize-controller,",
    "helm-controller": "GitOps, by Flux's helm-controller,",
    "argocd-controller": "GitOps, by Argo CD,",
}
"""The field managers that set a field again after any change of it, with the name to show for each."""

_QUOTING: Final = frozenset(
    {"ResourceFailed", "ResourceNotReady", "WaitingForDependency", "WaitingForExternal", "Progressing"}
)
"""The reasons with which the message about an object of a box quotes another object, whose text may come from a chart.

They are values of `GraphReason`, which is not imported because that would slow the start of the command `status`.
"""


@attrs.frozen
class Help:
    """The remedies for an obstacle: commands and advice.

    All commands would succeed now, and one of them solves the obstacle. The advice is a sentence that says who else can
    help.
    """

    remedies: tuple[str, ...] = ()
    advice: str = ""
    needs_person: bool = False
    """True if the obstacle does not go away until a person helps."""


def help_for(kind: Kind, manifest: Manifest, type_: str, reason: str, message: str) -> Help:
    """Return the remedies for the condition of type `type_` that `manifest` has with this reason and message.

    For an object of a kind that is not the operator's own, the remedies are the commands in the message, unless it
    quotes another object.
    """
    if kind not in _OURS and reason in _QUOTING:
        return Help()
    if kind not in _OURS:
        return Help(commands := commands_in(message), needs_person=bool(commands))
    advice = advice_for(kind.kind, reason)
    if advice is None and (kind, type_) == (APPLICATION_INSTANCE, InstanceConditionType.STALLED):
        advice = GIVEN_UP
    if advice is None:
        return Help()
    if advice is GIVEN_UP:
        advice = given_up(_source(manifest), _former_version(manifest))
    if advice is CHART_UNREACHABLE:
        advice = chart_unreachable(str(get_path(manifest, "status", "deployedChart", "version") or ""))
    if advice is VALUES_MISSING:
        advice = values_missing(_command_for_values(manifest, message))
    if advice.names_command and (named := commands_in(message)):
        if reason == InstanceReason.WAITING_FOR_CHILD_RESOURCES:
            named = named[-1:]  # what is before it quotes Flux
        return Help(named, advice.text, not advice.is_automatic)
    return Help(_verb(kind, manifest, advice), advice.text, not advice.is_automatic)


def _source(manifest: Manifest) -> str:
    """Return, as text, who applies the object: a job of the control plane, or a tool.

    Return an empty string if it is neither.
    """
    if get_path(manifest, "metadata", "annotations", IDEMPOTENCY_KEY):
        return "the control plane"
    tool, name, place = managing_tool(manifest)
    return Installation(keeper=tool, name=name, place=place).managed_by if tool else ""


def _command_for_values(manifest: Manifest, message: str) -> str:
    """Return the command that stores an instance's values from a file FILE in the object that spec.values names.

    Return an empty string if `message`, which Flux gave, is about another object. Where the object is there without the
    key, the command adds the key.
    """
    for field, words in (("secretRef", "secret generic"), ("configMapRef", "configmap")):
        named = get_path(manifest, "spec", "values", field)
        name, key = (str(get_path(named, each) or "") for each in ("name", "key"))
        namespace = str(get_path(manifest, "metadata", "namespace"))
        if name and key and f"'{namespace}/{name}'" in message:
            made = f"kubectl create {words} {quote(name)} -n {namespace} --from-file={quote(key)}=FILE"
            return made if message.endswith(f'"{name}" not found') else f"{made} --dry-run=client -o yaml {APPLY}"
    return ""


def _former_version(manifest: Manifest) -> str:
    """Return the version of the chart that is deployed.

    Return an empty string if it is the version in the spec, or if no version is known to be deployed.
    """
    deployed = str(get_path(manifest, "status", "deployedChart", "version") or "")
    return "" if deployed == get_path(manifest, "spec", "chart", "version") else deployed


def _verb(kind: Kind, manifest: Manifest, advice: Advice) -> tuple[str, ...]:
    """Return the command that applies the remedy `advice`, as a tuple.

    The tuple is empty if the advice names no command, or if the command would be refused.
    """
    if not advice.verb or (advice.verb == "resume" and not may_resume(manifest)):
        return ()
    return (f"vworkspace-operator {advice.verb} {command_line_name(ref_of(manifest, kind))}",)


def may_resume(manifest: Manifest) -> bool:
    """Report whether the instance `manifest` is suspended and a person may resume it.

    A person may not if it was suspended by something that would suspend it again (see `decides_about_suspend`).
    """
    return get_path(manifest, "spec", "suspend") is True and not decides_about_suspend(manifest)


def decides_about_suspend(manifest: Manifest) -> str:
    """Return the name of what decides about `spec.suspend` of an instance, and would set the field again.

    It is the control plane, or a tool that applies files from Git. Return an empty string if there is none.
    """
    holders = other_holders(manifest, CLI_MANAGER, "spec", "suspend")
    return next((name for manager, name in _DECIDING.items() if manager in holders), "")


def commands_in(message: str) -> tuple[str, ...]:
    """Return the shell commands in a message of the operator."""
    return tuple(match.group().rstrip(" .") for match in _COMMAND.finditer(message))


def lead_of(message: str, advice: str, command: str) -> str:
    """Return the words before `command` in `message` that say what to do with its output, such as add it to Git.

    Return an empty string if it is enough to run the command. If `message` does not contain the command, return
    `advice`, the sentence that says who else can help.
    """
    before, named, _ = message.partition(command)
    if not named:
        return advice
    words = [*INTO_GIT.finditer(before)]
    return words[-1].group() if words and not before[words[-1].end() :].strip() else ""


def parts_of(message: str, remedies: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    """Return the parts of a message in order, each with a flag that is True if the part is one of `remedies`.

    A screen offers to copy the parts with the flag.
    """
    parts: list[tuple[str, bool]] = []
    for command in remedies:
        before, named, rest = message.partition(command)
        if named:
            parts += [(before, False), (command, True)]
            message = rest
    parts.append((message, False))
    return tuple((text, is_command) for text, is_command in parts if text.strip(" .`)"))


def without_commands(message: str, remedies: Iterable[str]) -> str:
    """Return the message with a placeholder for each remedy, for a screen that shows the remedies below it."""
    parts = parts_of(message, remedies)
    return "".join("(command below)" if is_command else text for text, is_command in parts).strip()


def short(ref: ObjectRef) -> str:
    """Return kind and name of the object `ref` as `kind/name`, such as `appinst/crm`.

    The operator's own kinds have their short names, all other kinds their name in lower case.
    """
    return f"{_SHORT.get(ref.kind, ref.kind.kind.lower())}/{ref.name}"


def command_line_name(ref: ObjectRef) -> str:
    """Return the arguments that name the object `ref` in a command of the operator, such as `appinst/crm -n org-a`."""
    return short(ref) + (f" -n {ref.namespace}" if ref.namespace else "")
