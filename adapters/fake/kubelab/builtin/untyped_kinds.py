"""The built-in kinds without a schema: objects are stored as they are written, and no controller acts on them."""

from typing import Final

from kubelab.builtin.definition_builder import built_in
from kubelab.model.definition import Behaviour, Generation
from purekube.schema.builtin import UNTYPED
from purekube.schema.builtin.schema_parts import ANY, BuiltIn, obj

_ELSEWHERE: Final = ("admissionregistration.k8s.io", "autoscaling")
"""The API groups that are left out here, since other modules serve their kinds (of `autoscaling` only version v2)."""
_WITH_STATUS: Final = frozenset(("CertificateSigningRequest", "Node", "ReplicationController", "ResourceClaim"))

STORED: Final = tuple(
    built_in(
        BuiltIn(kind, {**ANY, **obj(**({"status": ANY} if kind.kind in _WITH_STATUS else {}))}),
        Behaviour(generation=Generation.NEVER, unconditional_update=True),
    )
    for kind in UNTYPED.values()
    if kind.group not in _ELSEWHERE
)
