"""Commands in messages, and the words around them (SEE-1)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.overview.remedy import (
    command_line_name,
    commands_in,
    may_resume,
    parts_of,
    short,
    without_commands,
)


@pytest.mark.parametrize(
    ("message", "commands"),
    [
        ("", ()),
        ("nothing to run", ()),
        ("To fix: kubectl label ns a b=c", ("kubectl label ns a b=c",)),
        ("To fix: kubectl label ns a b=c.", ("kubectl label ns a b=c",)),
        ("Run kubectl get pods -n a.b. Then wait.", ("kubectl get pods -n a.b",)),
        (
            "run `vworkspace-operator check` (or openssl rand -hex 8)",
            ("vworkspace-operator check", "openssl rand -hex 8"),
        ),
        ("kubectl Get pods", ()),
        ("kubectl patch x -p '{\n}'", ("kubectl patch x -p '{\n}'",)),
    ],
)
def test_a_command_ends_with_its_sentence_or_with_what_encloses_it(message: str, commands: tuple[str, ...]) -> None:
    assert commands_in(message) == commands


MESSAGE = "First: kubectl get a. Then kubectl get b. Done"


@pytest.mark.parametrize(
    ("remedies", "parts", "without"),
    [
        ((), ((MESSAGE, False),), MESSAGE),
        (
            ("kubectl get a", "kubectl get b"),
            (
                ("First: ", False),
                ("kubectl get a", True),
                (". Then ", False),
                ("kubectl get b", True),
                (". Done", False),
            ),
            "First: (command below). Then (command below). Done",
        ),
        (("kubectl get c",), ((MESSAGE, False),), MESSAGE),
        ((MESSAGE,), ((MESSAGE, True),), "(command below)"),
        (
            ("kubectl get",),
            (("First: ", False), ("kubectl get", True), (" a. Then kubectl get b. Done", False)),
            "First: (command below) a. Then kubectl get b. Done",
        ),
    ],
)
def test_a_message_is_split_at_its_commands(remedies: Any, parts: Any, without: str) -> None:
    assert parts_of(MESSAGE, remedies) == parts
    assert without_commands(MESSAGE, remedies) == without


def test_what_is_left_of_a_message_without_words_is_no_part() -> None:
    assert parts_of("kubectl get a.", ("kubectl get a",)) == (("kubectl get a", True),)


def test_our_own_kinds_have_short_names() -> None:
    refs = [ObjectRef(kind, "ns", "a") for kind in (APPLICATION_INSTANCE, OPERATION, CONFIG_MAP)]

    assert [short(ref) for ref in refs] == ["appinst/a", "op/a", "configmap/a"]
    assert command_line_name(refs[0]) == "appinst/a -n ns"
    assert command_line_name(ObjectRef(CLUSTER, None, "c")) == "cluster/c"


@pytest.mark.parametrize(
    ("suspend", "manager", "may"),
    [
        (True, "kubectl", True),
        (True, "vworkspace-operator", False),
        (True, "vworkspace-operator-cli", True),
        (False, "kubectl", False),
        ("true", "kubectl", False),
    ],
)
def test_a_person_may_resume_what_the_control_plane_did_not_suspend(suspend: Any, manager: str, may: bool) -> None:
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {"f:suspend": {}}}}

    assert may_resume({"metadata": {"managedFields": [entry]}, "spec": {"suspend": suspend}}) is may
