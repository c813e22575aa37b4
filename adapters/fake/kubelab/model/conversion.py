"""Conversion between the versions of a custom kind by webhooks, without I/O: requests to webhooks and their answers."""

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

import attrs

from kubelab.model.failure import ApiFailure, internal
from kubelab.model.records import encode
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.schema.node import Schema
from purekube.schema.pruning import apply_defaults, drop_nulls, prune


@attrs.frozen
class WebhookClient:
    """The address of a webhook: either a URL, or an in-cluster `service` (namespace, name).

    With a service, `url` is only `:<port><path>`. `ca` is the PEM bundle of the authorities that may sign the webhook's
    certificate. `timeout` is in seconds.
    """

    url: str
    service: tuple[str, str] | None
    ca: str
    timeout: float


def client_of(config: Mapping[str, Any], timeout: float) -> WebhookClient:
    """Return the address in `config`, the `clientConfig` of a webhook. `timeout` is in seconds."""
    service = config.get("service")
    where = (service["namespace"], service["name"]) if service else None
    path = f":{service.get('port', 443)}{service.get('path') or '/'}" if service else ""
    return WebhookClient(config.get("url") or path, where, b64decode(config.get("caBundle") or "").decode(), timeout)


_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_SECONDS: Final = 30.0
"""The seconds that kube-apiserver waits for the answer of a conversion webhook."""
# apiextensions: apiserver/conversion/webhook_converter.go, restoreObjectMeta.
_FREE: Final = ("labels", "annotations")
"""The fields of the metadata that a conversion may change."""
_SEEN: Final = ("name", "namespace", "uid", "labels", "annotations")
"""The fields of the metadata that a conversion may depend on. All others are restored after the conversion."""


@attrs.frozen
class WebhookConverter:
    """The webhook that converts the objects of one kind.

    `client` is its address, `review_version` the version of ConversionReview that it accepts.
    """

    client: WebhookClient
    review_version: str


def conversion_webhook(spec: Manifest) -> WebhookConverter | None:
    """Return the conversion webhook in a CRD's `spec`, or None if a conversion only changes the apiVersion."""
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return None
    webhook = conversion["webhook"]
    # apiextensions: apiserver/conversion/webhook_converter.go, createConversionReviewObjects takes the first version
    # that the server knows.
    understood = (version for version in webhook["conversionReviewVersions"] if version in ("v1", "v1beta1"))
    return WebhookConverter(client_of(webhook["clientConfig"], _SECONDS), next(understood, "v1"))


AskWebhook = Callable[[WebhookConverter, Manifest], Any]
"""A function that sends a review and returns the answer. Raises OSError or ValueError if the answer is unusable."""


class ConversionNeeded(Exception):
    """An exception that interrupts a request until `objects` are converted to `api_version`.

    The caller converts the objects and repeats the request.
    """

    def __init__(self, webhook: WebhookConverter, objects: Sequence[Manifest], api_version: str) -> None:
        super().__init__(f"{len(objects)} objects are needed in {api_version}")
        self.webhook = webhook
        self.objects = objects
        self.api_version = api_version

    def review(self, uid: str) -> dict[str, Any]:
        """Return the ConversionReview to send to the webhook; `uid` identifies the review."""
        return review_of(self.webhook, self.objects, self.api_version, uid)


def all_needed(needs: Sequence[ConversionNeeded]) -> ConversionNeeded:
    """Return one ConversionNeeded for as many of `needs` as a single request to a webhook can satisfy.

    The result has the webhook and version of the first of `needs`, and the objects of all `needs` with that webhook and
    version.
    """
    first = needs[0]
    of_first = [
        conversion_needed
        for conversion_needed in needs
        if (conversion_needed.webhook, conversion_needed.api_version) == (first.webhook, first.api_version)
    ]
    objects = [manifest for conversion_needed in of_first for manifest in conversion_needed.objects]
    return ConversionNeeded(first.webhook, objects, first.api_version)


def for_each(records: Iterable[Any], act: Callable[[Any], Any]) -> list[Any]:
    """Return the results of `act` for each record, in the same order.

    If `act` raises ConversionNeeded for some records, one ConversionNeeded is raised at the end, for as many of them as
    a single request to a webhook can satisfy.
    """
    made, needs = [], []
    for record in records:
        try:
            made.append(act(record))
        except ConversionNeeded as need:
            needs.append(need)
    if needs:
        raise all_needed(needs)
    return made


class ConversionAnswers:
    """The objects that conversion webhooks have converted so far for one request, to be found by object and version."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], Manifest] = {}

    def learn(self, need: ConversionNeeded, answer: Any, uid: str) -> None:
        """Store the conversions in `answer`, the webhook's answer to the review of `need` with the identifier `uid`.

        Raises ApiFailure for an answer that kube-apiserver refuses.
        """
        converted = converted_objects(need.objects, answer, need.api_version, uid, need.webhook.review_version)
        for manifest, result in zip(need.objects, converted, strict=True):
            self._known[need.api_version, _key(manifest)] = result

    def of(self, webhook: WebhookConverter, manifest: Manifest, api_version: str) -> Manifest:
        """Return `manifest` as `webhook` converted it to `api_version`.

        Raises ConversionNeeded if the webhook has not returned this conversion yet.
        """
        known = self._known.get((api_version, _key(manifest)))
        if known is None:
            raise ConversionNeeded(webhook, [manifest], api_version)
        return known


def _key(manifest: Manifest) -> bytes:
    meta = manifest.get("metadata") or {}
    return encode({**manifest, "metadata": {key: meta[key] for key in _SEEN if key in meta}})


class Conversions:
    """A converter that has webhooks convert objects from one version of their kind to another.

    By default it calls `ask`, a function in this process that answers like a webhook. The HTTP handler instead calls
    the webhooks over the network beforehand, and passes their answers to `answered_by`.
    """

    def __init__(self, ask: AskWebhook | None, check: Callable[[Manifest], Sequence[StatusCause]]) -> None:
        """Set `ask`, which calls a webhook in this process, and `check`, which returns the problems of metadata."""
        self._ask = ask
        self._check = check
        self._answers: ConversionAnswers | None = None
        self._asked = 0

    @contextmanager
    def answered_by(self, answers: ConversionAnswers) -> Iterator[None]:
        """Let `convert` take its results from `answers` while the block runs.

        `answers` are the conversions that webhooks have returned. For a conversion that they lack, `convert` raises
        ConversionNeeded then.
        """
        self._answers = answers
        try:
            yield
        finally:
            self._answers = None

    def convert(self, webhook: WebhookConverter, manifest: Manifest, api_version: str) -> Manifest:
        """Return `manifest` as `webhook` converts it to `api_version`.

        Raises ApiFailure if the webhook fails or its answer is invalid. Within `answered_by`, raises ConversionNeeded
        if the given answers lack this conversion.
        """
        if self._answers is not None:
            converted = self._answers.of(webhook, manifest, api_version)
        else:
            converted = self._asked_now(webhook, manifest, api_version)
        settled = with_own_metadata(manifest, converted)
        before, after = manifest.get("metadata") or {}, settled["metadata"]
        causes = self._check({key: after[key] for key in _FREE if key in after and after[key] != before.get(key)})
        if causes:
            # restoreObjectMeta validates only labels or annotations that changed, and calls the latter
            # `metadata.annotation`.
            texts = [f"{cause.field}: {cause.message}".replace("annotations", "annotation", 1) for cause in causes]
            text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            raise internal(f"{_named(manifest)} returned invalid metadata: {text}")
        return settled

    def _asked_now(self, webhook: WebhookConverter, manifest: Manifest, api_version: str) -> Manifest:
        self._asked += 1
        uid = str(UUID(int=self._asked))
        if self._ask is None:
            raise failed(manifest, "this server asks no webhooks: give ApiServer(ask=…) a function that answers")
        try:
            answer = self._ask(webhook, review_of(webhook, [manifest], api_version, uid))
        except (OSError, ValueError) as error:
            raise failed(manifest, str(error)) from error
        return converted_objects([manifest], answer, api_version, uid, webhook.review_version)[0]


def review_of(webhook: WebhookConverter, objects: Sequence[Manifest], api_version: str, uid: str) -> dict[str, Any]:
    """Return the ConversionReview that asks `webhook` to convert `objects` to `api_version`.

    `uid` identifies the review.
    """
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(objects)}
    return {"apiVersion": f"{_GROUP}/{webhook.review_version}", "kind": _KIND, "request": request}


def converted_objects(
    objects: Sequence[Manifest], answer: Any, api_version: str, uid: str, review_version: str
) -> Sequence[Manifest]:
    """Return the converted objects in `answer`, the answer of a conversion webhook, in the order of `objects`.

    `uid` and `review_version` are the id and the version of the ConversionReview that was sent; the answer must have
    the same. Raises ApiFailure, in kube-apiserver's words, for an answer that kube-apiserver refuses.
    """
    first = objects[0]
    response = _response(first, answer, uid, review_version)
    result = response.get("result")
    status = result.get("status") if isinstance(result, Mapping) else ""
    if status != "Success":
        message = result.get("message") if isinstance(result, Mapping) else ""
        raise failed(first, message or f"response.result.status was '{status or ''}', not 'Success'")
    converted = response.get("convertedObjects") or ()
    # The answers are matched by their order; nothing in an object says which one it was.
    if len(converted) != len(objects):
        raise internal(f"{_named(first)} returned {len(converted)} objects, expected {len(objects)}")
    for index, (manifest, result) in enumerate(zip(objects, converted, strict=True)):
        _check(manifest, result, api_version, index)
    return list(converted)


def failed(manifest: Manifest, why: str) -> ApiFailure:
    """Return the 500 failure of a request because the object `manifest` could not be converted. `why` is the reason."""
    return internal(f"{_named(manifest)} failed: {why}")


def _named(manifest: Manifest) -> str:
    return f"conversion webhook for {manifest['apiVersion']}, Kind={manifest['kind']}"


def _response(first: Manifest, answer: Any, uid: str, review_version: str) -> Manifest:
    if not isinstance(answer, Mapping):
        raise failed(first, "the answer is no JSON object")
    desired = f"{_GROUP}/{review_version}, Kind={_KIND}"
    got = f"{answer.get('apiVersion') or ''}, Kind={answer.get('kind') or ''}"
    if got != desired:
        raise failed(first, f"expected webhook response of {desired}, got {got}")
    response = answer.get("response")
    if not isinstance(response, Mapping):
        raise failed(first, "no response provided")
    if response.get("uid") != uid:
        raise failed(first, f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    return response


def _check(manifest: Manifest, converted: Any, api_version: str, index: int) -> None:
    """Raise ApiFailure unless `converted` is the object `manifest` in the version `api_version`.

    Kind, name, namespace and uid must be the same. `index` is the object's position in the webhook's answer.
    """
    if not isinstance(converted, Mapping):
        raise internal(f"{_named(manifest)} failed: the object at index {index} is no JSON object")
    at = f"{_named(manifest)} returned invalid"
    if converted.get("apiVersion") != api_version:
        got = converted.get("apiVersion") or ""
        why = f"invalid groupVersion (expected {api_version}, received {got})"
        raise internal(f"{at} object at index {index}: {why}")
    if converted.get("kind") != manifest["kind"]:
        why = f"invalid kind (expected {manifest['kind']}, received {converted.get('kind') or ''})"
        raise internal(f"{at} object at index {index}: {why}")
    metadata = converted.get("metadata")
    meta: Manifest = metadata if isinstance(metadata, Mapping) else {}
    for key, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = (manifest.get("metadata") or {}).get(key) or "", meta.get(key) or ""
        if before != after:
            raise internal(f"{at} object: must have the same {word}: {before} != {after}")
    for key in _FREE:
        _check_texts(at, key, meta.get(key))


def _check_texts(at: str, key: str, values: Any) -> None:
    if values is None:
        return
    if not isinstance(values, Mapping):
        raise internal(f"{at} metadata: invalid metadata.{key} of type {_go_type(values)} in converted object")
    for name, value in values.items():
        if not isinstance(value, str):
            why = f"metadata.{key}[{name}] must be a string, but is {_go_type(value)} in converted object"
            raise internal(f"{at} metadata: {why}")


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    words = {str: "string", int: "int64", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}
    return next((word for kind, word in words.items() if isinstance(value, kind)), "<nil>")


def with_own_metadata(manifest: Manifest, converted: Manifest) -> dict[str, Any]:
    """Return `converted` with the metadata of `manifest`. Only labels and annotations are those of `converted`."""
    meta = {key: value for key, value in (manifest.get("metadata") or {}).items() if key not in _FREE}
    metadata = converted["metadata"]
    kept = {key: metadata[key] for key in _FREE if metadata.get(key) is not None}
    return {**converted, "metadata": {**meta, **kept}}


class UntypedError(ValueError):
    """The error of a converted object with fields that the schema of its new version does not declare."""


@attrs.frozen(eq=False)
class KindVersions:
    """All versions of a custom kind that its CRD declares, served or not. `schemas` has their schemas by apiVersion.

    Objects are stored in the version `storage`. Without a `webhook` a conversion changes only the apiVersion.
    """

    schemas: Mapping[str, Schema] = attrs.field(repr=False)
    storage: str
    webhook: WebhookConverter | None
    conversions: Conversions = attrs.field(repr=False)

    def convert(self, manifest: Manifest, api_version: str) -> Manifest:
        """Return `manifest` in the version `api_version`, without the fields that this version does not have.

        Raises ApiFailure if the conversion fails, and ConversionNeeded if a webhook has to be called over the network
        first.
        """
        if manifest["apiVersion"] == api_version:
            return manifest
        pruned, _ = self._known(manifest, api_version)
        known: Manifest = drop_nulls(self.schemas[api_version], pruned)
        return known

    def typed(self, manifest: Manifest, api_version: str) -> Manifest:
        """Return `manifest` converted to the version `api_version`.

        The result is for comparing the object's fields with the fields that managers own. Unlike `convert`, raises
        UntypedError if the result has fields that are unknown in that version.
        """
        if manifest["apiVersion"] == api_version:
            return manifest
        known, unknown = self._known(manifest, api_version)
        if unknown:
            raise UntypedError(f".{unknown[0]}: field not declared in schema")
        return known

    def _known(self, manifest: Manifest, api_version: str) -> tuple[Manifest, tuple[str, ...]]:
        given = manifest["apiVersion"]
        for version, word in ((api_version, "to"), (given, "from")):
            if version not in self.schemas:
                raise internal(f"request to convert CR {word} an invalid group/version: {version}")
        if self.webhook is None or len(manifest) == 2:  # kube-apiserver sends no empty object to the webhook
            converted: Manifest = {**manifest, "apiVersion": api_version}
        else:
            converted = self.conversions.convert(self.webhook, manifest, api_version)
        return prune(self.schemas[api_version], dict(converted))

    def read(self, stored: Manifest, api_version: str) -> Manifest:
        """Return the stored object `stored` converted to the version `api_version`.

        Before the conversion, missing fields get the defaults of the version in which the object is stored.
        """
        schema = self.schemas.get(stored["apiVersion"])
        return self.convert(stored if schema is None else apply_defaults(schema, dict(stored)), api_version)

    def written(self, manifest: Manifest) -> Manifest:
        """Return `manifest`, an object of this kind in any version, converted to the version `storage`."""
        return self.convert(manifest, self.storage)
