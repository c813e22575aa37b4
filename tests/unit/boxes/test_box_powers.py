"""Which fields give power, who decides a value, and what is told of it (RUN-12)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT, HELM_RELEASE, NAMESPACE, SECRET
from purekube.boxes.compiler.children import ChildNames
from purekube.boxes.compiler.compile import BoxExamination, examine
from purekube.boxes.compiler.impersonation import is_allowed, is_data, power_at, powers_below, refusal
from purekube.boxes.compiler.scoping import origin_of, taints_of
from purekube.boxes.compiler.taint import PARENT, TRUSTED, Origin, Taint, TaintSource, child, external, taint_of
from purekube.boxes.expressions import ExpressionFailure
from purekube.boxes.model import Power
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, KnownKind, Schemas
from purekube.cel import DYN, STRING, list_of, optional_of
from purekube.cel.parser import parse
from purekube.schema import compile_schema
from tests.support.boxes import config, crd, deployment, document, examined

BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")


@pytest.mark.parametrize(
    ("kind", "path", "power"),
    [
        (CONFIG_MAP, "metadata.name", None),
        (NAMESPACE, "metadata.name", Power.NAMES),
        (CONFIG_MAP, "metadata.namespace", Power.NAMESPACES),
        (CONFIG_MAP, "metadata.labels.serviceAccountName", None),
        (CONFIG_MAP, "metadata.annotations.namespace", None),
        (DEPLOYMENT, "spec.selector.matchLabels.hostPath", None),
        (DEPLOYMENT, "spec.template.spec.nodeSelector.hostPath", None),
        (CONFIG_MAP, "data.hostPath", None),
        (CONFIG_MAP, "binaryData.hostPath", None),
        (CONFIG_MAP, "spec.hostPath", Power.HOSTS),
        (SECRET, "data.namespace", None),
        (SECRET, "stringData.namespace", None),
        (HELM_RELEASE, "spec.values.serviceAccountName", None),
        (HELM_RELEASE, "spec.serviceAccountName", Power.ACCOUNTS),
        (HELM_RELEASE, "spec.targetNamespace", Power.NAMESPACES),
        (HELM_RELEASE, "spec.valuesFrom.name", Power.SECRETS),
        (HELM_RELEASE, "spec.valuesFrom.optional", None),
        (BINDING, "subjects.name", Power.ROLES),
        (BINDING, "roleRef.name", Power.ROLES),
        (BINDING, "rules", Power.ROLES),
        (BINDING, "aggregationRule.x", Power.ROLES),
        (BINDING, "other", None),
        (DEPLOYMENT, "subjects.name", None),
        (DEPLOYMENT, "spec.replicas", None),
        (DEPLOYMENT, "spec.template.spec.serviceAccount", Power.ACCOUNTS),
        (DEPLOYMENT, "x.serviceAccountToken.audience", None),
        (DEPLOYMENT, "x.ServiceAccountRef", Power.ACCOUNTS),
        (DEPLOYMENT, "x.securityContext.runAsUser", Power.HOSTS),
        (DEPLOYMENT, "x.securityContext", Power.HOSTS),
        (DEPLOYMENT, "x.securityContext.fsGroup", None),
        (DEPLOYMENT, "x.securityContext.readOnlyRootFilesystem", None),
        (DEPLOYMENT, "x.securityContext.fsGroup.privileged", Power.HOSTS),
        (DEPLOYMENT, "x.namespaces", Power.NAMESPACES),
        (DEPLOYMENT, "x.namespacesX", None),
        (DEPLOYMENT, "x.secret.secretName", Power.SECRETS),
        (DEPLOYMENT, "x.secret", Power.SECRETS),
        (DEPLOYMENT, "x.secret.items.key", None),
        (DEPLOYMENT, "x.secretKeyRef.name", Power.SECRETS),
        (DEPLOYMENT, "x.secretKeyRef.key", None),
        (DEPLOYMENT, "x.mySecretRef", Power.SECRETS),
        (DEPLOYMENT, "imagePullSecrets.name", Power.SECRETS),
        *((DEPLOYMENT, f"spec.{name}", Power.HOSTS) for name in ("hostNetwork", "hostPID", "nodeName", "podSpecPatch")),
    ],
)
def test_a_field_gives_the_power_of_what_it_names(kind: Kind, path: str, power: Power | None) -> None:
    assert power_at(kind, tuple(path.split("."))) is power


def test_a_name_elsewhere_gives_power_and_data_does_not() -> None:
    assert power_at(CONFIG_MAP, ("metadata", "name"), elsewhere=True) is Power.NAMES
    assert power_at(CONFIG_MAP, ("data", "x"), elsewhere=True) is None
    assert power_at(BINDING, ()) is None
    assert is_data(CONFIG_MAP, ("data",))
    assert not is_data(CONFIG_MAP, ("spec", "data"))
    assert is_data(DEPLOYMENT, ("spec", "labels", "x"))


POD = compile_schema(
    {
        "type": "object",
        "properties": {
            "serviceAccountName": {"type": "string"},
            "volumes": {
                "type": "array",
                "items": {"type": "object", "properties": {"hostPath": {"type": "object"}, "name": {"type": "string"}}},
            },
            "more": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"namespace": {"type": "string"}}},
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
)
FREE = compile_schema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
NESTED = compile_schema(
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"x-kubernetes-preserve-unknown-fields": True}}}
)
OPEN = "only the value shows it"
TEXT = compile_schema({"type": "object", "properties": {"text": {"type": "string"}}}).properties["text"]


@pytest.mark.parametrize(
    ("cel_type", "schema", "found"),
    [
        (STRING, None, {}),
        (DYN, None, OPEN),
        (DYN, FREE, OPEN),
        (list_of(STRING), None, {}),
        (optional_of(list_of(DYN)), FREE, OPEN),
        (DYN, NESTED, OPEN),
        (DYN, TEXT, {}),
        (
            DYN,
            POD,
            {
                Power.ACCOUNTS: ("spec", "serviceAccountName"),
                Power.HOSTS: ("spec", "volumes", "hostPath"),
                Power.NAMESPACES: ("spec", "more", "[*]", "namespace"),
            },
        ),
    ],
)
def test_a_value_gives_the_powers_of_the_fields_that_it_may_have(cel_type: Any, schema: Any, found: Any) -> None:
    expected = ({}, True) if found is OPEN else (found, False)
    assert powers_below(DEPLOYMENT, ("spec",), cel_type, schema) == expected


@pytest.mark.parametrize(
    ("spec", "powers"),
    [
        ({"strategy": "${self.spec.?free}"}, []),
        ({"minReadySeconds": "${dyn(self.spec.?free.?x.orValue(1))}"}, []),
        ({"template": {"spec": {"hostAliases": "${self.spec.?free.?x}"}}}, []),
        ({"template": {"spec": {"imagePullSecrets": "${self.spec.?free.?x}"}}}, ["Secrets"]),
        (
            {"template": {"spec": {"tolerations": "${self.spec.?free.?x}", "hostIPC": "${self.spec.image == 'x'}"}}},
            ["Hosts"],
        ),
    ],
)
def test_a_value_of_any_type_gives_no_power_that_its_field_cannot_hold(spec: Any, powers: list[str]) -> None:
    messages = [each.message for each in examined(deployment("a", spec=spec)).problems]
    told = [each.partition("trustParents: [")[2].partition("]")[0] for each in messages if "trustParents" in each]
    assert told == powers


THING = Kind("x.example.com", "v1", "Thing", "things")


def thing(auth: Any, *others: Any, **spec: Any) -> BoxExamination:
    """Examine a box with an object of which no schema is known."""
    template = {"apiVersion": THING.api_version, "kind": "Thing", "metadata": {"name": "t"}, "spec": {"auth": auth}}
    versions = CrdVersions.of(crd())
    written = document({"id": "thing", "template": template}, *others, **spec)
    return examine(read_box(written), versions, Schemas([versions], [THING]))


def refused(auth: Any, *others: Any) -> list[str]:
    """Return the powers that are refused in an object of which no schema is known."""
    found = thing(auth, *others).problems
    assert all("trustParents: [" in each.message for each in found)
    return [each.message.partition("trustParents: [")[2].partition("]")[0] for each in found]


EVERY = sorted(map(str, Power))
REFERRING = "{'secretRef': {'name': self.spec.image}}"


@pytest.mark.parametrize(
    ("auth", "powers"),
    [
        (f"${{{REFERRING}}}", ["Secrets"]),
        ("${{'secretRef': {'name': 'x'}}}", []),
        (f"${{optional.of({REFERRING})}}", ["Secrets"]),
        (f"${{optional.of({REFERRING}).orValue({{}})}}", ["Secrets"]),
        (f"${{optional.of({{'secretRef': {{'name': 'x'}}}}).orValue({REFERRING})}}", ["Secrets"]),
        ("${optional.none().or(optional.of({'secretRef': {'name': 'x'}})).orValue({})}", []),
        (f"${{[{{'a': 'b'}}, {REFERRING.replace('secretRef', 'serviceAccountRef')}]}}", ["Accounts"]),
        ("${self.spec.?host.optMap(h, {'secretRef': {'name': h}})}", ["Secrets"]),
        ("${self.spec.?host.optMap(h, {'secretRef': {'name': 'x'}})}", ["Secrets"]),
        ("${self.spec.parts.map(p, {'secretRef': {'name': p.name}})}", ["Secrets"]),
        ("${self.spec.parts.map(p, {'secretRef': {'name': 'x'}})}", ["Secrets"]),
        ("${['a'].map(p, {'serviceAccountName': p})}", []),
        ("${['a'].map(p, self.spec.image == p, {'serviceAccountName': 'x'})}", ["Accounts"]),
        ("${self.spec.image == 'a' ? {'serviceAccountName': 'x'} : {}}", ["Accounts"]),
        ("${self.metadata.namespace == 'a' ? {'serviceAccountName': 'x'} : {}}", []),
        ("${cel.bind(x, self.spec.image, {'hostPath': x})}", ["Hosts"]),
        ("${cel.bind(x, 'a', {'hostPath': x})}", []),
        ("${{self.spec.image: 'x'}}", []),
        ("${{'a': self.spec.image}}", []),
        ({"${self.spec.image}": "x"}, EVERY),
        ({"name-${self.metadata.namespace}": "x"}, []),
        ("${self.spec.image}", []),
        ("${self.spec.?free}", []),
        ({"namespace": "${self.spec.image}", "x": {"hostPID": "${self.spec.image == 'x'}"}}, ["Hosts", "Namespaces"]),
        ("${b.data}", []),
        ("${b}", ["Namespaces"]),
        ({"serviceAccountName": "${b.metadata.name}"}, []),
        ({"serviceAccountName": "x-${b.metadata.name}"}, ["Accounts"]),
    ],
)
def test_a_value_is_judged_by_each_outcome_of_its_expression(auth: Any, powers: list[str]) -> None:
    assert sorted(refused(auth, config("b", "${self.spec.image}"))) == powers


@pytest.mark.parametrize(
    ("metadata", "powers"),
    [
        ({"name": "${self.spec.image}", "namespace": "shared"}, ["Names"]),
        ({"name": "${self.metadata.name}", "namespace": "shared"}, []),
        ({"name": "x", "namespace": "${self.spec.image}"}, ["Namespaces"]),
        ({"name": "${self.spec.image}"}, []),
        ({"name": "${self.spec.image}", "namespace": "${self.metadata.namespace}"}, []),
    ],
)
def test_a_parent_decides_no_object_to_read_outside_of_its_namespace(metadata: Any, powers: list[str]) -> None:
    other = {"id": "other", "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    found = examined(config("a", data={"x": "${other.data.x}"}), externals=[other]).problems

    assert [each.message.partition("trustParents: [")[2].partition("]")[0] for each in found] == powers


FREE_AUTH = "${self.spec.?free}"
BESIDE = "${{'namespace': 'x', 'y': self.spec.?free.orValue({})}}"


@pytest.mark.parametrize(
    ("auth", "free", "said"),
    [
        (FREE_AUTH, "x", None),
        (FREE_AUTH, {"x": [{"y": "z"}], "labels": {"namespace": "x"}}, None),
        (FREE_AUTH, {"serviceAccountName": "x"}, "spec.auth.serviceAccountName: Accounts"),
        (FREE_AUTH, [{"pod": {"hostPath": {"path": "/"}}}], "spec.auth.pod.hostPath: Hosts"),
        (FREE_AUTH, {"x": [{"secretRef": {"key": "k", "name": "x"}}]}, "spec.auth.x.secretRef: Secrets"),
        ("${{self.spec.image: 'x'}}", None, None),
        ("${{'namespace': 'x', 'y': self.spec.?free.orValue({})}}", {"z": 1}, None),
        (
            "${{'namespace': 'x', 'y': self.spec.?free.orValue({})}}",
            {"namespace": 1},
            "spec.auth.y.namespace: Namespaces",
        ),
        ("${[{'x': self.spec.?free.orValue({})}, {'y': 'z'}]}", {"hostPID": True}, "spec.auth.x.hostPID: Hosts"),
    ],
)
def test_where_no_schema_says_what_a_field_holds_the_value_is_judged(auth: str, free: Any, said: str | None) -> None:
    made = thing(auth)
    assert made.problems == ()
    assert made.box is not None
    spec = {"image": "namespaces" if free is None else "i", **({} if free is None else {"free": free})}
    if free is None:
        said = "spec.auth.namespaces: Namespaces"
    (node,) = made.box.nodes
    scope = {"self": {"metadata": {"name": "a", "namespace": "b"}, "spec": spec}}
    if said is None:
        assert "auth" in node.template.render(scope)["spec"]
        return
    where, _, power = said.partition(": ")
    with pytest.raises(ExpressionFailure) as failure:
        node.template.render(scope)
    assert failure.value.problem == f"{where}: {refusal(Power(power), 'Shop')}"
    assert not failure.value.is_missing
    trusting = thing(auth, trustParents=[power]).box
    assert trusting is not None
    assert "auth" in trusting.nodes[0].template.render(scope)["spec"]


def test_a_key_of_texts_gives_no_power_and_a_value_in_a_list_is_judged_by_the_schema() -> None:
    made = config("a")
    made["template"]["metadata"]["annotations"] = {"x/${self.spec.image}": "y"}
    assert examined(made).problems == ()
    volumes = "${[{'name': 'v', 'emptyDir': self.spec.?free}]}"
    pod = {"containers": [{"name": "main", "image": "i"}], "volumes": volumes}
    assert examined(deployment("a", spec={"template": {"spec": pod}})).problems == ()


def test_a_value_among_data_gives_no_power() -> None:
    assert powers_below(CONFIG_MAP, ("data",), DYN, None) == ({}, False)


@pytest.mark.parametrize(
    ("power", "author", "named", "chosen", "owned"),
    [
        (Power.NAMESPACES, True, False, False, False),
        (Power.HOSTS, True, False, False, False),
        (Power.ACCOUNTS, True, False, False, True),
        (Power.ROLES, True, False, False, True),
        (Power.NAMES, True, True, False, False),
        (Power.SECRETS, True, True, False, True),
    ],
)
def test_a_power_is_for_whom_the_box_trusts_with_it(
    power: Power, author: bool, named: bool, chosen: bool, owned: bool
) -> None:
    assert [is_allowed(power, Taint(origin=origin)) for origin in Origin] == [author, named, chosen]
    assert is_allowed(power, Taint(origin=Origin.CHOSEN, owned=True)) is owned


@pytest.mark.parametrize(
    ("power", "what"),
    [
        (Power.NAMESPACES, "a namespace: leave it out, or write it down"),
        (
            Power.NAMES,
            "the name of an object outside of their namespace: make it of self.metadata.namespace and "
            "self.metadata.name",
        ),
        (
            Power.ACCOUNTS,
            "the account that it runs as: write it down, or name a ServiceAccount of this box: "
            "${account.metadata.name}",
        ),
        (Power.ROLES, "who has which rights: write it down, or name a resource of this box: ${account.metadata.name}"),
        (Power.HOSTS, "privileges on the node: write it down"),
        (
            Power.SECRETS,
            "which Secret is used: make it one of `externals`, which has to agree, and write ${ID.metadata.name}",
        ),
    ],
)
def test_a_refusal_says_what_to_write_instead(power: Power, what: str) -> None:
    assert refusal(power, "Shop") == (
        f"whoever may write Shop objects would decide {what}; where they may do that anyway, say "
        f"`trustParents: [{power}]` in the spec of the box"
    )


def account(name: Any, **spec: Any) -> list[str]:
    made = deployment("web")
    made["template"]["spec"]["template"]["spec"]["serviceAccountName"] = name
    found = examined(made, config("a", data={"x": "y"}), **spec).problems
    return [f"{each.place.path.rpartition('.')[2]}: {each.message.split(':')[0]}" for each in found]


DECIDES = "serviceAccountName: whoever may write Shop objects would decide the account that it runs as"


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        ("${self.spec.image}", True),
        ("x-${self.spec.image}", True),
        ("${self.metadata.namespace}", False),
        ("x-${self.metadata.namespace}", False),
        ("${self.spec.image == 'x' ? 'a' : 'b'}", True),
        ("${self.metadata.namespace == 'x' ? 'a' : 'b'}", False),
        ("${a.metadata.name}", False),
        ("x-${a.metadata.name}", False),
        ("${a.data.x}", True),
        ("${['a', self.spec.image][0]}", True),
        ("${self.spec.?host.orValue('a')}", True),
        ("${optional.of('a').orValue('b')}", False),
        ("${cel.bind(x, self.spec.image, x)}", True),
        ("${cel.bind(x, self.spec.image, 'a')}", False),
        ("${optional.of(self.spec.image).optMap(x, 'a').orValue('b')}", True),
        ("${self.metadata.?labels.optMap(x, 'a').orValue('b')}", True),
        ("${{'a': 'b'}['a']}", False),
        ("${{'a': self.spec.image}['a']}", True),
    ],
)
def test_an_account_is_decided_by_the_author_of_the_box(name: str, is_refused: bool) -> None:
    assert account(name) == ([DECIDES] if is_refused else [])


def test_an_item_of_a_list_is_decided_by_who_decides_the_list() -> None:
    def told(items: str) -> list[str]:
        made = deployment("a", "a-${p}", forEach={"p": items, "key": "${p}"})
        made["template"]["spec"]["template"]["spec"]["serviceAccountName"] = "${p}"
        return [each.message.partition(":")[0] for each in examined(made).problems]

    assert told("${self.spec.parts.map(x, x.name)}") == [DECIDES.partition(": ")[2]]
    assert told("${['x', 'y']}") == []


# --- who decides a value ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "origin", "literal"),
    [
        ("x", Origin.AUTHOR, Origin.AUTHOR),
        ("$${x}", Origin.AUTHOR, Origin.AUTHOR),
        ("${'x'}", Origin.AUTHOR, Origin.CHOSEN),
        ("${self.metadata.namespace}", Origin.AUTHOR, Origin.CHOSEN),
        ("${self.metadata.name}", Origin.NAMED, Origin.CHOSEN),
        ("a-${self.metadata.name}-${self.metadata.namespace}", Origin.NAMED, Origin.CHOSEN),
        ("${self.metadata.name}${self.spec.x}", Origin.CHOSEN, Origin.CHOSEN),
        ("${other.metadata.name}", Origin.CHOSEN, Origin.CHOSEN),
        ("${self.metadata.uid}", Origin.AUTHOR, Origin.CHOSEN),
        ("${", Origin.CHOSEN, Origin.CHOSEN),
        ("${1 +}", Origin.CHOSEN, Origin.CHOSEN),
        (3, Origin.CHOSEN, Origin.CHOSEN),
        (None, Origin.CHOSEN, Origin.CHOSEN),
    ],
)
def test_the_origin_of_a_text_is_the_least_trusted_of_its_parts(text: Any, origin: Origin, literal: Origin) -> None:
    assert (origin_of(text), origin_of(text, literal=True)) == (origin, literal)


AUTHOR, NAMED, CHOSEN = Origin.AUTHOR, Origin.NAMED, Origin.CHOSEN
VARIABLES = {
    "self": PARENT,
    "s": child(SECRET, AUTHOR),
    "ss": child(SECRET, AUTHOR, listed=True),
    "c": child(CONFIG_MAP, NAMED),
    "cs": child(CONFIG_MAP, CHOSEN, listed=True),
    "n": child(NAMESPACE, CHOSEN),
    "e": external(SECRET, CHOSEN, elsewhere=False),
    "far": external(CONFIG_MAP, AUTHOR, elsewhere=True),
}


@pytest.mark.parametrize(
    ("text", "data", "origin"),
    [
        ("1", False, AUTHOR),
        ("unknown", False, AUTHOR),
        ("self", False, CHOSEN),
        ("self.metadata", False, CHOSEN),
        ("self.metadata.name", False, NAMED),
        ("self.metadata.namespace", False, AUTHOR),
        ("self.metadata.uid", False, AUTHOR),
        ("self.metadata.creationTimestamp", False, AUTHOR),
        ("self.kind + self.apiVersion", False, AUTHOR),
        ("self.metadata.labels", False, CHOSEN),
        ("self.metadata.name + self.spec.x", False, CHOSEN),
        ("self['metadata']['name']", False, NAMED),
        ("self[self.spec.x]", False, CHOSEN),
        ("s.data.x", True, CHOSEN),
        ("s", True, CHOSEN),
        ("s.metadata", True, CHOSEN),
        ("s.metadata.name", False, AUTHOR),
        ("s.metadata.labels", False, CHOSEN),
        ("s.metadata.annotations", True, CHOSEN),
        ("s.type", False, CHOSEN),
        ("has(s.data)", False, CHOSEN),
        ("has(s.stringData)", False, CHOSEN),
        ("has(s.other)", True, CHOSEN),
        ("has(s.type)", False, CHOSEN),
        ("has(s.data.x)", True, CHOSEN),
        ("isReady(s)", False, CHOSEN),
        ("isReady(s.data)", True, CHOSEN),
        ("size(ss)", False, CHOSEN),
        ("size(s.data)", True, CHOSEN),
        ("ss[0].metadata.name", False, AUTHOR),
        ("ss[0].data", True, CHOSEN),
        ("ss.map(x, x.metadata.name)", False, CHOSEN),
        ("ss.map(x, x.data)", True, CHOSEN),
        ("ss.exists(x, x.metadata.name == 'a')", False, CHOSEN),
        ("ss.exists(x, x.data.y == 'a')", True, CHOSEN),
        ("ss.filter(x, x.metadata.name == 'a')[0].metadata.name", False, CHOSEN),
        ("ss.filter(x, x.data.y == 'a')[0].metadata.name", True, CHOSEN),
        ("c.metadata.name", False, NAMED),
        ("c.data.x", False, CHOSEN),
        ("cs[0].metadata.name", False, CHOSEN),
        ("cs.first().metadata.namespace", False, AUTHOR),
        ("n.metadata.name", False, AUTHOR),
        ("e.metadata.name", False, AUTHOR),
        ("e.data.x", True, CHOSEN),
        ("far.data.x", False, AUTHOR),
        ("far.metadata.name", False, AUTHOR),
        ("self.spec.x ? 'a' : 'b'", False, CHOSEN),
        ("s.data.x == 'y' ? 'a' : 'b'", True, CHOSEN),
        ("true ? self.metadata.name : 'b'", False, NAMED),
        ("optional.of(self.metadata.name).orValue('x')", False, NAMED),
        ("self.?metadata.?name.orValue('x')", False, NAMED),
        ("optional.of(self.metadata.name).optMap(x, 'a')", False, NAMED),
        ("optional.of(s.data).optMap(x, 'a')", True, CHOSEN),
        ("cel.bind(x, s.data, x)", True, CHOSEN),
        ("cel.bind(x, s.data, 'a')", False, AUTHOR),
        ("[self.metadata.name, 'a']", False, NAMED),
        ("[s, s][0].metadata.name", False, AUTHOR),
        ("[s, e][0].metadata.name", True, CHOSEN),
        ("{'a': self.metadata.name}", False, NAMED),
    ],
)
def test_the_taint_of_an_expression_says_what_it_reveals_and_who_decides_it(
    text: str, data: bool, origin: Origin
) -> None:
    found = taint_of(parse(text), VARIABLES).whole
    assert (found.data, found.origin) == (data, origin)


@pytest.mark.parametrize(
    ("text", "owned"),
    [
        ("c.metadata.name", True),
        ("e.metadata.name", False),
        ("self.metadata.name", False),
        ("c.metadata.uid", False),
        ("c.metadata.name + 'a'", False),
        ("[c.metadata.name][0]", True),
        ("true ? c.metadata.name : 'a'", True),
        ("true ? c.metadata.name : self.metadata.name", False),
        ("self.spec.x ? c.metadata.name : 'a'", False),
        ("optional.of(c.metadata.name).orValue('a')", True),
        ("optional.of(c.metadata.name).orValue(self.metadata.name)", False),
    ],
)
def test_a_name_is_owned_where_it_is_exactly_that_of_an_object_of_the_box(text: str, owned: bool) -> None:
    assert taint_of(parse(text), VARIABLES).owned is owned


def test_taints_of_objects_meet_and_are_listed() -> None:
    source = TaintSource({})
    one, same = Taint(source=source), Taint(source=source, data=True)
    assert one.meets(same) == Taint(True, AUTHOR, source)
    assert one.meets(PARENT) == Taint(False, CHOSEN)
    assert one.meets(Taint(origin=NAMED)) == Taint(False, NAMED, source)
    assert Taint(origin=NAMED).meets(one) == Taint(False, NAMED, source)
    assert one.list == Taint(source=source, listed=True)
    assert one.list.list == Taint(False, CHOSEN)
    assert one.list.item == one
    assert one.item == Taint(False, CHOSEN)
    assert TRUSTED.list == TRUSTED
    assert one.field("metadata").list == Taint(False, CHOSEN)


@pytest.mark.parametrize("kind", [CONFIG_MAP, SECRET])
@pytest.mark.parametrize("name", Origin)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_external_is_decided_by_the_author_only_where_no_tenant_may_write_it(
    kind: Kind, name: Origin, elsewhere: bool
) -> None:
    source = external(kind, name, elsewhere=elsewhere).source
    assert source is not None

    is_trusted = elsewhere and name is Origin.AUTHOR
    assert source.rest is (Origin.AUTHOR if is_trusted else Origin.CHOSEN)
    assert source.origins[("metadata", "name")] is (Origin.AUTHOR if kind == SECRET else name)
    assert not source.owned
    assert (source.public is None) is (kind != SECRET)
    made = child(kind, name).source
    assert made is not None
    assert (made.owned, made.origins[("metadata", "name")]) == (True, name)
    made_namespace = child(NAMESPACE, name).source
    assert made_namespace is not None
    assert made_namespace.origins[("metadata", "name")] is Origin.AUTHOR


def named(identifier: str, name: str, kind: Kind, **more: Any) -> dict[str, Any]:
    return {"id": identifier, "template": {**kind.manifest("x"), "metadata": {"name": name}}, **more}


def test_a_list_of_children_is_named_by_whoever_names_one_of_them() -> None:
    fixed, own, chosen = "a", "${self.metadata.name}", "${self.spec.name}"
    model = read_box(
        document(
            named("one", fixed, CONFIG_MAP),
            named("two", own, CONFIG_MAP),
            named("sealed", fixed, SECRET),
            named("each", chosen, DEPLOYMENT, forEach={"x": "${self.spec.items}", "key": "${x}"}),
            phases=[{"name": "later", "resources": [named("late", chosen, NAMESPACE)]}],
        )
    )
    kinds = {name: KnownKind(CONFIG_MAP) for name in ("one", "two")}
    kinds |= {"sealed": KnownKind(SECRET), "each": KnownKind(DEPLOYMENT), "late": KnownKind(NAMESPACE)}
    names = ChildNames.of([(name, known.kind.kind) for name, known in kinds.items()] + [("unknown", "Odd")])
    taints = taints_of(model, kinds, names)

    assert taints["self"] is PARENT
    assert taints["one"] == child(CONFIG_MAP, AUTHOR)
    assert taints["two"] == child(CONFIG_MAP, NAMED)
    assert taints["each"] == child(DEPLOYMENT, CHOSEN, listed=True)
    assert taints["late"] == child(NAMESPACE, CHOSEN)
    lists = {name: taints[name] for name in names.lists if name in taints}
    expected = {
        "one": child(CONFIG_MAP, NAMED, listed=True),
        "sealed": child(SECRET, AUTHOR, listed=True),
        "each": child(DEPLOYMENT, CHOSEN, listed=True),
        "late": child(NAMESPACE, CHOSEN, listed=True),
    }
    assert lists == {name: expected[ids[0]] for name, ids in names.lists.items() if ids[0] in expected}
    assert set(taints_of(model, {}, names)) == {"self"}


def read(identifier: str, kind: Kind, **metadata: str) -> dict[str, Any]:
    return {"id": identifier, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def test_what_is_read_elsewhere_is_the_author_s_where_the_author_names_it_and_its_namespace() -> None:
    fixed, own = "a", "${self.metadata.name}"
    model = read_box(
        document(
            named("one", fixed, CONFIG_MAP),
            externals=[
                read("far", CONFIG_MAP, name=fixed, namespace="elsewhere"),
                read("near", CONFIG_MAP, name=fixed),
                read("moved", CONFIG_MAP, name=fixed, namespace="${self.metadata.namespace}"),
                read("wide", NAMESPACE, name=fixed),
                read("theirs", NAMESPACE, name=own),
                read("sealed", SECRET, name=own, namespace="elsewhere"),
                read("odd", CONFIG_MAP, name=fixed),
            ],
            deletion={"phases": [{"name": "end", "resources": [named("last", own, DEPLOYMENT)]}]},
        )
    )
    kinds = {name: KnownKind(CONFIG_MAP) for name in ("one", "far", "near", "moved")}
    kinds |= {"wide": KnownKind(NAMESPACE), "theirs": KnownKind(NAMESPACE), "sealed": KnownKind(SECRET)}
    kinds["last"] = KnownKind(DEPLOYMENT)

    assert taints_of(model, kinds, ChildNames({})) == {
        "self": PARENT,
        "one": child(CONFIG_MAP, AUTHOR),
        "last": child(DEPLOYMENT, NAMED),
        "far": external(CONFIG_MAP, AUTHOR, elsewhere=True),
        "near": external(CONFIG_MAP, AUTHOR, elsewhere=False),
        "moved": external(CONFIG_MAP, AUTHOR, elsewhere=False),
        "wide": external(NAMESPACE, AUTHOR, elsewhere=True),
        "theirs": external(NAMESPACE, NAMED, elsewhere=True),
        "sealed": external(SECRET, NAMED, elsewhere=True),
    }
    assert external(CONFIG_MAP, AUTHOR, elsewhere=True) != external(CONFIG_MAP, AUTHOR, elsewhere=False)
