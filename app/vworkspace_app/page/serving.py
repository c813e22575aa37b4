"""The page of an operator process, ready to be served next to its metrics.

Without a page none of its code is loaded: templates and their library take memory.
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
    """The page of one operator, or none. `hide` masks in all text the secrets that the process itself holds.

    `hosts` are names under which an open page is served, in addition to those that `KnownHosts` knows.
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
        """Let the API server judge tokens, if the page requires a token."""
        if self._tokens is not None:
            self._tokens.attach(reviews)

    def beside(self, telemetry: Telemetry, clock: Clock) -> Telemetry:
        """Return telemetry that also attaches the page, if there is one, to the operator's components."""
        return telemetry if self._page is None else PageTelemetry(telemetry, self._page, clock)


@attrs.frozen
class PageTelemetry:
    """`Telemetry` that also attaches a page to the components."""

    telemetry: Telemetry
    page: "OperatorPage"
    clock: Clock

    def observer(self, controller: str) -> ReconcileObserver:
        """Return the observer of the wrapped telemetry."""
        return self.telemetry.observer(controller)

    def job_ended(self, outcome: str) -> None:
        """Report to the wrapped telemetry; the page reads the agent's own list."""
        self.telemetry.job_ended(outcome)

    def attach(self, components: Components) -> None:
        """Attach the components to both."""
        self.telemetry.attach(components)
        self.page.attach(components, self.clock)
