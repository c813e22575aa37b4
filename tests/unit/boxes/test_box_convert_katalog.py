"""What is written as a Katalog of Orkestra has a counterpart in a box, or is told with its path (PH-6)."""

from typing import Any

import pytest

from purekube.boxes.expressions import FUNCTIONS
from purekube.boxes.read import read_box
from purekube.cel import DYN, Environment, compile_expression
from purekube_convert import ConversionResult, convert, definition_files

SPEC = {
    "type": "object",
    "required": ["image", "port"],
    "properties": {
        "image": {"type": "string"},
        "port": {"type": "string"},
        "replicas": {"type": "integer", "default": 2},
        "host": {"type": "string"},
        "debug": {"type": "boolean", "default": False},
        "tier": {"type": "string"},
        "regions": {"type": "array", "items": {"type": "string"}},
        "parts": {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
        "weights": {"type": "object", "additionalProperties": {"type": "integer"}},
        "flags": {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
        "count": {"type": "integer"},
    },
}
STATUS = {"type": "object", "properties": {"ready": {"type": "integer"}, "phase": {"type": "string"}}}
CRD = {
    "kind": "CustomResourceDefinition",
    "spec": {
        "group": "example.test",
        "names": {"singular": "shop", "kind": "Shop", "plural": "shops"},
        "versions": [
            {
                "name": "v1",
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {"spec": SPEC, "status": STATUS},
                    }
                },
            }
        ],
    },
}
WEB = {"name": "{{ .metadata.name }}", "image": "{{ .spec.image }}", "reconcile": True}


def converted(**said: Any) -> ConversionResult:
    return convert({"operatorBox": {"crdFile": "shop-crd.yaml", **said}}, {"shop-crd.yaml": CRD})


def resources(**blocks: Any) -> list[dict[str, Any]]:
    """The resources of a box that has no problems and whose form is right."""
    conversion = converted(**blocks)
    assert conversion.problems == ()
    (made,) = conversion.boxes
    read_box(made.box)
    return list(made.box["spec"]["resources"])


def told(**said: Any) -> list[str]:
    return [str(problem) for problem in converted(**said).problems]


@pytest.mark.parametrize(
    ("template", "expression"),
    [
        ("{{ .metadata.name }}", "${self.metadata.name}"),
        ("{{ .metadata.name }}-web", "${self.metadata.name}-web"),
        ("{{- .metadata.name -}}", "${self.metadata.name}"),
        ("a {{/* nothing */}}b", "a b"),
        ("{{ .spec.host }}", "${self.spec.?host}"),
        ("http://{{ .spec.host }}/", "http://${self.spec.?host.orValue('')}/"),
        ("{{ .spec.replicas }} pods", "${string(self.spec.replicas)} pods"),
        ("{{ .metadata.labels.tier }}", "${self.metadata.?labels.?tier}"),
        ('{{ default .spec.tier "gold" }}', "${default(self.spec.?tier, 'gold')}"),
        ('{{ .spec.tier | default "gold" }}', "${default(self.spec.?tier, 'gold')}"),
        ("{{ .spec.replicas | default 3 }}",
         "${string((self.spec.replicas != 0) ? self.spec.replicas : 3)}"),
        ("{{ default 3 .spec.count }}", "${string(self.spec.?count.orValue(3))}"),
        ("{{ .spec.count }}", "${self.spec.?count.optMap(v, string(v))}"),
        ('{{ or .spec.host "none" }}',
         "${(self.spec.?host.orValue('') != '') ? self.spec.?host.orValue('') : 'none'}"),
        ("{{ and .spec.host .spec.image }}",
         "${(self.spec.?host.orValue('') != '') ? self.spec.image : self.spec.?host.orValue('')}"),
        ("{{ if or .spec.host .spec.debug }}a{{ end }}",
         "${((self.spec.?host.orValue('') != '') || self.spec.debug) ? 'a' : ''}"),
        ('{{ ternary .spec.debug "debug" "info" }}', "${self.spec.debug ? 'debug' : 'info'}"),
        ('{{ if .spec.host }}{{ .spec.host }}{{ else }}none{{ end }}',
         "${(self.spec.?host.orValue('') != '') ? self.spec.?host.orValue('') : 'none'}"),
        ('{{ if eq .spec.tier "gold" }}a{{ else if .spec.debug }}b{{ end }}',
         "${(self.spec.?tier.orValue('') == 'gold') ? 'a' : (self.spec.debug ? 'b' : '')}"),
        ('{{ printf "%s:%v" .spec.image .spec.replicas }}', "${'%s:%s'.format([self.spec.image, self.spec.replicas])}"),
        ("{{ toUpper .spec.image }}", "${self.spec.image.upperAscii()}"),
        ("{{ if and .spec.debug (not .spec.host) }}x{{ end }}",
         "${(self.spec.debug && !(self.spec.?host.orValue('') != '')) ? 'x' : ''}"),
        ("echo ${HOME}", "echo $${HOME}"),
        ("costs ${{ .spec.image }}", "costs ${'$'}${self.spec.image}"),
        ("$${{ .spec.image }}$", "${'$$'}${self.spec.image}$"),
        ("it's {{ .spec.image }}", "it's ${self.spec.image}"),
        ('{{ default .spec.tier "it\'s" }}', '${default(self.spec.?tier, "it\'s")}'),
    ],
)  # fmt: skip
def test_a_template_of_go_becomes_an_expression(template: str, expression: str) -> None:
    (made,) = resources(onReconcile={"configMaps": [{"name": "a", "data": {"key": template}}]})

    assert made["template"]["data"]["key"] == expression


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ range .spec.regions }}a{{ end }}", "{{ range }} has no counterpart in an expression"),
        ("{{ $x := .spec.host }}", "variables ($x) has no counterpart in an expression"),
        ("{{ .spec.hots }}", "self.spec has no field 'hots'"),
        ("{{ .cross.db.status }}", ".cross has no counterpart in a box"),
        ("{{ .children.job.status }}", ".children.job: nothing of that kind is declared"),
        ("{{ timeAgo .metadata.name }}", "the function timeAgo has no counterpart"),
        ('{{ printf "%q" .spec.image }}', "%q has no counterpart: write %s in quotation marks"),
        ("{{ .spec.image", "a {{ has no }}"),
        ("{{ if .spec.debug }}a", "an {{ if }} has no {{ end }}"),
        ("{{ end }}", "{{ end }} stands without its {{ if }}"),
        ("{{ ternary .spec.debug }}", "ternary takes 3 arguments, not 1"),
        ("{{ (.spec.image }}", "a ( has no )"),
        ('{{ "\\d" }}', 'the text "\\d" has an escape that is not known'),
        ("{{ . }}", "the whole object has no counterpart: name a field of it"),
        ("{{ " + "(" * 40 + ".spec.image" + ")" * 40 + " }}", "parentheses are nested more than 32 levels deep"),
        ("{{ if .spec.debug }}" * 40 + "{{ end }}" * 40, "{{ if }} is nested more than 32 levels deep"),
        ("{{ .spec.image }}" * 600, "a template has at most 8192 characters, this one has 10200"),
        ("{{ .spec.image }}" * 100, "a value has at most 64 parts, this one has 100"),
    ],
)
def test_a_template_without_counterpart_is_told_with_its_path(template: str, problem: str) -> None:
    (message,) = told(onReconcile={"configMaps": [{"name": "a", "data": {"key": template}}]})

    assert message.startswith("operatorBox.onReconcile.configMaps[0].data.key: ")
    assert message.endswith(problem)


@pytest.mark.parametrize(
    ("condition", "gate"),
    [
        ({"field": "status.phase", "equals": "up"}, {"field": "status.phase", "equals": "up"}),
        ({"field": "spec.debug", "equals": "true"}, {"field": "spec.debug", "equals": True}),
        ({"field": "spec.replicas", "value": "3"}, {"field": "spec.replicas", "equals": 3}),
        ({"field": "spec.replicas", "operator": "gte", "value": "3"}, {"field": "spec.replicas", "greaterOrEqual": 3}),
        ({"field": "spec.replicas", "max": "2.5"}, {"field": "spec.replicas", "lessOrEqual": 2.5}),
        ({"field": "spec.tier", "in": "a, b"}, {"field": "spec.tier", "in": ["a", "b"]}),
        ({"field": "spec.tier", "prefix": "a.b"}, {"field": "spec.tier", "matches": "^a\\.b"}),
        ({"field": "spec.image", "notSuffix": "c"}, {"field": "spec.image", "matches": "c$", "not": True}),
        ({"field": "spec.host"}, {"field": "spec.host", "exists": True}),
        ({"field": "spec.host", "operator": "notExists"}, {"field": "spec.host", "exists": False}),
        ({"field": "spec.host", "exists": False}, {"field": "spec.host", "exists": False}),
        ({"field": "spec.image", "equals": "a", "negate": True}, {"field": "spec.image", "equals": "a", "not": True}),
        ({"field": "spec.host", "equals": "{{ .spec.tier }}"},
         {"field": "spec.host", "equals": "${self.spec.?tier.orValue('')}"}),
        ({"field": "{{ toUpper .spec.image }}", "equals": "A"}, "${self.spec.image.upperAscii() == 'A'}"),
        ({"field": "spec.replicas", "between": "1,5"}, "${self.spec.replicas >= 1 && self.spec.replicas <= 5}"),
        ({"field": "spec.replicas", "notBetween": "1,5"}, "${!(self.spec.replicas >= 1 && self.spec.replicas <= 5)}"),
    ],
)  # fmt: skip
def test_a_condition_becomes_a_gate_of_the_field_s_type(condition: Any, gate: Any) -> None:
    web = {**WEB, "reconcile": False, "when": [condition]}

    assert resources(onCreate={"deployments": [web]})[0]["when"] == [gate]


@pytest.mark.parametrize(
    ("condition", "gate"),
    [
        ({"field": "status.phase", "notEquals": "up"},
         "${self.?status.?phase.optMap(v, v != 'up').orValue(true)}"),
        ({"field": "status.phase", "equals": ""}, "${self.?status.?phase.optMap(v, v == '').orValue(true)}"),
        ({"field": "spec.tier", "notSuffix": "c"}, "${self.spec.?tier.optMap(v, !(v.matches('c$'))).orValue(true)}"),
        ({"field": "spec.tier", "equals": "a", "negate": True},
         "${self.spec.?tier.optMap(v, !(v == 'a')).orValue(true)}"),
        ({"field": "spec.tier", "notIn": "a,b"}, "${self.spec.?tier.optMap(v, !(v in ['a', 'b'])).orValue(true)}"),
        ({"field": "spec.tier", "regex": "^a*$"}, "${self.spec.?tier.optMap(v, v.matches('^a*$')).orValue(true)}"),
        ({"field": "children.deployment.status.unavailableReplicas", "lt": 1},
         "${children.deployment.?status.?unavailableReplicas.optMap(v, v < 1).orValue(true)}"),
        ({"field": "children.deployment.status.unavailableReplicas", "lt": 0},
         {"field": "children.deployment.status.unavailableReplicas", "lessThan": 0}),
    ],
)  # fmt: skip
def test_a_condition_that_holds_for_an_absent_field_opens_its_gate(condition: Any, gate: Any) -> None:
    """Orkestra compares an absent field as empty text or as 0; a gate of a box would never open."""
    config = {"name": "c", "when": [condition]}
    _, made = resources(onCreate={"deployments": [WEB], "configMaps": [config]})

    assert made["when"] == [gate]


def test_a_value_of_an_unknown_type_counts_as_in_go() -> None:
    data = {"key": "{{ if .spec.flags.debug }}on{{ else }}off{{ end }}"}
    (made,) = resources(onReconcile={"configMaps": [{"name": "a", "data": data}]})
    expression = made["template"]["data"]["key"][2:-1]

    def value(**flags: Any) -> Any:
        return compile_expression(expression, Environment({"self": DYN}, FUNCTIONS)).evaluate(
            {"self": {"spec": {"flags": flags}}}
        )

    empty: tuple[Any, ...] = (None, False, 0, "", [], {})
    full: tuple[Any, ...] = (True, 1, "no", [0], {"a": 0})
    assert {value(debug=each) for each in empty} | {value()} == {"off"}
    assert {value(debug=each) for each in full} == {"on"}


def test_what_is_asked_of_a_child_holds_and_what_is_asked_of_the_parent_decides_whether_it_exists() -> None:
    service = {"port": 80, "when": [{"field": "children.deployment.status.readyReplicas", "gt": 0}]}
    page = {"name": "p", "when": [{"field": "spec.debug", "equals": True}], "or": [{"field": "spec.host"}]}

    _, served, config = sorted(
        resources(onReconcile={"deployments": [WEB], "services": [service], "configMaps": [page]}),
        key=lambda entry: ["deployment", "service", "configMap"].index(entry["id"]),
    )

    assert served["when"] == [{"field": "children.deployment.status.readyReplicas", "greaterThan": 0}]
    assert config["includeWhen"] == ["${(self.spec.debug) && ((self.spec.?host.orValue('') != ''))}"]


def test_conditions_of_a_block_are_those_of_all_its_resources() -> None:
    block = {"when": [{"field": "status.phase", "equals": "up"}], "deployments": [{**WEB, "reconcile": False}]}

    assert resources(onCreate=block)[0]["when"] == [{"field": "status.phase", "equals": "up"}]


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ({"field": "spec.replicas", "equals": "many"}, "the field is of type int, and 'many' is not"),
        ({"field": "spec.replicas", "gt": "many"}, "must be a number, not 'many'"),
        ({"field": "spec.host", "operator": "unique"}, "the operator 'unique' has no counterpart"),
        ({"field": "spec.host", "cron": "* * * * *"}, "cron has no counterpart in a gate"),
        ({"field": "spec.host", "equals": "a", "prefix": "b"}, "asks equals and prefix at once"),
        ({"equals": "a"}, "must be an object with a field"),
        ({"field": "spec.replicas", "between": "1"}, 'between takes two numbers, as in "1,5"'),
    ],
)
def test_a_condition_without_counterpart_is_told(condition: Any, problem: str) -> None:
    (message,) = told(onReconcile={"deployments": [{**WEB, "when": [condition]}]})

    assert message.startswith("operatorBox.onReconcile.deployments[0].when[0]: ")
    assert problem in message


def test_what_is_created_only_is_made_when_it_is_missing() -> None:
    once, kept, job = resources(
        onCreate={
            "configMaps": [{"name": "a"}, {"name": "b", "reconcile": True}],
            "jobs": [{"name": "j", "image": "i"}],
        }
    )

    assert (once["apply"], kept.get("apply"), job["apply"]) == ("IfAbsent", None, "IfAbsent")


def test_what_is_on_or_off_may_be_a_text_and_nothing_else() -> None:
    service = {"port": 80, "selector": {"a": "b"}, "headless": "true", "reconcile": "true"}
    config = {"name": "a", "when": [{"field": "spec.image", "equals": "a", "negate": "true"}]}
    made = resources(onCreate={"services": [service], "configMaps": [config]})
    assert [entry.get("apply") for entry in made] == [None, "IfAbsent"]
    assert made[0]["template"]["spec"]["clusterIP"] == "None"
    assert made[1]["when"] == [{"field": "spec.image", "equals": "a", "not": True}]

    wrong = {"name": "s", "once": "yes", "reconcile": "{{ .spec.debug }}"}
    asked = {"name": "a", "when": [{"field": "spec.image", "equals": "a", "negate": "no"}]}
    assert told(onCreate={"secrets": [wrong], "configMaps": [asked]}) == [
        "operatorBox.onCreate.secrets[0].reconcile: must be true or false",
        "operatorBox.onCreate.secrets[0].once: must be true or false",
        "operatorBox.onCreate.configMaps[0].when[0]: negate must be true or false",
    ]


def test_one_thing_in_both_blocks_is_kept_up() -> None:
    assert [entry.get("apply") for entry in resources(onCreate={"deployments": [{**WEB, "reconcile": False}]},
                                                       onReconcile={"deployments": [WEB]})] == [None]  # fmt: skip


def test_random_data_is_drawn_while_a_secret_is_written() -> None:
    data = {"password": "{{ randomAlphanumeric 24 }}", "user": "admin"}
    (made,) = resources(onCreate={"secrets": [{"name": "s", "once": True, "data": data}]})

    assert made["generate"] == {"data.password": {"length": 24}}
    assert (made["apply"], made["template"]["stringData"]) == ("IfAbsent", {"user": "admin"})


def test_numbers_that_were_texts_are_numbers() -> None:
    web = {**WEB, "replicas": "3", "port": "{{ .spec.port }}"}
    (made,) = resources(onReconcile={"deployments": [web]})

    spec = made["template"]["spec"]
    assert spec["replicas"] == 3
    assert spec["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": "${int(self.spec.port)}"}]


@pytest.mark.parametrize(
    ("field", "loop"),
    [
        ("spec.regions", {"r": "${self.spec.?regions.orValue([])}", "key": "${r}"}),
        ("spec.parts", {"r": "${self.spec.?parts.orValue([])}", "key": "${r.name}"}),
        ("spec.weights", {"r": "${self.spec.?weights.orValue({}).map(k, k).sort()}", "key": "${r}"}),
    ],
)
def test_a_loop_tells_its_items_apart(field: str, loop: dict[str, str]) -> None:
    entry = {"name": "{{ .metadata.name }}-{{ .r }}", "forEach": {"field": field, "as": "r"}}
    if field == "spec.parts":
        entry["name"] = "{{ .r.name }}"

    assert resources(onReconcile={"configMaps": [entry]})[0]["forEach"] == loop


def test_a_kind_of_which_there_are_several_is_no_single_child() -> None:
    others = [{**WEB, "name": "{{ .metadata.name }}-a"}, {**WEB, "name": "{{ .metadata.name }}-b"}]
    service = {"port": 80, "when": [{"field": "children.deployment.status.readyReplicas", "gt": 0}]}

    (message,) = told(onReconcile={"deployments": others, "services": [service]})

    assert "there are 2, and Orkestra takes any of them: name one of a, b" in message


def test_the_status_has_the_types_of_the_definition() -> None:
    fields = [
        {"path": "ready", "value": "{{ readyReplicas .children.deployment }}"},
        {"path": "phase", "value": "up", "when": [{"field": "spec.host", "operator": "exists"}]},
        {"path": "web.count", "type": "int", "value": "{{ .spec.port }}"},
    ]
    conversion = converted(onReconcile={"deployments": [WEB]}, status={"fields": fields})

    assert conversion.problems == ()
    assert conversion.boxes[0].box["spec"]["status"]["fields"] == {
        "ready": "${readyReplicas(children.deployment)}",
        "phase": "${self.spec.?host.orValue('') != '' ? optional.of('up') : optional.none()}",
        "web": {"count": "${int(self.spec.port)}"},
    }


def test_the_last_entry_of_a_status_field_that_holds_gives_its_value() -> None:
    fields = [
        {"path": "phase", "value": "Pending"},
        {"path": "phase", "value": "{{ .spec.tier }}", "when": [{"field": "spec.host"}]},
        {"path": "phase", "value": "Up", "when": [{"field": "spec.debug", "equals": True}]},
        {"path": "done", "value": True, "clearOnFalse": True, "when": [{"field": "spec.debug", "equals": True}]},
    ]
    conversion = converted(status={"fields": fields})
    made = conversion.boxes[0]

    assert conversion.problems == ()
    assert made.box["spec"]["status"]["fields"] == {
        "phase": "${self.spec.debug ? optional.of('Up') : "
        "(self.spec.?host.orValue('') != '' ? self.spec.?tier : (optional.of('Pending')))}",
        "done": "${self.spec.debug ? optional.of('true') : optional.none()}",
    }
    assert [place for place in made.notes if place[1] == "status"] == [("spec", "status", "fields", "phase")]


@pytest.mark.parametrize("gated", ["block", "entry"])
def test_a_job_of_a_deletion_runs_only_where_its_conditions_hold(gated: str) -> None:
    asked = {"when": [{"field": "spec.debug", "equals": True}]}
    job = {"name": "drain", "image": "busybox", **(asked if gated == "entry" else {})}
    conversion = converted(onDelete={"jobs": [job], **(asked if gated == "block" else {})})

    assert conversion.problems == ()
    ((made,),) = [phase["resources"] for phase in conversion.boxes[0].box["spec"]["deletion"]["phases"]]
    assert made["includeWhen"] == ["${self.spec.debug}"]


def test_a_job_of_a_deletion_cannot_ask_about_children() -> None:
    asked = {"when": [{"field": "children.deployment.status.readyReplicas", "gt": 0}]}
    block = {"jobs": [{"name": "drain", "image": "busybox"}], **asked}

    assert told(onReconcile={"deployments": [WEB]}, onDelete=block) == [
        "operatorBox.onDelete.jobs[0]: asks about children, which a box does not read once their owner goes"
    ]


def test_jobs_of_a_deletion_run_before_anything_goes() -> None:
    conversion = converted(onDelete={"jobs": [{"name": "{{ .metadata.name }}-drain", "image": "busybox"}]})

    (phase,) = conversion.boxes[0].box["spec"]["deletion"]["phases"]
    assert [entry["template"]["metadata"]["name"] for entry in phase["resources"]] == ["${self.metadata.name}-drain"]


def test_nothing_is_dropped_in_silence() -> None:
    web = {**WEB, "sleep": "3s", "resources": {"profile": "burst"}, "autoscale": {}, "mystery": 1}

    assert told(admission={}, onReconcile={"deployments": [web], "hpas": []}, finalizers=["a"]) == [
        "operatorBox.onReconcile.hpas: is not converted: write its manifest as a template",
        "operatorBox.onReconcile.deployments[0].resources.profile: is a preset of Orkestra: write its fields",
        "operatorBox.onReconcile.deployments[0].sleep: a box does not sleep",
        "operatorBox.onReconcile.deployments[0].autoscale: is not converted: let a HorizontalPodAutoscaler scale it",
        "operatorBox.onReconcile.deployments[0].mystery: has no counterpart in a box",
        "operatorBox.admission: a box has `validation` and `mutation`: write the rules there",
        "operatorBox.finalizers: has no counterpart in a box",
    ]


def test_a_setting_that_is_there_in_both_layouts_is_told() -> None:
    old, new = {"configMaps": [{"name": "a"}]}, {"onReconcile": {"configMaps": [{"name": "b"}]}}

    assert told(onReconcile=old, reconcile=new) == [
        "operatorBox.reconcile.onReconcile: is there twice: operatorBox.onReconcile is not converted"
    ]


def test_a_katalog_of_several_operators_is_several_boxes() -> None:
    spec = {
        "crds": {
            "shop": {"crdFile": "shop-crd.yaml", "operatorBox": {"reconcile": {"onReconcile": {"deployments": [WEB]}}}},
            "till": {"apiTypes": {"group": "example.test", "kind": "Till"}, "operatorBox": {"emit": {"events": []}}},
        }
    }
    conversion = convert({"kind": "Katalog", "spec": spec}, {"shop-crd.yaml": CRD})

    assert [made.name for made in conversion.boxes] == ["shop", "till"]
    assert conversion.boxes[1].box["spec"] == {"crd": {"name": "tills.example.test"}}
    assert [str(problem) for problem in conversion.problems] == [
        "spec.crds.till.operatorBox.emit.events: a box writes Events of its own"
    ]
    assert definition_files({"spec": spec}) == ("shop-crd.yaml",)


def test_what_is_no_katalog_is_said() -> None:
    assert [str(p) for p in convert({"kind": "Pod"}).problems] == [
        "is neither a Katalog of Orkestra nor a ResourceGraphDefinition of kro"
    ]
    assert [str(p) for p in convert([]).problems] == ["must be an object"]
    assert [str(p) for p in convert({"kind": "Katalog"}).problems] == ["declares no operatorBox"]


@pytest.mark.slow
def test_a_list_without_end_and_a_name_without_end_are_bounded() -> None:
    many = [{"name": f"a{at}"} for at in range(1_001)]
    assert told(onReconcile={"configMaps": many}) == [
        "operatorBox.onReconcile.configMaps[1000]: is one too many: a list has at most 1000 entries"
    ]
    (long,) = told(onReconcile={"configMaps": [{"name": "{{" * 100_000}, {"name": "b"}]})
    assert long.endswith("a template has at most 8192 characters, this one has 200000")
