# ruff: noqa: E501
"""Values and their schemas, keyword by keyword (S-62): what is wrong, what is pruned, what is filled in."""

import json
from typing import Any

import pytest

from purekube.schema.compile import compile_schema
from purekube.schema.node import Schema
from purekube.schema.pruning import apply_defaults, drop_nulls, prune
from purekube.schema.structure import parts_of
from purekube.schema.violations import validate

WORDS = {
    "KEYED": '{"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}, "n": {"type": "integer", "maximum": 5}}, "required": ["k"]}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}',
    "TWO": '{"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}, "j": {"type": "integer", "default": 1}}, "required": ["k"]}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "j"]}',
    "SET": '{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}',
    "EMBEDDED": '{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}',
}
"""The schemas that the tables name."""

CHECKED = r"""
{"type": "string"} | 1 | => TypeInvalid f: Invalid value: "integer": f in body must be of type string: "integer"
{"type": "string"} | null | => TypeInvalid f: Invalid value: "null": f in body must be of type string: "null"
{"type": "string", "nullable": true} | null
{"type": "integer"} | 1.0
{"type": "integer"} | 1.5 | => TypeInvalid f: Invalid value: "number": f in body must be of type integer: "number"
{"type": "integer"} | true | => TypeInvalid f: Invalid value: "boolean": f in body must be of type integer: "boolean"
{"type": "number"} | 1
{"type": "number"} | true | => TypeInvalid f: Invalid value: "boolean": f in body must be of type number: "boolean"
{"type": "boolean"} | 1 | => TypeInvalid f: Invalid value: "integer": f in body must be of type boolean: "integer"
{"type": "boolean"} | true
{"type": "object", "properties": {}} | [] | => TypeInvalid f: Invalid value: "array": f in body must be of type object: "array"
{"type": "array", "items": {"type": "string"}} | {} | => TypeInvalid f: Invalid value: "object": f in body must be of type array: "object"
{"type": "string", "format": "date"} | 5 | => TypeInvalid f: Invalid value: "integer": f in body must be of type date: "integer"
{"type": "string", "format": "date"} | [1] | => TypeInvalid f: Invalid value: "array": f in body must be of type string: "array"
{"type": "integer", "format": "int32"} | "x" | => TypeInvalid f: Invalid value: "string": f in body must be of type integer: "string"
{"type": "string", "format": "date"} | "x" | => TypeInvalid f: Invalid value: "x": f in body must be of type date: "x"
{"type": "string", "format": "date", "maxLength": 5} | "x" | => TypeInvalid f: Invalid value: "x": f in body must be of type date: "x"
{"type": "integer", "format": "int32"} | 2147483647
{"type": "integer", "format": "int32"} | 2147483648 | => TypeInvalid f: Invalid value: 2147483648: Checked value f with value 2147483648 must be an int32
{"type": "integer", "format": "int32"} | -2147483648
{"type": "integer", "format": "int32"} | -2147483649 | => TypeInvalid f: Invalid value: -2147483649: Checked value f with value -2147483649 must be an int32
{"type": "integer", "format": "int64"} | 9223372036854775807
{"type": "integer", "format": "int64"} | 9223372036854775808 | => TypeInvalid f: Invalid value: 9223372036854775808: Checked value f with value 9223372036854775808 must be an int64
{"type": "integer", "format": "int64"} | -9223372036854775808
{"type": "integer", "format": "int64"} | -9223372036854775809 | => TypeInvalid f: Invalid value: -9223372036854775809: Checked value f with value -9223372036854775809 must be an int64
{"type": "number", "format": "double"} | 1.5
{"type": "string", "minLength": 2} | "a" | => Invalid f: Invalid value: "a": f in body should be at least 2 chars long
{"type": "string", "minLength": 2} | "ab"
{"type": "string", "maxLength": 2} | "ab"
{"type": "string", "maxLength": 2} | "abc" | => TooLong f: Too long: may not be more than 2 bytes
{"type": "string", "minLength": 0, "maxLength": 0} | ""
{"type": "string", "minLength": 2, "pattern": "^b"} | "a" | => Invalid f: Invalid value: "a": f in body should be at least 2 chars long
{"type": "string", "pattern": "^b"} | "ab" | => Invalid f: Invalid value: "ab": f in body should match '^b'
{"type": "string", "pattern": "b"} | "ab"
{"type": "integer", "minimum": 2} | 1 | => Invalid f: Invalid value: 1: f in body should be greater than or equal to 2
{"type": "integer", "minimum": 2} | 2
{"type": "integer", "minimum": 2, "exclusiveMinimum": true} | 2 | => Invalid f: Invalid value: 2: f in body should be greater than 2
{"type": "integer", "minimum": 2, "exclusiveMinimum": true} | 3
{"type": "integer", "maximum": 2} | 3 | => Invalid f: Invalid value: 3: f in body should be less than or equal to 2
{"type": "integer", "maximum": 2} | 2
{"type": "integer", "maximum": 2, "exclusiveMaximum": true} | 2 | => Invalid f: Invalid value: 2: f in body should be less than 2
{"type": "integer", "maximum": 2, "exclusiveMaximum": true} | 1
{"type": "integer", "maximum": 0} | 1 | => Invalid f: Invalid value: 1: f in body should be less than or equal to 0
{"type": "integer", "minimum": 0} | -1 | => Invalid f: Invalid value: -1: f in body should be greater than or equal to 0
{"type": "integer", "minimum": 3, "maximum": 1} | 2 | => Invalid f: Invalid value: 2: f in body should be less than or equal to 1 | => Invalid f: Invalid value: 2: f in body should be greater than or equal to 3
{"type": "number", "multipleOf": 0.5} | 1.5
{"type": "number", "multipleOf": 0.5} | 1.25 | => Invalid f: Invalid value: 1.25: f in body should be a multiple of 0.5
{"type": "integer", "multipleOf": 3} | 9
{"type": "integer", "multipleOf": 3} | 10 | => Invalid f: Invalid value: 10: f in body should be a multiple of 3
{"type": "number", "multipleOf": 0.1} | 0.3
{"type": "number", "multipleOf": 0.5} | 1.000001 | => Invalid f: Invalid value: 1.000001: f in body should be a multiple of 0.5
{"type": "number", "multipleOf": 0.5} | 1.0000000001
{"type": "string", "format": "date", "nullable": true} | null
{"type": "integer", "format": "int32"} | true | => TypeInvalid f: Invalid value: "boolean": f in body must be of type int32: "boolean"
{"type": "integer", "format": "int32"} | 1.5 | => TypeInvalid f: Invalid value: "number": f in body must be of type int32: "number"
{"type": "string", "enum": ["a", "b"]} | "a"
{"type": "string", "enum": ["a", "b"]} | "c" | => NotSupported f: Unsupported value: "c": supported values: "a", "b"
{"type": "integer", "enum": [1]} | 1.0
{"type": "integer", "enum": [1]} | true | => TypeInvalid f: Invalid value: "boolean": f in body must be of type integer: "boolean" | => NotSupported f: Unsupported value: true: supported values: "1"
{"type": "boolean", "enum": [true]} | false | => NotSupported f: Unsupported value: false: supported values: "true"
{"type": "string", "enum": ["a"], "nullable": true} | null | => NotSupported f: Unsupported value: null: supported values: "a"
{"type": "string", "enum": ["a", null], "nullable": true} | null
{"type": "object", "additionalProperties": {"type": "string"}, "enum": [{"a": "b"}]} | {"a": "b"}
{"type": "object", "additionalProperties": {"type": "string"}, "enum": [{"a": "b"}]} | {"a": "c"} | => NotSupported f: Unsupported value: {"a":"c"}: supported values: "{\"a\":\"b\"}"
{"type": "array", "items": {"type": "integer"}, "enum": [[1]]} | [true] | => NotSupported f: Unsupported value: [true]: supported values: "[1]" | => TypeInvalid f[0]: Invalid value: "boolean": f[0] in body must be of type integer: "boolean"
{"type": "array", "items": {"type": "string"}, "minItems": 1} | [] | => Invalid f: Invalid value: 0: f in body should have at least 1 items
{"type": "array", "items": {"type": "string"}, "minItems": 1} | ["a"]
{"type": "array", "items": {"type": "string"}, "maxItems": 1} | ["a"]
{"type": "array", "items": {"type": "string"}, "maxItems": 1} | ["a", "b"] | => TooMany f: Too many: 2: must have at most 1 items
{"type": "array", "items": {"type": "string"}} | ["a", 1, null] | => TypeInvalid f[1]: Invalid value: "integer": f[1] in body must be of type string: "integer" | => TypeInvalid f[2]: Invalid value: "null": f[2] in body must be of type string: "null"
{"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}} | [{"x": 1}, {"x": "a"}, 3] | => TypeInvalid f[1].x: Invalid value: "string": f[1].x in body must be of type integer: "string" | => TypeInvalid f[2]: Invalid value: "integer": f[2] in body must be of type object: "integer"
{"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1} | {} | => Invalid f: Invalid value: 0: f in body should have at least 1 properties
{"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1} | {"a": "b"}
{"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1} | {"a": "b", "c": "d"} | => TooMany f: Too many: 2: must have at most 1 items
{"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1} | {"a": "b"}
{"type": "object", "additionalProperties": {"type": "string"}} | {"a": 1, "b.c": 2} | => TypeInvalid f.a: Invalid value: "integer": f.a in body must be of type string: "integer" | => TypeInvalid f.b.c: Invalid value: "integer": f.b.c in body must be of type string: "integer"
{"type": "object", "additionalProperties": {"type": "integer"}} | {"a": null} | => TypeInvalid f.a: Invalid value: "null": f.a in body must be of type integer: "null"
{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]} | {"a": "x"} | => Required f.b: Required value
{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b", "a"]} | {} | => Required f.b: Required value | => Required f.a: Required value
{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]} | {"a": null} | => TypeInvalid f.a: Invalid value: "null": f.a in body must be of type string: "null"
{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]} | {"b": 1} | => Required f.a: Required value
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}} | {"a": {"b": "x"}} | => TypeInvalid f.a.b: Invalid value: "string": f.a.b in body must be of type integer: "string"
{"x-kubernetes-int-or-string": true} | 1
{"x-kubernetes-int-or-string": true} | "a"
{"x-kubernetes-int-or-string": true} | true | => TypeInvalid f: Invalid value: "boolean": f in body must be of type integer,string: "boolean"
{"x-kubernetes-int-or-string": true} | null | => TypeInvalid f: Invalid value: "null": f in body must be of type integer,string: "null"
{"x-kubernetes-int-or-string": true} | [] | => TypeInvalid f: Invalid value: "array": f in body must be of type integer,string: "array"
{"x-kubernetes-preserve-unknown-fields": true} | null
{"x-kubernetes-preserve-unknown-fields": true} | {"a": null}
{"type": "string", "anyOf": [{"minLength": 2}, {"pattern": "^a"}]} | "b" | => Invalid <nil>: Invalid value: "": "f" must validate at least one schema (anyOf) | => Invalid f: Invalid value: "b": f in body should be at least 2 chars long
{"type": "string", "anyOf": [{"minLength": 2}, {"pattern": "^a"}]} | "a"
{"type": "string", "anyOf": [{"minLength": 2}, {"pattern": "^a"}]} | "bb"
{"type": "string", "oneOf": [{"minLength": 2}, {"pattern": "^a"}]} | "b" | => Invalid <nil>: Invalid value: "": "f" must validate one and only one schema (oneOf). Found none valid | => Invalid f: Invalid value: "b": f in body should be at least 2 chars long
{"type": "string", "oneOf": [{"minLength": 2}, {"pattern": "^a"}]} | "a"
{"type": "string", "oneOf": [{"minLength": 2}, {"pattern": "^a"}]} | "ab" | => Invalid <nil>: Invalid value: "": "f" must validate one and only one schema (oneOf). Found 2 valid alternatives
{"type": "string", "oneOf": [{"minLength": 1}, {"pattern": "a"}, {"maxLength": 9}]} | "a" | => Invalid <nil>: Invalid value: "": "f" must validate one and only one schema (oneOf). Found 3 valid alternatives
{"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^a"}]} | "b" | => Invalid f: Invalid value: "b": f in body should be at least 2 chars long | => Invalid f: Invalid value: "b": f in body should match '^a' | => Invalid <nil>: Invalid value: "": "f" must validate all the schemas (allOf). None validated
{"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^a"}]} | "a" | => Invalid f: Invalid value: "a": f in body should be at least 2 chars long | => Invalid <nil>: Invalid value: "": "f" must validate all the schemas (allOf)
{"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^a"}]} | "ab"
{"type": "string", "not": {"pattern": "^a"}} | "a" | => Invalid <nil>: Invalid value: "": "f" must not validate the schema (not)
{"type": "string", "not": {"pattern": "^a"}} | "b"
{"type": "object", "properties": {"x": {"type": "integer"}}, "anyOf": [{"required": ["x"]}]} | {} | => Invalid <nil>: Invalid value: "": "f" must validate at least one schema (anyOf) | => Required f.x: Required value
{"type": "object", "properties": {"x": {"type": "integer"}}, "not": {"required": ["x"]}} | {"x": 1} | => Invalid <nil>: Invalid value: "": "f" must not validate the schema (not)
{"type": "object", "properties": {"x": {"type": "integer"}}, "allOf": [{"properties": {"x": {"minimum": 3}}}]} | {"x": 1} | => Invalid f.x: Invalid value: 1: f.x in body should be greater than or equal to 3 | => Invalid <nil>: Invalid value: "": "f" must validate all the schemas (allOf). None validated
KEYED | [{"k": "a"}, {"k": "b"}]
KEYED | [{"k": "a"}, {"k": "a"}, {"k": "a"}] | => Duplicate f[1]: Duplicate value: {"k":"a"}
KEYED | [{"k": "a"}, 3] | => TypeInvalid f[1]: Invalid value: "integer": f[1] in body must be of type object: "integer" | => Invalid f[1]: Invalid value: 3: must be an object for an array of list-type map
KEYED | [{"k": "a"}, {}] | => Required f[1].k: Required value
KEYED | [{}, {}] | => Required f[0].k: Required value | => Required f[1].k: Required value | => Duplicate f[1]: Duplicate value: {}
KEYED | [null, {"k": "a"}] | => TypeInvalid f[0]: Invalid value: "null": f[0] in body must be of type object: "null"
TWO | [{"k": "a", "j": 1}, {"k": "a", "j": 2}]
TWO | [{"k": "a", "j": 1}, {"j": 1, "k": "a"}] | => Duplicate f[1]: Duplicate value: {"j":1,"k":"a"}
TWO | [{"k": "a"}, {"k": "a"}] | => Duplicate f[1]: Duplicate value: {"k":"a"}
SET | ["a", "b"]
SET | ["a", "b", "a", "b", "a"] | => Duplicate f[2]: Duplicate value: "a" | => Duplicate f[3]: Duplicate value: "b"
{"type": "array", "items": SET} | [["a", "a"], ["b"]] | => Duplicate f[0][1]: Duplicate value: "a"
{"type": "object", "additionalProperties": SET} | {"x": ["a", "a"]} | => Duplicate f[x][1]: Duplicate value: "a"
{"type": "object", "additionalProperties": {"type": "object", "properties": {"s": SET}}} | {"x": {"s": ["a", "a"]}} | => Duplicate f[x].s[1]: Duplicate value: "a"
{"type": "array", "items": {"type": "object", "properties": {"s": SET}}} | [{"s": ["a", "a"]}] | => Duplicate f[0].s[1]: Duplicate value: "a"
{"type": "object", "properties": {"s": SET}} | {"s": ["a", "a"], "t": ["a", "a"]} | => Duplicate f.s[1]: Duplicate value: "a"
EMBEDDED | {"apiVersion": "v1", "kind": "A"}
EMBEDDED | {"apiVersion": "", "kind": 3} | => Invalid f.apiVersion: Invalid value: "": must not be empty | => Invalid f.kind: Invalid value: 3: must be a string
EMBEDDED | {} | => Required f.apiVersion: Required value | => Required f.kind: Required value
{"type": "array", "items": EMBEDDED} | [{"kind": "A", "apiVersion": "v1"}, {"kind": ""}] | => Required f[1].apiVersion: Required value | => Invalid f[1].kind: Invalid value: "": must not be empty
{"type": "object", "additionalProperties": EMBEDDED} | {"x": {}} | => Required f.x.apiVersion: Required value | => Required f.x.kind: Required value
{"type": "string", "maxLength": 2} | "abc" | old "abc"
{"type": "string", "maxLength": 2} | "abd" | old "abc" | => TooLong f: Too long: may not be more than 2 bytes
{"type": "string", "maxLength": 2} | "abc" | old null | => TooLong f: Too long: may not be more than 2 bytes
{"type": "integer"} | 1.5 | old 1.5
{"type": "integer"} | true | old 1 | => TypeInvalid f: Invalid value: "boolean": f in body must be of type integer: "boolean"
{"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}, "b": {"type": "string"}}} | {"a": "abc", "b": "new"} | old {"a": "abc", "b": "old"}
{"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}, "b": {"type": "string"}}} | {"a": "abd", "b": "new"} | old {"a": "abc", "b": "old"} | => TooLong f.a: Too long: may not be more than 2 bytes
{"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}}} | {"a": "abc"} | old {} | => TooLong f.a: Too long: may not be more than 2 bytes
{"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}}} | {"a": "abc"} | old "old" | => TooLong f.a: Too long: may not be more than 2 bytes
{"type": "array", "items": {"type": "string", "maxLength": 2}, "x-kubernetes-list-type": "atomic"} | ["abc", "x"] | old ["abc"] | => TooLong f[0]: Too long: may not be more than 2 bytes
{"type": "array", "items": {"type": "string", "maxLength": 2}} | ["abc", "x"] | old ["abc"]
{"type": "array", "items": {"type": "string", "maxLength": 2}} | ["x", "abc"] | old ["abc"] | => TooLong f[1]: Too long: may not be more than 2 bytes
{"type": "array", "items": {"type": "string", "maxLength": 2}} | ["abc"] | old ["abc"]
{"type": "object", "additionalProperties": {"type": "string", "maxLength": 2}} | {"x": "abc", "y": "abc"} | old {"x": "abc"} | => TooLong f.y: Too long: may not be more than 2 bytes
KEYED | [{"k": "b", "n": 1}, {"k": "a", "n": 9}] | old [{"k": "a", "n": 9}]
KEYED | [{"k": "b", "n": 9}] | old [{"k": "a", "n": 9}] | => Invalid f[0].n: Invalid value: 9: f[0].n in body should be less than or equal to 5
KEYED | [{"k": "a", "n": 8}] | old [{"k": "a", "n": 9}] | => Invalid f[0].n: Invalid value: 8: f[0].n in body should be less than or equal to 5
KEYED | [{"k": "a", "n": 9}, {"k": "b"}] | old ["x", {"k": "a", "n": 9}]
KEYED | [{"k": "a", "n": 9}, {"k": "b"}] | old "old" | => Invalid f[0].n: Invalid value: 9: f[0].n in body should be less than or equal to 5
SET | ["a", "a"] | old ["a", "a"]
SET | ["a", "a", "b"] | old ["a", "a"]
SET | ["a", "a"] | old ["a"] | => Duplicate f[1]: Duplicate value: "a"
{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]} | {"b": 1} | old {"b": 1}
{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]} | {"b": "x"} | old {"b": "y"} | => Required f.a: Required value
{"type": "array", "items": {"type": "string"}, "maxItems": 1} | ["a", "b"] | old ["b", "a"] | => TooMany f: Too many: 2: must have at most 1 items
"""
"""The schema of a field, its value, the old value of an update, and each cause: reason, field and message."""

DECODED = r"""
{"type": "object", "properties": {"a": {"type": "string", "default": "d"}}} | {} | full {"a": "d"}
{"type": "object", "properties": {"a": {"type": "string", "default": "d"}}} | {"a": null} | full {"a": "d"}
{"type": "object", "properties": {"a": {"type": "string", "default": "d", "nullable": true}}} | {"a": null}
{"type": "object", "properties": {"a": {"type": "string", "default": "d"}}} | {"a": "x"}
{"type": "object", "properties": {"a": {"type": "string"}}} | {"a": null} | without nulls {}
{"type": "object", "properties": {"a": {"type": "string", "nullable": true}}} | {"a": null}
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string", "default": "d"}}, "default": {}}}} | {} | full {"a": {"b": "d"}}
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string", "default": "d"}}}}} | {}
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string", "default": "d"}}}}} | {"a": {}} | full {"a": {"b": "d"}}
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string", "default": "d"}}}}} | {"a": null} | without nulls {}
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string", "default": "d"}}}}} | {"a": "x"}
{"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string", "default": "d"}}}} | [{}, {"b": "x"}, 3] | full [{"b": "d"}, {"b": "x"}, 3]
{"type": "array", "items": {"type": "string", "default": "d"}} | ["x", null] | full ["x", "d"]
{"type": "array", "items": {"type": "string", "default": "d", "nullable": true}} | [null]
{"type": "array", "items": {"type": "string"}} | [null]
{"type": "object", "additionalProperties": {"type": "string", "default": "d"}} | {"x": null, "y": "z"} | full {"x": "d", "y": "z"}
{"type": "object", "additionalProperties": {"type": "string", "default": "d", "nullable": true}} | {"x": null}
{"type": "object", "additionalProperties": {"type": "object", "properties": {"b": {"type": "string", "default": "d"}}}} | {"x": {}} | full {"x": {"b": "d"}}
{"type": "object", "additionalProperties": {"type": "string"}} | {"x": null} | without nulls {}
{"type": "object", "additionalProperties": {"type": "object", "properties": {"b": {"type": "string"}}}} | {"x": {"b": null, "c": 1}} | pruned {"x": {"b": null}}, unknown f.x.c | without nulls {"x": {"c": 1}}
{"type": "array", "items": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string", "default": "d"}}}}} | [[{}], []] | full [[{"b": "d"}], []]
{"type": "object", "properties": {"a": {"type": "string"}}} | {"a": "x", "b": 1, "c": {"d": 2}} | pruned {"a": "x"}, unknown f.b f.c
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}} | {"a": {"b": "x", "c": 1}} | pruned {"a": {"b": "x"}}, unknown f.a.c
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}} | {"a": [{"c": 1}]} | pruned {"a": [{}]}, unknown f.a[0].c
{"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}} | [{"b": "x", "c": 1}, {"c": 2}] | pruned [{"b": "x"}, {}], unknown f[0].c f[1].c
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": true}}} | {"a": {"b": 1, "c": {"d": 1.0}}}
{"type": "object", "properties": {"a": {"x-kubernetes-preserve-unknown-fields": true}}} | {"a": [{"b": 1}]}
{"type": "object", "properties": {"a": {"x-kubernetes-preserve-unknown-fields": true}}} | {"a": {"b": {"c": 1}}}
{"type": "object", "properties": {"a": EMBEDDED}} | {"a": {"apiVersion": "v1", "kind": "A", "metadata": {"x": 1}, "z": 1}}
{"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"b": {"type": "string"}}}}} | {"a": {"apiVersion": "v1", "kind": "A", "metadata": {"x": 1}, "z": 1}} | pruned {"a": {"apiVersion": "v1", "kind": "A", "metadata": {"x": 1}}}, unknown f.a.z
{"type": "object", "properties": {"a": {"type": "number"}}} | {"a": 1.0} | pruned {"a": 1}
{"type": "object", "properties": {"a": {"type": "number"}}} | {"a": 1.5}
{"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}} | {"a": [1.0, 2.5]} | pruned {"a": [1, 2.5]}
{"type": "object", "additionalProperties": {"type": "number"}} | {"a": 2.0} | pruned {"a": 2}
{"type": "object", "properties": {"a": {"type": "string"}}} | {"a": [{"x": 1}]} | pruned {"a": [{}]}, unknown f.a[0].x
{"type": "array", "items": {"type": "string"}} | [[{"x": 1}]] | pruned [[{}]], unknown f[0][0].x
{"type": "object", "properties": {"a": {"type": "integer", "default": 0}}} | {} | full {"a": 0}
{"type": "object", "properties": {"a": {"type": "boolean", "default": false}}} | {} | full {"a": false}
{"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "default": []}}} | {} | full {"a": []}
{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {"type": "string", "default": "d"}}}}}}} | {"a": {"b": {}}} | full {"a": {"b": {"c": "d"}}}
{"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}} | {"a": null} | without nulls {}
"""
"""The schema of a field, its value, and what differs from it: pruned, without stray nulls, with its defaults."""


def schema_of(text: str) -> Schema:
    for word, schema in WORDS.items():
        text = text.replace(word, schema)
    return compile_schema({"type": "object", "properties": {"f": json.loads(text)}})


def shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def causes(schema: str, value: str, *rest: str) -> list[str]:
    old = [json.loads(part.removeprefix("old ")) for part in rest if part.startswith("old ")]
    found = validate(schema_of(schema), {"f": json.loads(value)}, {"f": old[0]} if old else None)
    return [f"=> {cause.reason.removeprefix('FieldValue')} {cause.field}: {cause.message}" for cause in found]


def test_a_value_has_exactly_these_causes() -> None:
    for line in CHECKED.strip().splitlines():
        parts = line.split(" | ")

        assert causes(*parts) == [part for part in parts if part.startswith("=> ")], line


def test_a_nullable_number_or_text_may_be_null() -> None:
    free = {"x-kubernetes-int-or-string": True}
    assert causes(shown({**free, "nullable": True}), "null") == []
    assert causes(shown({**free, "nullable": True}), "true") != []
    assert causes(shown(free), "null") != []


@pytest.mark.parametrize("number", ["1e308", "-1e308", "1" * 400])
def test_a_number_beyond_all_multiples_is_a_cause_and_no_failure(number: str) -> None:
    for schema in ({"type": "number", "multipleOf": 0.01}, {"type": "number", "multipleOf": 7}):
        found = causes(shown(schema), number)
        assert len(found) <= 1
        assert all("should be a multiple of" in cause for cause in found)


def test_items_of_a_list_that_was_valid_are_not_checked_again_where_they_are_the_same_objects() -> None:
    schema = schema_of('{"type": "array", "items": {"type": "array", "items": {"type": "string", "maxLength": 1}}}')
    long, short = ["long"], ["x"]
    old = {"f": [long, short]}
    value = {"f": [short, long, ["long"]]}

    assert [cause.field for cause in validate(schema, value, old)] == ["f[1][0]", "f[2][0]"]
    assert [cause.field for cause in validate(schema, value, old, settled=True)] == ["f[2][0]"]
    assert [cause.field for cause in validate(schema, value, {"f": {}}, settled=True)] == ["f[1][0]", "f[2][0]"]


def test_the_parts_of_a_list_are_its_lists_and_objects() -> None:
    items: list[Any] = [[], {}, "a", 1, None]

    assert parts_of(items) == {id(items[0]), id(items[1])}
    assert parts_of({"a": {}}) == frozenset()
    assert parts_of(None) == frozenset()


def test_a_value_of_another_type_at_the_root_has_no_field() -> None:
    (cause,) = validate(schema_of('{"type": "string"}'), [])

    assert (cause.reason, cause.field) == ("FieldValueTypeInvalid", "<nil>")
    assert cause.message == 'Invalid value: "array":  in body must be of type object: "array"'


def decoded(text: str, value: str) -> list[str]:
    schema, whole = schema_of(text), {"f": json.loads(value)}
    (pruned, unknown), bare, full = prune(schema, whole), drop_nulls(schema, whole), apply_defaults(schema, whole)
    fields = f", unknown {' '.join(unknown)}" if unknown else ""
    found = [
        f"pruned {shown(pruned['f'])}{fields}",
        f"without nulls {shown(bare.get('f', '-'))}",
        f"full {shown(full['f'])}",
    ]
    assert shown(whole["f"]) == value, "the argument is unchanged"
    return [part for part in found if not part.endswith((f"pruned {value}", f"nulls {value}", f"full {value}"))]


def test_a_value_is_decoded_exactly_so() -> None:
    for line in DECODED.strip().splitlines():
        schema, value, *rest = line.split(" | ")

        assert decoded(schema, value) == rest, line
