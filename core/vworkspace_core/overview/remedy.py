"""What would help, as a command where there is one (SEE-1, U8)."""

import re
from collections.abc import Mapping
from typing import Final

from vworkspace_core.api.reasons import InstanceReason, OperationReason
from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE, OPERATION

_COMMAND: Final = re.compile(r"(?:kubectl|vworkspace-operator|flux|velero) [a-z](?:(?!\. [A-Z]|[`)]|\Z).)*", re.DOTALL)
"""A command inside a message ends with the sentence, or with what encloses it."""

_SHORT: Final = {APPLICATION_INSTANCE: "appinst", OPERATION: "op"}
"""As their definitions say."""

_MANUAL: Final[Mapping[str, str]] = {
    InstanceReason.RETRIES_EXCEEDED: "retry",
    InstanceReason.MANUALLY_SUSPENDED: "resume",
    OperationReason.AWAITING_APPROVAL: "approve",
}
"""Verb of the command line by reason."""


def remedies_for(ref: ObjectRef, reason: str, message: str) -> tuple[str, ...]:
    """The commands that a message names, or else the verb that its reason asks for."""
    if named := commands_in(message):
        return named
    verb = _MANUAL.get(reason)
    return (f"vworkspace-operator {verb} {spelled(ref)}",) if verb else ()


def commands_in(message: str) -> tuple[str, ...]:
    """The commands that a message names."""
    return tuple(match.group().rstrip(" .") for match in _COMMAND.finditer(message))


def parts_of(message: str) -> tuple[tuple[str, bool], ...]:
    """Return a message in pieces, each with whether it is a command: for a screen where commands are copied."""
    parts: list[tuple[str, bool]] = []
    at = 0
    for match in _COMMAND.finditer(message):
        command = match.group().rstrip(" .")
        parts += [(message[at : match.start()], False), (command, True)]
        at = match.start() + len(command)
    parts.append((message[at:], False))
    return tuple((text, is_command) for text, is_command in parts if text.strip(" .`)"))


def without_commands(message: str) -> str:
    """Return a message with a mark in place of each command, where the commands are shown below it."""
    return "".join("(command below)" if is_command else text for text, is_command in parts_of(message)).strip()


def short(ref: ObjectRef) -> str:
    """An object in a word, with the short name of its kind where that is ours."""
    return f"{_SHORT.get(ref.kind, ref.kind.kind.lower())}/{ref.name}"


def spelled(ref: ObjectRef) -> str:
    """An object as the command line takes it."""
    return short(ref) + (f" -n {ref.namespace}" if ref.namespace else "")
