"""The web page of an operator process, which is served on the same port as its metrics.

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
    from vworkspace_app.page.access import AccessReviews, TokenAccess
    from vworkspace_app.page.operator_page import OperatorPage


class ServedPage:
    """The web page of an operator process, as HTTP `routes`. If `access` is NONE, there is no page and no route.

    `streams` are the paths whose responses stay open.

    `hide` masks the process's secrets in strings. A page without tokens is served only under known host names: those
    that `KnownHosts` accepts, and those in `hosts`.
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
        self.streams: frozenset[str] = frozenset()
        if access is PageAccess.NONE:
            return
        from vworkspace_app.page import access as rules
        from vworkspace_app.page import operator_page, screens, site

        self.streams = screens.STREAMS
        self._page = operator_page.OperatorPage()
        self._tokens = rules.TokenAccess() if access is PageAccess.TOKEN_REVIEW else None
        names = site.KnownHosts(frozenset(hosts))
        self.routes = site.Site(self._page, name, self._tokens or names, hide).routes()

    def ask(self, reviews: "AccessReviews") -> None:
        """Review the tokens of visitors by `reviews`, a client of the API server, if the page requires a token."""
        if self._tokens is not None:
            self._tokens.attach(reviews)

    def beside(self, telemetry: Telemetry, clock: Clock) -> Telemetry:
        """Return a telemetry (a receiver of events in the process) that serves both `telemetry` and the page.

        All calls are passed to `telemetry`. The page gets the parts of the process that it shows, such as informers and
        the job agent. Without a page, return `telemetry` itself.
        """
        return telemetry if self._page is None else PageTelemetry(telemetry, self._page, clock)


@attrs.frozen
class PageTelemetry:
    """A wrapper around `telemetry`, by which the page also gets the components of the process, such as its informers.

    Every call is passed to `telemetry`.
    """

    telemetry: Telemetry
    page: "OperatorPage"
    clock: Clock

    def observer(self, controller: str) -> ReconcileObserver:
        """Return the wrapped telemetry's observer for the reconciles of a controller."""
        return self.telemetry.observer(controller)

    def job_ended(self, outcome: str) -> None:
        """Pass the outcome of a job to the wrapped telemetry.

        The page ignores it, since it reads the agent's list of jobs.
        """
        self.telemetry.job_ended(outcome)

    def attach(self, components: Components) -> None:
        """Pass `components`, the parts of the process such as informers, to the wrapped telemetry and to the page."""
        self.telemetry.attach(components)
        self.page.attach(components, self.clock)
