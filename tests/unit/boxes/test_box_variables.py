"""The variables of a box's expressions: what may be read where, what is waited for, and what is told (PH-1, PH-6)."""

from typing import Any

import pytest

from purekube.apimachinery.problems import Place
from purekube.boxes.compiler.ordering import Target, descendants, inferred, wait_condition
from purekube.boxes.compiler.scoping import Variables, names_in
from purekube.cel import DYN, INT, LIMITS, STRING
from purekube.cel.parser import parse
from purekube.graph.node import Edge, Until
from tests.support.boxes import SPEC, box_of, config, crd, deployment, examined, secret

RAW = {"apiVersion": "v1", "metadata": {"name": "a", "labels": "${x}"}, "spec": {"list": [1], "plain": "text"}}


@pytest.mark.parametrize(
    ("target", "path", "until"),
    [
        (Target(RAW), "", Until.READY),
        (Target(RAW), "status", Until.READY),
        (Target(RAW), "status.x", Until.READY),
        (Target(RAW), "kind", Until.APPLIED),
        (Target(RAW), "apiVersion", Until.APPLIED),
        (Target(RAW), "metadata.name", Until.APPLIED),
        (Target(RAW), "metadata.labels.a", Until.APPLIED),
        (Target(RAW), "metadata.uid", Until.OBSERVED),
        (Target(RAW), "spec.list.x", Until.APPLIED),
        (Target(RAW), "spec.plain.x", Until.OBSERVED),
        (Target(RAW), "spec.status", Until.OBSERVED),
        (Target(), "metadata.name", Until.OBSERVED),
        (Target(), "kind", Until.APPLIED),
        (Target(), "", Until.READY),
        (Target(RAW, is_list=True), "", Until.APPLIED),
        (Target(RAW, is_list=True), "[*]", Until.READY),
        (Target(RAW, is_list=True), "[*].status.x", Until.READY),
        (Target(RAW, is_list=True), "[*].metadata.name", Until.APPLIED),
        (Target(RAW, is_list=True), "[*].metadata.uid", Until.OBSERVED),
    ],
)
def test_a_field_is_there_once_its_object_is_rendered_seen_or_ready(target: Target, path: str, until: Until) -> None:
    steps = tuple(path.split(".")) if path else ()
    assert wait_condition(target, steps, soft=False) is until
    assert wait_condition(target, steps, soft=True) is Until.NOTHING


PLACE = Place("here")


@pytest.mark.parametrize(
    ("path", "soft", "expected"),
    [
        ("a.metadata.uid", False, [("a", Until.OBSERVED)]),
        ("a.metadata.uid", True, [("a", Until.NOTHING)]),
        ("self.spec", False, []),
        ("children.x[*]", False, [("a", Until.APPLIED), ("l", Until.APPLIED)]),
        ("children.x[*]", True, [("a", Until.NOTHING), ("l", Until.NOTHING)]),
        ("children.x[*] [*] status", False, [("a", Until.READY), ("l", Until.READY)]),
        ("children.x[*] [*] metadata name", False, [("a", Until.APPLIED), ("l", Until.APPLIED)]),
        ("l [*] metadata uid", False, [("l", Until.OBSERVED)]),
    ],
)
def test_a_path_that_is_read_is_a_dependency_on_what_it_names(path: str, soft: bool, expected: Any) -> None:
    steps = tuple(path.split(" ")) if "[*]" in path else tuple(path.split("."))
    targets = {"a": Target(RAW), "l": Target(RAW, is_list=True)}
    found = list(inferred(iter([(steps, soft)]), targets, {"children.x[*]": ("a", "l", "unknown")}, PLACE))
    assert found == [Edge(to, until) for to, until in expected]
    assert all(edge.place == PLACE and not edge.declared for edge in found)


def test_descendants_are_read_directly_or_through_others() -> None:
    reads: dict[str, list[tuple[str, ...]]] = {"a": [("b", "x"), ("self",)], "b": [("c",)], "c": [("b",)], "d": []}
    assert descendants(reads) == {"a": {"b", "c"}, "b": {"c", "b"}, "c": {"b", "c"}, "d": set()}


def test_variables_are_chosen_by_their_names() -> None:
    given = Variables({"self": DYN, "a": INT, "b": STRING})
    assert given.only("a", "x").types == {"a": INT}
    assert given.without("a", "x").types == {"self": DYN, "b": STRING}
    making = given.making("a")
    assert (making.types, making.itself) == ({"self": DYN, "b": STRING}, "a")
    assert given.with_variable("a", STRING).types == {"self": DYN, "a": STRING, "b": STRING}
    assert given.certain == {"self"}


def test_names_of_an_expression_are_those_of_all_its_parts() -> None:
    assert set(names_in(parse("a.b + c[d] > 0 ? [e].map(x, x + f) : {'g': h(i)}"))) >= {"a", "c", "d", "e", "f", "i"}


def problems(text: str, *resources: Any, **more: Any) -> list[str]:
    found = examined(config("a", data={"x": text}), *resources, **more).problems
    return [each.message for each in found]


ABSENT = (
    "spec.host may be absent: write self.spec.?host, ask has(self.spec.host), or require it or give it a default in "
    "shops.example.com"
)

ABSENT_PART = (
    "spec.parts.replicas may be absent: write self.spec.parts.?replicas, ask has(self.spec.parts.replicas), or "
    "require it or give it a default in shops.example.com"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${self.spec.host}", [ABSENT]),
        ("${self.spec.?host.orValue('')}", []),
        ("${has(self.spec.host) ? self.spec.host : ''}", []),
        ("${self.spec.image}", []),
        ("${string(self.spec.replicas)}", []),
        ("${self.spec.parts[0].name}", []),
        (
            "${string(self.spec.parts[0].replicas)}",
            [ABSENT_PART],
        ),
        (
            "${string(self.spec.parts.map(p, p.replicas)[0])}",
            [ABSENT_PART],
        ),
        ("${web.spec.paused ? '' : 'x'}", []),
        ("${HOME}", ["there is no variable HOME; a shell variable? write $${HOME}"]),
        ("${ HOME_2 }", ["there is no variable HOME_2; a shell variable? write $${HOME_2}"]),
        ("${home}", ["undeclared reference to 'home'"]),
        ("${spec.image}", ["undeclared reference to 'spec'; did you mean 'self.spec'?"]),
        ("${schema.spec.image}", ["undeclared reference to 'schema'; did you mean 'self'?"]),
        ("${" + "A" * 20_000 + "}", [f"an expression has at most {LIMITS.text} characters, this one has 20000"]),
        ("${wed.metadata.name}", ["undeclared reference to 'wed'; did you mean 'web'?"]),
        ("${a.metadata.uid}", ["a cannot read itself: this is what it is made of. Read self, or another resource"]),
        ("${string(size(children.configmap[*]))}", None),
        ("${children.deployment.metadata.uid}", []),
        ("${string(self.spec.image == 'x')}", []),
    ],
)
def test_what_an_expression_may_not_read_is_told(text: str, expected: list[str] | None) -> None:
    found = problems(text, deployment("web"))
    if expected is None:
        assert len(found) == 1
        assert found[0].startswith("undeclared reference to 'children.configmap[*]'")
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("${1}", "must give true or false, not int"),
        ("${self.spec.?host}", "must give true or false, and may be without a value: add .orValue(…)"),
        ("${'x'}", "must give true or false, not string"),
        ("${dyn(1)}", None),
        ("${true}", None),
        ("true", "must be one expression: ${true}"),
        ("  ", "must be one expression: ${…}"),
        ("${true} ", "must be one expression: ${${true}}"),
        ("${true", "${ without its }; write $${ for a ${ that is plain text"),
    ],
)
def test_what_ready_when_gives_has_to_be_true_or_false(when: str, message: str | None) -> None:
    found = examined(config("a", readyWhen=[when])).problems
    path = "spec.resources[0].readyWhen[0]"
    assert [(each.place.path, each.message) for each in found] == ([] if message is None else [(path, message)])


NOT_ONE = "the variable {} has the name of something else: choose another"


@pytest.mark.parametrize(
    ("each", "name", "expected"),
    [
        ({"p": "${self.spec.parts}", "key": "${p.name}"}, "${p.name}", []),
        ({"web": "${['a']}", "key": "${web}"}, "${web}", [("forEach", NOT_ONE.format("web"))]),
        ({"old": "${['a']}", "key": "${old}"}, "${old}", [("forEach", NOT_ONE.format("old"))]),
        ({"p": "${self.spec.image}", "key": "${'x'}"}, "x", [("forEach.p", "must give a list, not string")]),
        ({"p": "${self.spec.?free}", "key": "${'x'}"}, "x", [("forEach.p", "must give a list, not optional(dyn)")]),
        ({"p": "${dyn(self.spec.?free.orValue([]))}", "key": "${string(p)}"}, "x", []),
        ({"p": "${['a']}", "key": "${1}"}, "x", [("forEach.key", "must give a string, not int: write string(…)")]),
        ({"p": "${[1]}", "key": "${string(p)}"}, "${p}", [("template.metadata.name", None)]),
        ({"p": "${self.spec.parts}", "key": "${string(p.replicas)}"}, "x", [("forEach.key", None)]),
        ({"p": "${q}", "key": "${'x'}"}, "x", [("forEach.p", "undeclared reference to 'q'")]),
    ],
)
def test_a_list_of_which_objects_are_made_is_checked(each: Any, name: str, expected: Any) -> None:
    found = [
        (problem.place.path.removeprefix("spec.resources[1]."), problem.message)
        for problem in examined(deployment("web"), config("a", name, forEach=each)).problems
    ]
    assert [path for path, _ in found] == [path for path, _ in expected]
    for (_, message), (_, words) in zip(found, expected, strict=True):
        assert words is None or message == words


def test_an_item_of_a_list_of_the_parent_is_known_by_its_fields() -> None:
    each = {"p": "${self.spec.parts}", "key": "${p.name}"}
    (problem,) = examined(config("a", "${p.name}", {"x": "${string(p.replicas)}"}, forEach=each)).problems
    assert problem.message.startswith("p.replicas may be absent: write p.?replicas, ask has(p.replicas)")
    assert "default" not in problem.message


SECRETS_ONLY = (
    "data of a Secret may flow into data of a Secret only; of a Secret itself only its name, namespace, uid, labels, "
    "type and isReady() may be read elsewhere, and rollOn rolls pods when it changes"
)


@pytest.mark.parametrize(
    ("resource", "is_told"),
    [
        (config("a", data={"x": "${s.stringData.y}"}), True),
        (config("a", data={"x": "${s.metadata.name}"}), False),
        (secret("a", {"x": "${s.stringData.y}"}), False),
        ({**secret("a"), "template": {**secret("a")["template"], "type": "${s.stringData.y}"}}, True),
    ],
)
def test_data_of_a_secret_flows_into_data_of_secrets_alone(resource: Any, is_told: bool) -> None:
    found = [each.message for each in examined(secret("s", {"y": "z"}), resource).problems]
    assert found == ([SECRETS_ONLY] if is_told else [])
    box = examined(secret("s", {"y": "z"}), resource).box
    if box is not None:
        made = [expression for each in box.nodes for expression in each.template.expressions]
        assert [expression.is_secret for expression in made] == [resource["template"]["kind"] == "Secret"]


def test_lists_of_children_are_known_where_all_their_resources_are() -> None:
    found = box_of(deployment("web"), config("a", data={"x": "${string(size(children.deployment[*]))}"})).node("a")
    assert found is not None
    assert [(edge.to, edge.until) for edge in found.edges] == [("web", Until.APPLIED)]
    kind = crd({**SPEC, "required": ["image", "parts"]})
    last = {"phases": [{"resources": [config("d", data={"x": "${string(size(children.deployment[*]))}"})]}]}
    (problem,) = examined(deployment("web"), kind=kind, deletion=last).problems
    assert problem.message.startswith("undeclared reference to 'children.deployment[*]'")
