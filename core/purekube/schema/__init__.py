"""Structural schemas: compiled once, then used to prune, default and validate.

`compile_schema` makes an immutable `Schema` or raises `SchemaError` with every problem. `prune`, `drop_nulls` and
`apply_defaults` decode an object by the schema as an API server does; `validate` returns everything that is invalid in
it. Schemas of built-in kinds are in `schema.builtin`.
"""

from purekube.schema.compile import compile_schema
from purekube.schema.node import Schema, SchemaError, SchemaProblem
from purekube.schema.prune import apply_defaults, drop_nulls, prune
from purekube.schema.validate import validate

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
