"""Structural schemas: compiled once (`compile`), then asked to prune, default and validate.

`compile_schema` makes the immutable tree of `node.Schema` or raises `SchemaError` with every problem; `prune`,
`drop_nulls` and `apply_defaults` read an object by it; `validate` names everything wrong with one.
"""
