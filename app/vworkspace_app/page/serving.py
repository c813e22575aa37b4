"""The page of an operator process, ready to be served beside its metrics."""

from collections.abc import Callable, Sequence

import attrs
from starlette.routing import BaseRoute

from vworkspace_app.controller.observer import ReconcileObserver
from vworkspace_app.manager.telemetry import Components, Telemetry
from vworkspace_app.page.access import Reviews, TokenAccess
from vworkspace_app.page.operator import OperatorPage
from vworkspace_app.page.site import Access, Site
from vworkspace_app.settings.table import PageAccess
from vworkspace_core.ports import Clock


class ServedPage:
    """The page of one operator, or none. `hide` takes out of all text what the process itself holds."""

    def __init__(self, access: PageAccess, name: str, hide: Callable[[str], str] = lambda text: text) -> None:
        self._page = OperatorPage()
        self._tokens = TokenAccess() if access is PageAccess.TOKEN_REVIEW else None
        rules: Access | None = self._tokens
        self.routes: Sequence[BaseRoute] = (
            () if access is PageAccess.NONE else Site(self._page, name, rules, hide).routes()
        )

    def ask(self, reviews: Reviews) -> None:
        """Have the API server judge tokens, where the page asks for any."""
        if self._tokens is not None:
            self._tokens.attach(reviews)

    def beside(self, telemetry: Telemetry, clock: Clock) -> Telemetry:
        """Telemetry that shows the page what it is given to look at."""
        return PageTelemetry(telemetry, self._page, clock) if self.routes else telemetry


@attrs.frozen
class PageTelemetry:
    """`Telemetry` by which a page comes to see what there is."""

    telemetry: Telemetry
    page: OperatorPage
    clock: Clock

    def observer(self, controller: str) -> ReconcileObserver:
        """The other's."""
        return self.telemetry.observer(controller)

    def job_ended(self, outcome: str) -> None:
        """Tell the other; the page reads the agent's own list."""
        self.telemetry.job_ended(outcome)

    def attach(self, components: Components) -> None:
        """Let both look."""
        self.telemetry.attach(components)
        self.page.attach(components, self.clock)
