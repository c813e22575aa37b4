"""What a write asks for and what it yields: the values that pass between the handlers and the pipeline.

The pipeline (`pipeline.py`) is a set of pure functions; time, fresh uids and generated names are arguments:

    create(definition, body, write)                    POST
    update(definition, live, body, write)              PUT
    patch(definition, live, patch, patch_type, write)  JSON, merge and strategic merge patch
    apply(definition, live_or_None, body, write)       server-side apply

Each returns an `WriteOutcome` or raises `ApiFailure`. `write.subresource` is empty, `status` or `scale`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import attrs

from vworkspace_apiserver.model.failure import ApiFailure
from vworkspace_core.schema.node import Schema


class FieldValidation(StrEnum):
    """What happens to fields the schema does not know, on everything but apply (W-36)."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


@attrs.frozen
class WriteRequest:
    """One write request besides its body.

    `name` and `namespace` come from the URL (`name` is empty on POST; `namespace` is empty for
    cluster-scoped kinds). `manager` is the field manager, already defaulted from the User-Agent (S-53).
    `now` is RFC 3339 in whole seconds, UTC. `uid` and `generated_name` are what a created object gets;
    `generated_name` matters only for a body with `generateName` and no name (W-35). With `defers` an object that
    does not keep to its schema is not refused at once: mutating webhooks are asked before it is validated.
    `settled` tells that the live object was found valid by the schema of this request and stored in its form: what
    the new state shares with it needs no second look.
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
    """What a write yields.

    `object` is the object to store; its `resourceVersion` is the live one (absent on create), the store
    sets the next. `changed` is False for a no-op: `object` then equals the live object in everything,
    managedFields and times included, and the store writes nothing (S-65). `created` tells 201 from 200.
    `warnings` are the texts for `Warning: 299` headers. `lacks_status` tells that the status in `object` is a
    default, which readers see and no write has stored: the next write stores it, also when it changes nothing.
    `refusal` is what is wrong with the object, of a write that defers it. `schema` is what found it valid; None where
    nothing did.
    """

    object: Mapping[str, Any]
    changed: bool
    created: bool = False
    warnings: tuple[str, ...] = ()
    lacks_status: bool = False
    refusal: ApiFailure | None = None
    schema: Schema | None = None
