"""Write requests and their outcomes: the values that pass between the handlers and the pipeline.

The pipeline (`pipeline.py`) is a set of pure functions; time, fresh uids and generated names are arguments:

    create(definition, body, write)                    POST
    update(definition, live, body, write)              PUT
    patch(definition, live, patch, patch_type, write)  JSON, merge and strategic merge patch
    apply(definition, live_or_None, body, write)       server-side apply

Each returns a `WriteOutcome` or raises `ApiFailure`. `write.subresource` is empty, `status` or `scale`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import attrs

from kubelab.model.failure import ApiFailure
from purekube.schema.node import Schema


class FieldValidation(StrEnum):
    """The treatment of fields that the schema does not declare, in all writes except apply (W-36)."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


@attrs.frozen
class WriteRequest:
    """A write request without its body.

    `name` and `namespace` come from the URL (`name` is empty on POST; `namespace` is empty for cluster-scoped kinds).
    `manager` is the field manager, already defaulted from the User-Agent (S-53). `now` is RFC 3339 in whole seconds,
    UTC. `uid` and `generated_name` are what a created object gets; `generated_name` matters only for a body with
    `generateName` and no name (W-35). With `defers` an object that violates its schema is not refused at once: mutating
    webhooks are called before it is validated. `settled` means that the live object was validated by the schema of this
    request and is stored in its form: the parts that the new state shares with it are not validated again.
    """

    manager: str
    now: str
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    force: bool = False
    field_validation: FieldValidation = FieldValidation.WARN
    uid: str = ""
    generated_name: str = ""
    defers: bool = False
    settled: bool = False


@attrs.frozen
class WriteOutcome:
    """The outcome of a write.

    `object` is the object to store; its `resourceVersion` is the live one (absent on create), the store sets the next.
    `changed` is False for a no-op: `object` then equals the live object in everything, managedFields and times
    included, and the store writes nothing (S-65). `created` distinguishes 201 from 200. `warnings` are the texts for
    `Warning: 299` headers. `lacks_status` means that the status in `object` is a default, which readers see and no
    write has stored: the next write stores it, even if it changes nothing. `refusal` is what is wrong with the object,
    in a write that defers validation. `schema` is the schema by which it was found valid; None if it was not validated.
    """

    object: Mapping[str, Any]
    changed: bool
    created: bool = False
    warnings: tuple[str, ...] = ()
    lacks_status: bool = False
    refusal: ApiFailure | None = None
    schema: Schema | None = None
