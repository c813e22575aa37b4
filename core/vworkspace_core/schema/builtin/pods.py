"""Schemas of Pod."""

from typing import Final

from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.schema.builtin.document import BuiltIn
from vworkspace_core.schema.builtin.openapi import obj
from vworkspace_core.schema.builtin.pod_schema import POD_SPEC, POD_STATUS

POD: Final = BuiltIn(Kind("", "v1", "Pod", "pods"), obj(spec=POD_SPEC, status=POD_STATUS))
