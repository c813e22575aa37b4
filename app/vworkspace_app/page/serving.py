"""The page of an operator process, which is served on the same port as its metrics.

If there is no page, its code is not imported: templates and their library need memory.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import attrs
from starlette.routing import BaseRoute

from purekube.ports import Clock
from purekube_run.controller.observer import ReconcileObserver
from vworkspace_app.manager.telemetry import Components, Telemetry
from vworkspace_app.settings.table import PageAccess

if TYPE_CHECKING:
    from vworkspace_app.page.access import Reviews, TokenAccess
    from vworkspace_app.page.operator_page import OperatorPage


class ServedPage:
    """The page of an operator process. If `access` is NONE, there is no page, and `routes` is empty.

    `hide` masks the process's secrets in texts. A page without tokens is served only under known host names: those that
    `KnownHosts` accepts, and those in `hosts`.
    """

    def __init__(
        self,
        access: PageAccess,
        name: str,
        hide: Callable[[str], str] = lambda text: text,
        hosts: Collection[str] = (),
    ) -> None:
        self._page: OperatorPage | None = None
        self._tokens: TokenAccess | None = None
        self.routes: Sequence[BaseRoute] = ()
        if access is PageAccess.NONE:
            return
        from vworkspace_app.page import access as rules
        from vworkspace_app.page import operator_page, site

        self._page = operator_page.OperatorPage()
        self._tokens = rules.TokenAccess() if access is PageAccess.TOKEN_REVIEW else None
        names = site.KnownHosts(frozenset(hosts))
        self.routes = site.Site(self._page, name, self._tokens or names, hide).routes()

    def ask(self, reviews: "Reviews") -> None:
        """Use the client `reviews` of the API server to review tokens, if the page requires a token."""
        if self._tokens is not None:
            self._tokens.attach(reviews)

    def beside(self, telemetry: Telemetry, clock: Clock) -> Telemetry:
        """Return a telemetry that passes all calls to `telemetry`, and attaches the page to components.

        If there is no page, return `telemetry` itself.
        """
        return telemetry if self._page is None else PageTelemetry(telemetry, self._page, clock)


@attrs.frozen
class PageTelemetry:
    """A `Telemetry` that passes each call to the wrapped `telemetry`, and also attaches a page to the components."""

    telemetry: Telemetry
    page: "OperatorPage"
    clock: Clock

    def observer(self, controller: str) -> ReconcileObserver:
        """Return the observer of the wrapped telemetry."""
        return self.telemetry.observer(controller)

    def job_ended(self, outcome: str) -> None:
        """Pass the outcome to the wrapped telemetry. The page reads the agent's own list of jobs."""
        self.telemetry.job_ended(outcome)

    def attach(self, components: Components) -> None:
        """Attach the components to the wrapped telemetry and to the page."""
        self.telemetry.attach(components)
        self.page.attach(components, self.clock)
