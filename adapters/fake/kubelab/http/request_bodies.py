"""The decoding of request bodies: their size, compression, and JSON or YAML with a report of duplicate keys."""

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import yaml

from kubelab.model.failure import bad_request, too_large
from kubelab.writes.typed_values import without_fractions

# apiserver: server/config.go, MaxRequestBodyBytes.
BODY_LIMIT: Final = 3 * 1024 * 1024
"""The largest request body in bytes, compressed or not (W-37)."""


@attrs.frozen
class DecodedBody:
    """A decoded request body. `duplicates` are the paths of keys that occur twice in one object.

    The last value of such a key counts.
    """

    value: Any
    duplicates: tuple[str, ...] = ()


def check_size(size: int) -> None:
    """Raise ApiFailure 413 if `size`, the number of bytes of a request body, is more than BODY_LIMIT (3 MiB)."""
    if size > BODY_LIMIT:
        raise too_large(f"Request entity too large: limit is {BODY_LIMIT}")


def inflate(raw: bytes) -> bytes:
    """Return gzipped data decompressed. Raises ApiFailure 400 for any other data, 413 if the result is too large."""
    # 31 is 15 bits of window and 16 for a gzip header. The limit stops a small body that inflates without end.
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(raw, BODY_LIMIT + 1)
    except zlib.error as error:
        raise bad_request(f"error decompressing the request body: {error}") from error
    check_size(len(plain))
    return plain


def read_json(raw: bytes) -> DecodedBody:
    """Decode a JSON body, and report its duplicate keys. Raises ApiFailure 400 for other data."""
    repeated = _Repeated()
    try:
        value = json.loads(raw, object_pairs_hook=repeated.of_pairs)
    except (ValueError, RecursionError) as error:
        # apimachinery: runtime/serializer/json/meta.go.
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    return DecodedBody(value, repeated.paths(value))


def read_yaml(raw: bytes) -> DecodedBody:
    """Decode YAML, which includes JSON, and report its duplicate keys. Raises ApiFailure 400 for other data."""
    repeated = _Repeated()
    if raw.lstrip()[:1] == b"{":
        try:
            value = json.loads(raw, object_pairs_hook=repeated.of_pairs)
            return DecodedBody(without_fractions(value), repeated.paths(value))
        except ValueError:  # a YAML flow mapping begins like JSON: the YAML reader decides
            repeated = _Repeated()
    loader = _Loader(raw.decode("utf-8", "replace"))
    loader.repeated = repeated
    try:
        value = loader.get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {_yaml_error(error)}") from error
    finally:
        loader.dispose()
    return DecodedBody(without_fractions(value), repeated.paths(value))


class _Repeated:
    """A recorder of the keys that occur twice in one object of a document, used while the document is parsed."""

    def __init__(self) -> None:
        self._keys: dict[int, list[str]] = {}

    def of_pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the JSON object with the members `pairs`, and record which of its keys occur twice."""
        members = dict(pairs)
        if len(members) != len(pairs):
            seen: set[str] = set()
            self._keys[id(members)] = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
        return members

    def paths(self, value: Any) -> tuple[str, ...]:
        """Return the paths of all recorded keys in `value`, the parsed document."""
        return tuple(self._walk(value, "")) if self._keys else ()

    def _walk(self, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, Mapping):
            for key in self._keys.get(id(value), ()):
                yield f"{path}.{key}" if path else key
            for key, member in value.items():
                yield from self._walk(member, f"{path}.{key}" if path else key)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._walk(item, f"{path}[{index}]")


class _Loader(yaml.CSafeLoader):
    """A YAML loader with Kubernetes' rules: only JSON values, so no dates, and keys as text."""

    repeated: _Repeated

    def construct_json_mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        self.flatten_mapping(node)
        pairs = [
            (_key(self.construct_object(key, deep=True)), self.construct_object(value, deep=True))
            # The keys of JSON objects are texts, so `1:` and `true:` become "1" and "true".
            for key, value in node.value
        ]
        return self.repeated.of_pairs(pairs)


def _yaml_error(error: Exception) -> str:
    """Return the parser's message with the line, in the words of kube-apiserver's YAML library.

    The parser here and the one in kube-apiserver both derive from libyaml, so their messages are alike.
    """
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return " ".join(str(error).split())
    mark = error.context_mark or error.problem_mark
    return f"line {max(1, mark.line if mark else 1)}: {error.problem}"


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


_DATES: Final = "tag:yaml.org,2002:timestamp"
# YAML becomes JSON, which has no dates, so a timestamp without quotes stays text, as on a kube-apiserver.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATES]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_json_mapping)
