"""Schemas of Pod."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import obj
from purekube.schema.builtin.pod_schema import POD_SPEC, POD_STATUS

POD: Final = BuiltIn(Kind("", "v1", "Pod", "pods"), obj(spec=POD_SPEC, status=POD_STATUS))
