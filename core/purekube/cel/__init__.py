"""CEL, the expression language of CRD rules and of boxes: compiled once, checked against schemas, bounded in its cost.

It covers the whole language, its extensions (strings with `format`, math, lists, sets, bindings, encoders, optional
values, macros of two variables) and the libraries of Kubernetes (quantities, URLs, addresses, networks, versions,
regular expressions). The package is pure and has no dependencies. `docs/expressions.md` lists every function.
"""

from purekube.cel.cel_program import Environment, Program, compile_expression, prepared
from purekube.cel.check import ITEM, Absence, Checked, FieldRead, VariablePath
from purekube.cel.library import API_SERVER, FUNCTIONS, LIBRARIES
from purekube.cel.limits import (
    LIMITS,
    Budget,
    CelError,
    CelSyntaxError,
    EvaluationError,
    LimitExceeded,
    Limits,
    Missing,
)
from purekube.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    CelType,
    Field,
    list_of,
    map_of,
    optional_of,
)

__all__ = [
    "API_SERVER",
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "FUNCTIONS",
    "INT",
    "ITEM",
    "LIBRARIES",
    "LIMITS",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "Absence",
    "Budget",
    "CelError",
    "CelSyntaxError",
    "CelType",
    "Checked",
    "Environment",
    "EvaluationError",
    "Field",
    "FieldRead",
    "LimitExceeded",
    "Limits",
    "Missing",
    "Program",
    "VariablePath",
    "compile_expression",
    "list_of",
    "map_of",
    "optional_of",
    "prepared",
]
