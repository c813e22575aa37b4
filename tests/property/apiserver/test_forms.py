"""The pure parts of the HTTP face: paths, content negotiation, tables, JSONPaths, ages, protobuf bodies."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the HTTP face of the API server needs starlette and PyYAML")
from kubelab.http.answers import AcceptedForm, AnswerForm, wanted_form, wants_gzip
from kubelab.http.app import ResourcePath, parse_path
from kubelab.http.protobuf import decode_object, fields_of, text_field
from kubelab.http.tables.jsonpath import find
from kubelab.http.tables.render import table
from kubelab.model.failure import ApiFailure
from kubelab.model.resources import PrinterColumn
from purekube.apimachinery.durations import age, human_duration
from purekube.apimachinery.resources import CONFIG_MAP
from tests.support.apiserver_world import GIZMO, NOW, apply, at, config_map, gizmo, new_server

FORMS = frozenset({AnswerForm.TABLE, AnswerForm.PARTIAL})


@pytest.mark.parametrize(
    ("path", "parsed"),
    [
        ("/api/v1", ResourcePath("", "v1")),
        ("/apis/g/v1", ResourcePath("g", "v1")),
        ("/api/v1/namespaces", ResourcePath("", "v1", "namespaces")),
        ("/api/v1/namespaces/x", ResourcePath("", "v1", "namespaces", None, "x")),
        ("/api/v1/namespaces/x/finalize", ResourcePath("", "v1", "namespaces", None, "x", "finalize")),
        ("/api/v1/namespaces/x/pods", ResourcePath("", "v1", "pods", "x")),
        ("/apis/g/v1/things", ResourcePath("g", "v1", "things")),
        ("/apis/g/v1/things/a/status", ResourcePath("g", "v1", "things", None, "a", "status")),
        ("/apis/g/v1/namespaces/x/things/a/scale", ResourcePath("g", "v1", "things", "x", "a", "scale")),
        ("/apis/g/v1/namespaces/x/status", ResourcePath("g", "v1", "status", "x")),
        ("/apis/g/v1/namespaces/x/things/a/b/c", None),
        ("/apis", None),
        ("/version", None),
    ],
)
def test_a_path_names_a_resource(path: str, parsed: ResourcePath | None) -> None:
    assert parse_path(path) == parsed


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", AcceptedForm(AnswerForm.OBJECT)),
        ("*/*", AcceptedForm(AnswerForm.OBJECT)),
        ("application/json", AcceptedForm(AnswerForm.OBJECT)),
        ("application/json, text/plain;q=0.1", AcceptedForm(AnswerForm.OBJECT)),
        ("application/yaml", AcceptedForm(AnswerForm.OBJECT, yaml=True)),
        ("application/vnd.kubernetes.protobuf,application/json", AcceptedForm(AnswerForm.OBJECT)),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", AcceptedForm(AnswerForm.TABLE)),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", AcceptedForm(AnswerForm.OBJECT)),
        ("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,*/*", AcceptedForm(AnswerForm.OBJECT)),
    ],
)
def test_the_first_form_that_is_there_is_taken(accept: str, wanted: AcceptedForm) -> None:
    assert wanted_form(accept, FORMS) == wanted


@pytest.mark.parametrize("accept", ["text/html", "application/json;as=Chair;v=v1"])
def test_no_form_at_all_is_406(accept: str) -> None:
    with pytest.raises(ApiFailure) as caught:
        wanted_form(accept, FORMS)
    assert caught.value.status == 406


@given(st.text(max_size=40))
def test_any_accept_header_is_understood_or_406(accept: str) -> None:
    try:
        wanted_form(accept, FORMS)
    except ApiFailure as failure:
        status = failure.status
    else:
        status = 406
    assert status == 406


def test_gzip_is_looked_for_by_name() -> None:
    assert wants_gzip("deflate, gzip;q=1.0")
    assert not wants_gzip("identity, xgzip")


THING: dict[str, Any] = {
    "spec": {"size": 3, "tags": ["a", "b"], "a.b": "dotted"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("spec.size", [3]),
        (".spec.tags[0]", ["a"]),
        (".spec.tags[-1]", ["b"]),
        (".spec.tags[9]", []),
        (".spec.tags[*]", ["a", "b"]),
        (r".spec.a\.b", ["dotted"]),
        (".spec['a.b']", ["dotted"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Synced')].status", ["False"]),
        (".status.conditions[?(@.type!='Synced')].status", ["True"]),
        (".status.conditions[*].type", ["Ready", "Synced"]),
        (".spec.size.deeper", []),
        (".nothing", []),
        (".spec[", []),
    ],
)
def test_a_jsonpath_finds(path: str, found: list[Any]) -> None:
    assert find(path, THING) == found


@given(st.text(max_size=20))
@example("..")
@example("[?(@.x==1)]")
def test_any_path_finds_something_or_nothing(path: str) -> None:
    assert isinstance(find(path, THING), list)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 61, "3h1m"),
        (24 * 3600, "24h"),
        (3 * 86400 + 3600, "3d1h"),
        (30 * 86400, "30d"),
        (3 * 365 * 86400, "3y"),
    ],
)
def test_ages_read_like_kubectls(seconds: int, shown: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == shown


def test_an_age_needs_a_time() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert [age(text, now) for text in ("2026-01-01T00:00:00Z", None, "", "soon")] == [
        "60s",
        "<unknown>",
        "<unknown>",
        "<invalid>",
    ]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        (PrinterColumn("Size", "integer", ".spec.size"), 1),
        (PrinterColumn("Size", "string", ".spec.size"), "1"),
        (PrinterColumn("Size", "date", ".spec.size"), None),
        (PrinterColumn("Size", "boolean", ".spec.size"), None),
        (PrinterColumn("Size", "number", ".spec.size"), 1),
        (PrinterColumn("None", "string", ".spec.none"), None),
        (PrinterColumn("Made", "date", ".metadata.creationTimestamp"), "0s"),
        (PrinterColumn("Labels", "string", ".metadata.labels"), '{"app":"a"}'),
    ],
)
def test_a_cell_is_what_its_column_says(column: PrinterColumn, cell: Any) -> None:
    server = new_server()
    made = apply(server, gizmo("a", labels={"app": "a"}))
    resource = attrs.evolve(server.resource(GIZMO), columns=(column,))
    shown = table(resource, [made], {}, "None", NOW)
    assert shown["rows"] == [{"cells": ["a", cell]}]


def test_built_in_kinds_have_the_columns_everybody_knows() -> None:
    server = new_server()
    made = apply(server, config_map("c"), CONFIG_MAP)
    shown = table(server.resource(CONFIG_MAP), [made], {"resourceVersion": "1"}, "Object", NOW)
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert shown["rows"] == [{"cells": ["c", 1, "0s"], "object": made}]
    assert at(server, CONFIG_MAP).resource is server.resource(CONFIG_MAP)


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    type_meta = text_field(1, api_version) + text_field(2, kind)
    return b"k8s\x00" + text_field(1, type_meta) + text_field(2, message)


@given(st.text(min_size=1, max_size=200), st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=200)))
def test_a_config_map_comes_through_protobuf(name: str, data: dict[str, str]) -> None:
    entries = b"".join(text_field(2, text_field(1, key) + text_field(2, value)) for key, value in data.items())
    message = text_field(1, text_field(1, name)) + entries
    found = decode_object(envelope("v1", "ConfigMap", message))
    assert found["metadata"] == {"name": name}
    assert found.get("data", {}) == data


@pytest.mark.parametrize("version", ["v1", "apps/v1"])
def test_options_of_a_delete_come_through_protobuf_as_typed_clients_send_them(version: str) -> None:
    message = (
        text_field(2, text_field(1, "u") + text_field(2, "7")) + text_field(4, "Background") + text_field(5, "All")
    )
    found = decode_object(envelope(version, "DeleteOptions", message))
    del found["apiVersion"], found["kind"]
    assert found == {
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Background",
        "dryRun": ["All"],
    }


def number_field(number: int, value: int) -> bytes:
    """Encode a varint; a negative one as 64 bits, as protobuf does."""
    raw, out = value % (1 << 64), bytearray([number << 3])
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


META = text_field(1, text_field(1, "a"))
PORT = text_field(2, "TCP") + number_field(3, 80) + number_field(5, 0)
NAMED_PORT = text_field(4, number_field(1, 1) + number_field(2, 0) + text_field(3, "http"))
PLAIN_PORT = text_field(4, number_field(1, 0) + number_field(2, 8080) + text_field(3, ""))
BACKEND = text_field(4, text_field(1, "web") + text_field(2, text_field(1, "") + number_field(2, 80)))
PATH = text_field(1, "/") + text_field(2, BACKEND) + text_field(3, "Prefix")
RUNNING = (
    text_field(1, "web")
    + text_field(7, text_field(1, "LEVEL") + text_field(2, "debug"))
    + text_field(8, text_field(1, text_field(1, "memory") + text_field(2, text_field(1, "1Gi"))))
    + text_field(9, text_field(1, "data") + number_field(2, 0) + text_field(3, "/data"))
)
"""A container with what an operator gives it: an environment, limits, a mount."""
DATA = text_field(1, "data") + text_field(2, text_field(10, text_field(1, "web") + number_field(2, 0)))
RULE = text_field(1, "a.example.com") + text_field(2, text_field(1, text_field(1, PATH)))


@pytest.mark.parametrize(
    ("api_version", "kind", "message", "fields"),
    [
        (
            "v1",
            "Service",
            text_field(
                2, text_field(1, PORT + NAMED_PORT) + text_field(1, PORT + PLAIN_PORT) + text_field(4, "ClusterIP")
            ),
            {
                "spec": {
                    "type": "ClusterIP",
                    "ports": [
                        {"protocol": "TCP", "port": 80, "targetPort": "http"},
                        {"protocol": "TCP", "port": 80, "targetPort": 8080},
                    ],
                }
            },
        ),
        (
            "v1",
            "ResourceQuota",
            text_field(2, text_field(1, text_field(1, "cpu") + text_field(2, text_field(1, "500m")))),
            {"spec": {"hard": {"cpu": "500m"}}},
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            text_field(2, text_field(1, number_field(1, 1) + text_field(3, "50%"))),
            {"spec": {"minAvailable": "50%"}},
        ),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            number_field(2, -10) + number_field(3, 0) + text_field(4, ""),
            {"value": -10},
        ),
        (
            "networking.k8s.io/v1",
            "Ingress",
            text_field(2, text_field(3, RULE) + text_field(4, "nginx")),
            {
                "spec": {
                    "ingressClassName": "nginx",
                    "rules": [
                        {
                            "host": "a.example.com",
                            "http": {
                                "paths": [
                                    {
                                        "path": "/",
                                        "pathType": "Prefix",
                                        "backend": {"service": {"name": "web", "port": {"number": 80}}},
                                    }
                                ]
                            },
                        }
                    ],
                }
            },
        ),
        (
            "apps/v1",
            "Deployment",
            text_field(
                2, number_field(1, 0) + text_field(3, text_field(2, text_field(2, RUNNING) + text_field(1, DATA)))
            ),
            {
                "spec": {
                    "replicas": 0,
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "web",
                                    "env": [{"name": "LEVEL", "value": "debug"}],
                                    "resources": {"limits": {"memory": "1Gi"}},
                                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                                }
                            ],
                            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "web"}}],
                        }
                    },
                }
            },
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            text_field(2, text_field(5, "")),
            {"spec": {"storageClassName": ""}},
        ),
        (
            "events.k8s.io/v1",
            "Event",
            text_field(2, number_field(1, 1767225600) + number_field(2, 1_500_000)) + text_field(3, b""),
            {"eventTime": "2026-01-01T00:00:00.001500Z", "series": {}},
        ),
        (
            "apps/v1",
            "ControllerRevision",
            text_field(2, text_field(1, b'{"spec":{"size":1}}')) + number_field(3, 1),
            {"data": {"spec": {"size": 1}}, "revision": 1},
        ),
        (
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            text_field(
                2, text_field(5, text_field(1, "scopes") + text_field(2, text_field(1, "a") + text_field(1, "b")))
            ),
            {"spec": {"extra": {"scopes": ["a", "b"]}}},
        ),
        (
            "batch/v1",
            "CronJob",
            text_field(
                2, text_field(1, "@daily") + number_field(4, 0) + text_field(5, text_field(2, number_field(7, 2)))
            ),
            {"spec": {"schedule": "@daily", "suspend": False, "jobTemplate": {"spec": {"backoffLimit": 2}}}},
        ),
    ],
)
def test_built_in_kinds_come_through_protobuf_with_every_field(
    api_version: str, kind: str, message: bytes, fields: dict[str, Any]
) -> None:
    found = decode_object(envelope(api_version, kind, META + message))
    assert found == {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **fields}


@given(st.binary(max_size=60))
@example(b"\x08")
@example(b"\x0a\xff\xff\xff\xff\x0f")
def test_any_bytes_are_a_message_or_a_refusal(raw: bytes) -> None:
    kinds = (("v1", "ConfigMap"), ("v1", "Service"), ("v1", "Event"), ("apps/v1", "ControllerRevision"))
    for body in (raw, b"k8s\x00" + raw, *(envelope(*kind, raw) for kind in kinds)):
        try:
            decode_object(body)
        except ApiFailure as failure:
            status = failure.status
        else:
            status = 400
        assert status in (400, 415)


def test_a_kind_that_is_not_described_is_415_and_named() -> None:
    with pytest.raises(ApiFailure, match=r"example\.com/v1 Unheard") as caught:
        decode_object(envelope("example.com/v1", "Unheard", b""))
    assert caught.value.status == 415


@given(st.integers(1, 500), st.binary(max_size=300))
def test_a_field_reads_as_it_was_written(number: int, value: bytes) -> None:
    assert list(fields_of(text_field(number, value))) == [(number, value)]
