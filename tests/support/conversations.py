"""Conversations with an API server as data, and who can hold them: the server in process, and any URL."""

import http.client
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

import attrs

from kubelab.model.calls import DeleteOptions, FieldValidation, RequestTarget, WriteOptions
from kubelab.model.failure import ApiFailure, status_body
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.ports import PatchType
from tests.support.patience import PATIENCE

SAMPLE: Final = Kind("talks.vworkspace.test", "v1", "Sample", "samples")
MISSING: Final = "<missing>"
_MEDIA: Final = {
    "apply": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
}


def definition() -> dict[str, Any]:
    """The CRD of what is talked about: a list of every sort, a default, a status."""
    text, number = {"type": "string"}, {"type": "integer"}
    port = {"properties": {"port": number, "name": text, "note": text}, "required": ["port", "name"]}
    spec = {
        "size": {**number, "maximum": 9},
        "mode": {**text, "default": "normal"},
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "ports": {
            "type": "array",
            "items": {"type": "object", **port},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "name"],
        },
        "words": {"type": "array", "items": text},
        "whole": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
        "loose": {"type": "object", "additionalProperties": text},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    status = {"type": "object", "properties": {"note": text}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": status}}
    version = {"name": SAMPLE.version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        **CUSTOM_RESOURCE_DEFINITION.manifest(SAMPLE.crd_name),
        "spec": {
            "group": SAMPLE.group,
            "scope": "Namespaced",
            "names": {"kind": SAMPLE.kind, "plural": SAMPLE.plural},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@attrs.frozen
class Turn:
    """A request about the object `a`, and what a real server answers.

    `verb` is apply, merge, json, put, post, get or delete; `body` a spec and whatever else, completed to an object
    except for patches. In it "$uid" and "$version" stand for those of the last object answered. Of the answer are
    compared: the status; `says`, by dotted path ("<missing>" for nothing there); `owns`, the leaves of spec, status
    and metadata by manager (complete: nobody else owns anything); for errors `reason` and the `fields` of the causes;
    and `version`, whether the resourceVersion is the `same` as before or `moved`.
    """

    verb: str
    body: Any = None
    status: int = 200
    manager: str = "one"
    force: bool = False
    dry: bool = False
    validation: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = "a"
    says: Mapping[str, Any] = attrs.field(factory=dict)
    owns: Mapping[str, set[str]] | None = None
    reason: str | None = None
    fields: set[str] | None = None
    version: str = ""


@attrs.frozen
class Answer:
    """What came back."""

    status: int
    body: Any


class Partner(Protocol):
    """Who answers. `ask` gets the turn with its body completed, and the namespace."""

    def ask(self, turn: Turn, body: Any, namespace: str) -> Answer:
        """One request."""


@attrs.frozen
class InProcess:
    """The server's own methods."""

    server: ApiServer

    def ask(self, turn: Turn, body: Any, namespace: str) -> Answer:
        """Call what the HTTP face would call."""
        try:
            reply = self._called(
                turn, body, RequestTarget(self.server.resource(SAMPLE), namespace, turn.name, turn.subresource)
            )
        except ApiFailure as failure:
            return Answer(failure.status, status_body(failure))
        return Answer(reply.status, reply.object())

    def _called(self, turn: Turn, body: Any, where: RequestTarget) -> Any:
        validation = FieldValidation(turn.validation) if turn.validation else FieldValidation.WARN
        options = WriteOptions(turn.manager or None, turn.force, turn.dry, validation)
        match turn.verb:
            case "apply":
                return self.server.apply(where, body, options)
            case "merge" | "json":
                kind = PatchType.MERGE if turn.verb == "merge" else PatchType.JSON
                return self.server.patch(where, body, kind, options)
            case "put":
                return self.server.update(where, body, options)
            case "post":
                return self.server.create(attrs.evolve(where, name=""), body, options)
            case "get":
                return self.server.get(where)
            case "delete":
                asked = get_path(body or {}, "preconditions") or {}
                delete_options = DeleteOptions(asked.get("uid"), asked.get("resourceVersion"), dry_run=turn.dry)
                return self.server.delete(where, delete_options)
        raise AssertionError(f"there is no verb {turn.verb}")


@attrs.frozen
class OverHttp:
    """Any server that speaks HTTP."""

    url: str
    token: str = ""
    trust: ssl.SSLContext | None = None

    def ask(self, turn: Turn, body: Any, namespace: str) -> Answer:
        """Send it."""
        path = f"/apis/{SAMPLE.api_version}/namespaces/{namespace}/{SAMPLE.plural}"
        names = [turn.name, turn.subresource] if turn.verb != "post" else []
        query = {"fieldManager": turn.manager, "fieldValidation": turn.validation, "dryRun": "All" if turn.dry else ""}
        query["force"] = "true" if turn.force else ""
        if turn.verb in ("get", "delete"):
            query = {"dryRun": query["dryRun"]}
        asked = urlencode({key: value for key, value in query.items() if value})
        method = "PATCH" if turn.verb in _MEDIA else turn.verb.upper()
        where = "/".join([path, *filter(None, names)])
        return self.send(method, f"{where}?{asked}", body, _MEDIA.get(turn.verb, "application/json"))

    def send(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Answer:
        """One request on a connection of its own."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        connection = (
            http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
            if self.trust is None
            else http.client.HTTPSConnection(parts.hostname, parts.port, timeout=PATIENCE, context=self.trust)
        )
        headers = {"content-type": media, "user-agent": "talk/1"}
        headers |= {"authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            raw = reply.read()
            return Answer(reply.status, json.loads(raw) if raw[:1] == b"{" else raw.decode())
        finally:
            connection.close()

    def until_served(self, patience: float = PATIENCE) -> None:
        """Wait until the server knows the kind. AssertionError after `patience` seconds."""
        limit = time.monotonic() + patience
        while self.send("GET", f"/apis/{SAMPLE.api_version}").status != 200:
            assert time.monotonic() < limit, f"{SAMPLE.crd_name} is not served"
            time.sleep(0.1)


def hold(partner: Partner, turns: Sequence[Turn], namespace: str) -> None:
    """Hold a conversation. AssertionError tells the turn and what is different."""
    last: dict[str, Any] = {}
    for number, turn in enumerate(turns):
        body = _filled(_completed(turn, namespace), last)
        answer = partner.ask(turn, body, turn.namespace or namespace)
        where = f"turn {number}, {turn.verb} {json.dumps(body)}: answered {answer.status} {json.dumps(answer.body)}"
        assert answer.status == turn.status, where
        _compare(turn, answer.body, last, where)
        if answer.status < 300 and not turn.dry and answer.body.get("kind") == SAMPLE.kind:
            last = answer.body


def _completed(turn: Turn, namespace: str) -> Any:
    if turn.verb in ("merge", "json", "get", "delete"):
        return turn.body
    given = dict(turn.body or {})
    meta = {"name": turn.name, "namespace": turn.namespace or namespace, **given.pop("metadata", {})}
    return {"apiVersion": SAMPLE.api_version, "kind": SAMPLE.kind, "metadata": meta, **given}


def _filled(body: Any, last: Mapping[str, Any]) -> Any:
    if isinstance(body, dict):
        return {key: _filled(value, last) for key, value in body.items()}
    if isinstance(body, list):
        return [_filled(value, last) for value in body]
    known = {"$uid": "uid", "$version": "resourceVersion"}
    return last["metadata"][known[body]] if isinstance(body, str) and body in known else body


def _compare(turn: Turn, body: Mapping[str, Any], last: Mapping[str, Any], where: str) -> None:
    for path, value in turn.says.items():
        found = get_path(body, *path.split("."))
        assert (MISSING if found is None else found) == value, f"{path}: {found!r}; {where}"
    if turn.owns is not None:
        assert owned(body) == turn.owns, f"owned: {owned(body)}; {where}"
    if turn.reason is not None:
        assert body.get("reason", "") == turn.reason, where
    if turn.fields is not None:
        assert {cause.get("field") for cause in get_path(body, "details", "causes") or ()} == turn.fields, where
    if turn.version:
        moved = get_path(body, "metadata", "resourceVersion") != get_path(last, "metadata", "resourceVersion")
        assert moved == (turn.version == "moved"), f"resourceVersion: {last}; {where}"


def owned(manifest: Mapping[str, Any]) -> dict[str, set[str]]:
    """The leaves that each manager owns, as in `spec.tags[a]`; `/status` and Update entries are named as such."""
    found: dict[str, set[str]] = {}
    for entry in get_path(manifest, "metadata", "managedFields") or ():
        name = entry["manager"] + ("" if entry["operation"] == "Apply" else "!")
        name += f"/{entry['subresource']}" if entry.get("subresource") else ""
        found[name] = set(_leaves(entry["fieldsV1"], ""))
    return found


def _leaves(fields: Mapping[str, Any], path: str) -> list[str]:
    if not fields:
        return [path]
    out: list[str] = []
    for key, below in fields.items():
        sort, _, name = key.partition(":")
        if key == ".":
            out.append(f"{path}.")
        else:
            shown = f".{name}" if sort == "f" else f"[{json.loads(name) if sort == 'v' else name}]"
            out += _leaves(below, f"{path}{shown}".removeprefix("."))
    return out
