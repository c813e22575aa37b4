"""Structural schemas: compiled once, then used to prune, default and validate.

`compile_schema` makes an immutable `Schema` or raises `SchemaError` with every problem; `prune`, `drop_nulls` and
`apply_defaults` read an object by it; `validate` returns everything wrong with an object. Schemas of built-in kinds are
in `schema.builtin`.
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
