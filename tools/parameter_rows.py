"""A JSON Schema of parameters, rendered as rows of a table."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vworkspace_core.operations import parameter_schemas as pieces

_PATTERNS: Final[Mapping[str, str]] = {
    pieces.LABEL["pattern"]: "a DNS label",
    pieces.NAME["pattern"]: "a DNS name",
    pieces.RESOURCE["pattern"]: "`*` or a resource such as `deployments.apps`",
    pieces.DURATION["pattern"]: "a duration such as `30d`, `720h`, `1d12h`",
    pieces.QUANTITY["pattern"]: "a size such as `10Gi`",
    pieces.SEMVER["pattern"]: "one exact semantic version",
    pieces.CRON["pattern"]: "five fields of cron, or `@daily` and its like",
    pieces.IMAGE["pattern"]: "an image reference",
    pieces.ENV_NAME["pattern"]: "a variable's name",
    pieces.ARGUMENT["pattern"]: "one line without `{{`",
}
_BOUNDS: Final = (
    ("minimum", "maximum", ""),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " entries"),
)


def parameter_rows(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield one row per property, nested ones after their parent: name, whether required, values, meaning."""
    for name, part in schema.get("properties", {}).items():
        required = "yes" if name in schema.get("required", ()) else ""
        values, meaning = ", ".join(_values(part)), part.get("description", "")
        yield f"| `{path}{name}` | {required} | {_cell(values)} | {_cell(meaning)} |"
        yield from parameter_rows(part, f"{path}{name}.")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _values(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values that the schema admits, in words."""
    if "enum" in schema:
        yield " or ".join(f"`{value}`" for value in schema["enum"])
        return
    kind = schema.get("type", ())
    kinds = [kind] if isinstance(kind, str) else list(kind)
    if "array" in kinds:
        yield f"list of {', '.join(_values(schema.get('items', {})))}"
    elif "propertyNames" in schema:
        yield f"map of {_name(schema['propertyNames'])} to {', '.join(_values(schema['additionalProperties']))}"
    elif kinds:
        yield " or ".join(kinds)
    if "pattern" in schema:
        yield _name(schema)
    yield from _limits(schema)


def _name(schema: Mapping[str, Any]) -> str:
    pattern = schema["pattern"]
    return _PATTERNS.get(pattern, f"matching `{pattern}`")


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    if "maxLength" in schema and "pattern" not in schema:
        yield f"at most {schema['maxLength']} characters"
    for least, most, what in _BOUNDS:
        if least in schema and most in schema:
            yield f"{schema[least]} to {schema[most]}{what}"
        elif most in schema:
            yield f"at most {schema[most]}{what}"
        elif least in schema:
            yield f"at least {schema[least]}{what}"
