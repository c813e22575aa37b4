"""The input of a decision about an Operation (REC-2, OPS-3)."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import attrs

from purekube.controller.decision import Snapshot
from vworkspace_core.api.operation import Operation
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.claims import Claims
from vworkspace_core.operations.contract import Engine, EngineContext, no_yaml
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import OperationTemplate, Templates


@attrs.frozen
class OperationObserved(Snapshot):
    """The snapshot for a decision about an Operation.

    `objects` holds the target, the engine object by its name, and the objects that the engine's `looks_up` names.
    `siblings` are the other managed Operations of this cluster on the same target. `missing_places` are namespaces
    other than the Operation's own that were looked up and do not exist. `claims` is the data that claims are checked
    with throughout a pass, with the approval that it has used; None before.
    """

    siblings: tuple[Operation, ...] = ()
    missing_places: frozenset[str] = frozenset()
    claims: Claims | None = attrs.field(default=None, repr=False)


@attrs.frozen
class OperationContext:
    """All other input: settings, the time, the data that claims are checked with, templates and engines."""

    settings: OperationSettings
    now: datetime
    claims: Claims = attrs.field(factory=Claims)
    templates: Templates = attrs.field(factory=builtin_templates)
    engines: Mapping[str, Engine] = ENGINES
    parse_yaml: Callable[[str], Any] = attrs.field(default=no_yaml, eq=False, repr=False)

    def engine_of(self, operation: Operation) -> Engine | None:
        """Return the engine that the Operation names; None for an unknown name."""
        return self.engines.get(operation.spec.engine)

    def for_engine(self, observed: OperationObserved, template: OperationTemplate) -> EngineContext:
        """Return the input of an engine. If its own namespace does not exist, its kinds count as missing."""
        missing, engine = observed.missing_kinds, self.engines.get(template.engine)
        if engine is not None and engine.namespace and engine.namespace(self.settings) in observed.missing_places:
            missing |= frozenset(engine.made_kinds)
        return EngineContext(self.settings, template, observed.objects, missing, self.parse_yaml)
