"""The definition of the built-in kind Lease: its defaults, and the checks of its spec."""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.builtin.definition_builder import built_in, filled
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.schema.builtin import basic_schemas as schemas
from purekube.schema.causes import invalid_value


def _check(manifest: Mapping[str, Any]) -> list[StatusCause]:
    spec = manifest.get("spec") or {}
    causes = []
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        causes.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes


LEASES: Final = (
    built_in(
        schemas.LEASE,
        Behaviour(
            skeleton={"spec": {}},
            generation=Generation.NEVER,
            read=lambda manifest: filled(manifest, spec={}),
            check=_check,
            check_update=lambda new, old: _check(new),
        ),
    ),
)
