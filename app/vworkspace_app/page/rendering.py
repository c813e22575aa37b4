"""The rendering of screens (page contents) as HTML.

All values are escaped: no text can become markup, script or a link.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from typing import Final
from urllib.parse import urlencode

import attrs
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from purekube.apimachinery.timestamps import format_time
from vworkspace_app import VERSION
from vworkspace_app.page.screens import Extent, PageContent, ScreenPart, Tab, list_path, root_of
from vworkspace_core.overview.page_paths import object_path
from vworkspace_core.overview.severity import Severity, severity_of
from vworkspace_core.overview.summary import OverviewState

_BADGES: Final = {
    Severity.BAD: '<path d="M22 13l10 18H12z" fill="#d92d2a" stroke="#fff" stroke-width="2"/>',
    Severity.WAITING: '<path d="M22 12l10 10-10 10-10-10z" fill="#b97900" stroke="#fff" stroke-width="2"/>',
    Severity.MOVING: '<circle cx="22" cy="22" r="7.5" fill="#fff" stroke="#1f56b0" stroke-width="4"/>',
    Severity.GOOD: '<circle cx="22" cy="22" r="9" fill="#1a8a48" stroke="#fff" stroke-width="2"/>',
    Severity.QUIET: "",
}
"""The badge on the icon of the browser tab, by severity, in the same shape as the sign in `_SIGNS`."""
_SIGNS: Final = {
    Severity.BAD: "▲",
    Severity.WAITING: "◆",
    Severity.MOVING: "◐",
    Severity.GOOD: "●",
    Severity.QUIET: "○",
}
"""The sign next to each state's word, by severity, for people who cannot distinguish colours."""

ASSETS: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    **{f"icon-{severity}.svg": "image/svg+xml" for severity in Severity},
}
"""The files that the page loads, by name, with their media types; there are no others."""


def asset(name: str) -> bytes:
    """Return the content of the asset `name`, one of `ASSETS`: the page's style sheet, scripts and icons."""
    if name.startswith("icon-"):
        badge = _BADGES[Severity(name.removeprefix("icon-").removesuffix(".svg"))]
        return asset("icon.svg").replace(b"</svg>", badge.encode() + b"</svg>")
    return (files("vworkspace_app.page") / "assets" / name).read_bytes()


@attrs.frozen
class RenderedPart:
    """A part of a screen as HTML.

    `shell` is the HTML of the part without its items, `items` the HTML of each item by id.
    """

    html: str
    shell: str
    items: Mapping[str, str]


@attrs.frozen
class RenderedScreen:
    """A screen as HTML: its parts by id. `tab_title` and `icon` are for the browser tab."""

    parts: Mapping[str, RenderedPart]
    tab_title: str
    icon: str

    @property
    def digest(self) -> str:
        """A hash of the screen's content, by which equal screens are recognized."""
        text = "\0".join((self.tab_title, self.icon, *(part.html for part in self.parts.values())))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def changes(self, before: "RenderedScreen | None") -> dict[str, str]:
        """Return the HTML of the parts that differ from the screen `before`, by element id.

        Of a list that has the same items in the same order, only the changed items are returned. Any other part is
        returned completely.
        """
        if before is None:
            return {name: part.html for name, part in self.parts.items()}
        found: dict[str, str] = {}
        for name, part in self.parts.items():
            old = before.parts.get(name)
            if old is not None and old.shell == part.shell and list(old.items) == list(part.items):
                found |= {item: html for item, html in part.items.items() if html != old.items[item]}
            else:
                found[name] = part.html
        return found


class Renderer:
    """The renderer of the screens of a site. The site's name is in every title.

    `root` is the URL path of the site, ending with a slash.
    """

    def __init__(self, name: str, tabs: tuple[Tab, ...]) -> None:
        self._environment = Environment(
            loader=PackageLoader("vworkspace_app.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._name = name
        self._assets = hashlib.sha256(b"".join(asset(one) for one in ASSETS)).hexdigest()[:12]
        self._environment.filters |= {
            "clip": clip, "iso": format_time, "moment": _moment, "query": urlencode, "object_path": object_path,
        }  # fmt: skip
        self._environment.globals |= {
            "site": name, "tabs": tabs, "version": VERSION, "assets": self._assets, "list_path": list_path,
            "sign": _SIGNS.__getitem__, "view_severities": {state.value: severity_of(state) for state in OverviewState},
        }  # fmt: skip

    def screen(self, screen: PageContent, path: str) -> RenderedScreen:
        """Return the screen rendered for a page at `path`, to which its links are relative."""
        root = root_of(path)
        sign = "" if screen.severity is Severity.QUIET else f"{_SIGNS[screen.severity]} "
        return RenderedScreen(
            {part.id: self._part(part, root) for part in screen.parts},
            f"{sign}{screen.tab_title or screen.title} · {self._name}",
            f"{root}assets/icon-{screen.severity}.svg?{self._assets}",
        )

    def page(self, screen: PageContent, rendered: RenderedScreen, path: str, view: str, extent: Extent) -> str:
        """Return the HTML document of a rendered screen.

        `path` is the URL path of the page, and `view` is the path with its query, by which the browser asks for changes
        of the page. `extent` has the words that name the content of the site.
        """
        return self._environment.get_template("page.html").render(
            root=root_of(path),
            screen=screen,
            parts=[Markup(part.html) for part in rendered.parts.values()],
            view=view,
            rendered=rendered,
            extent=extent,
        )

    def message(self, path: str, title: str, text: str, extent: Extent) -> str:
        """Return an HTML document with a single message, such as an error with its remedy.

        `path` is the URL path of the page, and `extent` has the words that name the content of the site.
        """
        template = self._environment.get_template("message.html")
        return template.render(root=root_of(path), title=title, text=text, extent=extent)

    def _part(self, part: ScreenPart, root: str) -> RenderedPart:
        template = self._environment.get_template(part.template)
        fixed = {"root": root, "id": part.id, **part.context}
        if not part.item_template:
            html = template.render(fixed)
            return RenderedPart(html, html, {})
        one = self._environment.get_template(part.item_template)
        items = {name: one.render({"root": root, "id": name, **context}) for name, context in part.items}
        shell = template.render({**fixed, "items": (), "is_empty": not items})
        drawn = Markup("").join(Markup(html) for html in items.values())
        return RenderedPart(template.render({**fixed, "items": (drawn,), "is_empty": not items}), shell, items)


def clip(text: str, longest: int) -> str:
    """Return the text shortened to at most `longest` characters."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _moment(at: datetime | None) -> str:
    """Return a time as text, or an empty string for None.

    In the browser a script replaces it by the time that has passed since then.
    """
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%S UTC")
