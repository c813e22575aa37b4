"""What `box check` says of a box that cannot settle, reads itself, or asks whether a field is there (PH-4, PH-6)."""

from typing import Any

import pytest

from purekube.boxes.compiler.compile import examine
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from tests.support.boxes import config, crd, deployment, document, examined


def problems(*resources: Any, **spec: Any) -> list[str]:
    own = CrdVersions.of(crd())
    examined = examine(read_box(document(*resources, **spec)), own, Schemas([own]))
    return [problem.message for problem in examined.problems]


def status(**fields: str) -> dict[str, Any]:
    return {"fields": fields}


@pytest.mark.parametrize(
    "fields",
    [
        {"ready": "${self.?status.?ready.orValue(0) + 1}"},
        {
            "ready": "${size(self.?status.?address.orValue(''))}",
            "address": "${string(self.?status.?ready.orValue(0))}x",
        },
        {"address": "${json(self.?status)}"},
        {"address": "${hash(self)}"},
        {"address": "${self.metadata.resourceVersion}"},
    ],
    ids=["counts up", "in a circle", "all of the status", "the whole object", "the version of each write"],
)
def test_a_status_that_is_made_of_itself_is_refused(fields: dict[str, str]) -> None:
    (first, *_) = problems(config("settings"), status=status(**fields))
    assert first.endswith("which is made of it: it would never settle")


def test_a_condition_that_reads_its_own_message_is_refused() -> None:
    condition = {"type": "Told", "status": "${true}", "message": "${json(self.?status.?conditions)}"}
    (told_,) = problems(config("settings"), status={"conditions": [condition]})
    assert told_ == "reads self.status.conditions, which is made of it: it would never settle"


def test_a_field_of_the_status_may_read_what_others_write_and_what_is_made_before_it() -> None:
    fields = {"ready": "${size(self.?status.?conditions.orValue([]))}", "address": "${self.metadata.uid}"}
    assert problems(config("settings"), status=status(**fields)) == []


def test_a_resource_that_reads_itself_is_told_so_and_not_that_it_does_not_exist() -> None:
    (message,) = problems(config("settings", data={"a": "${settings.metadata.name}"}))
    assert message == "settings cannot read itself: this is what it is made of. Read self, or another resource"
    (other,) = problems(config("settings", data={"a": "${setting.metadata.name}"}), config("behind"))
    assert other.startswith("undeclared reference to 'setting'")


HOST = {"a": "${self.spec.host}"}


@pytest.mark.parametrize(
    ("asked", "is_there"),
    [
        ([], False),
        (["${has(self.spec.host)}"], True),
        (["${self.spec.?replicas.orValue(1) > 1}", "${has(self.spec.host)}"], True),
        (["${has(self.spec.host) && self.spec.host != ''}"], True),
        (["${has(self.spec.host) || has(self.spec.free)}"], False),
        (["${!has(self.spec.host)}"], False),
        (["${has(self.spec.free)}"], False),
    ],
)
def test_what_include_when_asks_is_there_for_the_resource_and_for_no_other(asked: list[str], is_there: bool) -> None:
    assert (problems(config("settings", data=HOST, includeWhen=asked)) == []) is is_there
    beside = problems(config("settings", data=HOST, includeWhen=asked), config("beside", data=HOST))
    assert any("spec.host may be absent" in message for message in beside)


def test_what_include_when_asks_is_there_for_gates_lists_and_readiness() -> None:
    host = ["${has(self.spec.host)}"]
    when, ready = ["${self.spec.host != ''}"], ["${self.spec.host == 'x'}"]
    assert problems(config("settings", data=HOST, includeWhen=host, when=when, readyWhen=ready)) == []
    listed = {"p": "${[self.spec.host]}", "key": "${p}"}
    assert problems(config("each", "each-${p}", HOST, includeWhen=host, forEach=listed)) == []


@pytest.mark.parametrize(
    ("asked", "is_warned"),
    [
        ("web.?status.?readyReplicas.orValue(0) > 0", True),
        ("web.?status.hasValue()", True),
        ("self.?status.?ready.orValue(0) > 0", True),
        ("webs.exists(w, has(w.status))", True),
        ("self.spec.?host.orValue('') == 'x'", False),
        ("web.metadata.name == 'web'", False),
        ("has(self.spec.free)", False),
        ("has(self.spec.free) && has(self.spec.free.status)", False),
    ],
)
def test_what_comes_and_goes_with_a_status_is_warned_of(asked: str, is_warned: bool) -> None:
    each = deployment("webs", "webs-${p}", forEach={"p": "${['a']}", "key": "${p}"})
    chosen = config("settings", includeWhen=["${self.spec.image != ''}", f"${{{asked}}}"])
    found = examined(deployment("web"), each, chosen)
    told = [(warning.place.path, warning.message) for warning in found.warnings]

    words = "includeWhen reads a status: the ConfigMap comes and goes with it; `when` would hold instead"
    assert told == ([("spec.resources[2].includeWhen[1]", words)] if is_warned else [])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"replicas": "2"}, "expected integer, found a string"),
        ({"paused": 1}, "expected boolean, found a number"),
        ({"paused": None}, "expected boolean, found null"),
        ({"strategy": {"type": 1}}, "expected string, found a number; quote it"),
        ({"strategy": {"type": True}}, "expected string, found a boolean; quote it"),
        ({"strategy": {"type": None}}, "expected string, found null"),
    ],
)
def test_only_a_value_that_would_be_a_text_is_to_be_quoted(spec: dict[str, Any], message: str) -> None:
    assert problems(deployment("web", spec=spec)) == [message]
