"""Reusable parts of the JSON Schemas by which built-in templates describe the parameters of Operations (OPS-2)."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from purekube.apimachinery.formats import DNS_LABEL, DNS_SUBDOMAIN, EXACT_SEMVER, Form
from vworkspace_core.api.operation import LONGEST_TIMEOUT

ParameterSchema: TypeAlias = dict[str, Any]

LABEL: Final[ParameterSchema] = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": DNS_LABEL}

NAME: Final[ParameterSchema] = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": DNS_SUBDOMAIN}
"""The schema of a Kubernetes object's name."""

RESOURCE: Final[ParameterSchema] = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^(\*|[a-z][-a-z0-9]*(\.[a-z0-9][-a-z0-9.]*)?)$",
}

DURATION: Final[ParameterSchema] = {
    "type": "string",
    "maxLength": 32,
    "pattern": "^(?=.)([0-9]{1,5}d)?([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$",
}

QUANTITY: Final[ParameterSchema] = {
    "type": "string",
    "maxLength": 32,
    "pattern": r"^[1-9][0-9]{0,8}(\.[0-9]{1,3})?([KMGTPE]i?|k)?$",
}

SECONDS: Final[ParameterSchema] = {"type": "integer", "minimum": 1, "maximum": LONGEST_TIMEOUT}

SEMVER: Final[ParameterSchema] = {"type": "string", "maxLength": 128, "pattern": EXACT_SEMVER}


# What both VolSync's CRD and its parser take (robfig/cron 3.0.1), which know no names and no Sunday 7. With a schedule
# that its parser refuses, VolSync makes one sync and no second.
_CRON_FIELDS: Final = " ".join(
    rf"(\*(/[1-9][0-9]?)?|({number},)*{number}|{number}(-{number}|/[1-9][0-9]?))"
    for number in ("[0-5]?[0-9]", "([01]?[0-9]|2[0-3])", "(0?[1-9]|[12][0-9]|3[01])", "(0?[1-9]|1[0-2])", "0?[0-6]")
)
CRON: Final[ParameterSchema] = {
    "type": "string",
    "maxLength": 100,
    "pattern": rf"^(@(annually|yearly|monthly|weekly|daily|hourly)|{_CRON_FIELDS})$",
}

IMAGE: Final[ParameterSchema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 512,
    "pattern": r"^[a-z0-9][a-zA-Z0-9._/:@-]*$",
}

TEXT: Final[ParameterSchema] = {"type": "string", "maxLength": 32_768}

ENV_NAME: Final[ParameterSchema] = {"type": "string", "maxLength": 253, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}


# An argument must not look like a template of Argo, nor break a line.
ARGUMENT: Final[ParameterSchema] = {
    "type": ["string", "number", "boolean"],
    "maxLength": 4096,
    "pattern": r"^(?!.*\{\{)[^\x00-\x1f\x7f]*$",
}

ACCESS_MODES: Final[ParameterSchema] = {
    "type": "array",
    "minItems": 1,
    "maxItems": 4,
    "items": {"enum": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]},
}


def list_schema(items: ParameterSchema, most: int = 64) -> ParameterSchema:
    """Return the schema of a list of at most `most` items, each of the schema `items`."""
    return {"type": "array", "items": items, "maxItems": most}


def mapped(keys: ParameterSchema, values: ParameterSchema, most: int = 64) -> ParameterSchema:
    """Return the schema of a map with at most `most` entries, whose keys and values have the schemas `keys` and
    `values`.
    """
    return {"type": "object", "propertyNames": keys, "additionalProperties": values, "maxProperties": most}


def record(required: tuple[str, ...] = (), /, **properties: ParameterSchema) -> ParameterSchema:
    """Return the schema of an object with only these properties. The properties named in `required` must be present."""
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


def with_description(text: str, schema: ParameterSchema) -> ParameterSchema:
    """Return `schema` with `text` as the description of the parameter, which `docs/operations.md` prints."""
    return {**schema, "description": text}


ARGUMENT_NAME: Final[ParameterSchema] = {"maxLength": 63, "pattern": "^[A-Za-z0-9_][-A-Za-z0-9_]*$"}

PERIOD: Final[ParameterSchema] = {"type": "string", "maxLength": 32, "pattern": "^([0-9]{1,6}[ymdh])+$"}

COUNT: Final[ParameterSchema] = {"type": "string", "maxLength": 8, "pattern": "^[0-9]+$"}

PARAMETER_FORMS: Final[Mapping[str, Form]] = {
    schema["pattern"]: Form(schema["pattern"], words, example, is_told)
    for schema, words, example, is_told in (
        (RESOURCE, "be * or a resource in the plural, with its group where it has one", "deployments.apps", True),
        (DURATION, "be a duration of days, hours, minutes and seconds", "30d, 720h or 1d12h", True),
        (QUANTITY, "be a size", "10Gi", True),
        (
            CRON,
            "be five fields of cron (Sunday is 0), or one of @hourly, @daily, @weekly and @monthly",
            "'0 3 * * *'",
            True,
        ),
        (IMAGE, "be the name of an image", "registry.example.com/tools/backup:1.2", True),
        (ENV_NAME, "be a variable's name: letters, digits and underscores, not first a digit", "DB_HOST", True),
        (ARGUMENT, "be one line without {{", "daily", False),
        (ARGUMENT_NAME, "be letters, digits, hyphens and underscores, not first a hyphen", "bucket", True),
        (PERIOD, "be a number of years, months, days and hours", "1y6m or 30d", True),
        (COUNT, "be a number", "5", True),
    )
}
"""The forms of text parameters, by regular expression, each with the message for a string that does not match.

The message repeats the text, except for arguments of workflows, which may be secrets.
"""
