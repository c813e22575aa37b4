"""Structural schemas: compiled once, then used to prune, default and validate.

`compile_schema` makes an immutable `Schema` or raises `SchemaError` with every problem. `prune`, `drop_nulls` and
`apply_defaults` decode an object by the schema as an API server does; `validate` returns everything that is invalid in
it. Schemas of built-in kinds are in `schema.builtin`.
"""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from purekube.schema.compile import compile_schema
    from purekube.schema.node import Schema, SchemaError, SchemaProblem
    from purekube.schema.pruning import apply_defaults, drop_nulls, prune
    from purekube.schema.violations import validate

__all__ = [
    "Schema",
    "SchemaError",
    "SchemaProblem",
    "apply_defaults",
    "compile_schema",
    "drop_nulls",
    "prune",
    "validate",
]

__getattr__, __dir__ = lazy_door(__name__)
