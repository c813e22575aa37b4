"""SEE-3: the page as people see it, in a real browser: what is shown equals what the API server holds."""

from collections.abc import Awaitable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubelab.inprocess import InProcessKube
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, NAMESPACE, POD
from tests.support.box_site import example
from tests.support.browser import browser, look, missing, resize, until, violations
from tests.support.builders import chart, operation_manifest
from tests.support.page_site import (
    BROKEN,
    NS,
    PageSite,
    condition,
    degraded,
    instance,
    instance_ref,
    operation,
    page_site,
    ready,
)
from vworkspace_app.page.jobs_page import JobsPage
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import INSTANCE_UID
from vworkspace_core.overview.object_list import DENSE_PAGE_SIZE, PAGE_SIZE
from vworkspace_core.overview.summary import summary_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]
By = pytest.importorskip("selenium.webdriver.common.by", reason=missing()).By
Keys = pytest.importorskip("selenium.webdriver.common.keys", reason=missing()).Keys

INSTANCES = "applicationinstances.apps.vworkspace.io"
OBJECT = f"/object/{INSTANCES}/{NS}"
VIEWS = (
    "/",
    "/?dense=1",
    f"{OBJECT}/shop",
    f"{OBJECT}/wiki",
    "/timeline",
    "/timeline?range=7d&problems=1",
    "/operator",
    "/jobs",
    "/nothing",
)
SCREENSHOTS = Path(__file__).parents[2] / "docs" / "screenshots"


@pytest.fixture(scope="module")
def window() -> Iterator[Any]:
    with browser() as driver:
        yield driver


def jobs(site: PageSite) -> list[JobsPage]:
    """The control plane's own view, on the same page."""

    async def made() -> JobsPage:
        return JobsPage(
            lambda: [job.as_json() for job in site.control.jobs], lambda: site.control.events_of("c"), "/jobs"
        )

    return [site.portal.call(made)]


@pytest.fixture(scope="module")
def fleet() -> Iterator[PageSite]:
    """Some objects in different states; nothing moves by itself."""
    with page_site(further=jobs) as site:
        site.create(APPLICATION_INSTANCE, instance("shop"), ready())
        site.create(APPLICATION_INSTANCE, instance("wiki"), degraded("upgrade failed: post-upgrade hook timed out"))
        site.create(
            APPLICATION_INSTANCE,
            instance("mail"),
            {"conditions": [condition("Blocked", "True", "PolicyDenied", "version 6.7.0 is forbidden")]},
        )
        site.create(OPERATION, operation_manifest("nightly", NS, target="shop"))
        with_all_of_flux(site, "wiki")
        site.portal.call(
            lambda: site.control.enqueue("c", kind="apply", payload=instance("shop"), idempotency_key="A/x/shop@1")
        )
        yield site


def with_all_of_flux(site: PageSite, name: str) -> None:
    """As many objects in a row as an instance has, the last of which fails, and sources of before and of now."""
    uid = site.do(lambda api: api.get(instance_ref(name)))["metadata"]["uid"]
    history = [
        {"chartVersion": version, "status": status, "firstDeployed": at, "lastDeployed": at}
        | {
            "chartName": name,
            "configDigest": "sha256:0",
            "digest": "sha256:0",
            "name": name,
            "namespace": NS,
            "version": 1,
        }
        for version, status, at in (
            ("6.7.0", "failed", "2026-01-01T11:00:00Z"),
            ("6.6.0", "deployed", "2025-12-01T00:00:00Z"),
        )
    ]
    repository = {"kind": "HelmRepository", "name": f"{name}-charts"}
    chart_spec = {"chart": name, "version": "6.7.0", "sourceRef": repository}
    for kind, called, spec in (
        (HELM_REPOSITORY, f"{name}-charts", {"url": "https://charts.example.com", "interval": "5m"}),
        (HELM_REPOSITORY, f"{name}-former-charts", {"url": "https://charts.example.com", "interval": "5m"}),
        (HELM_CHART, f"{NS}-{name}", {**chart_spec, "interval": "5m"}),
        (HELM_RELEASE, name, {"interval": "5m", "chart": {"spec": chart_spec}}),
    ):
        manifest = kind.manifest(called, NS)
        manifest["metadata"]["labels"] = {INSTANCE_UID: uid}
        failed = condition("Stalled", "True", "RetriesExceeded", "Failed to upgrade after 3 attempt(s)")
        site.create(
            kind,
            {**manifest, "spec": spec},
            {"conditions": [failed], "history": history} if kind == HELM_RELEASE else None,
        )


def shown(window: Any) -> dict[str, tuple[str, str]]:
    """State and reason by name, as the rows on the screen say."""
    script = """return [...document.querySelectorAll('table.rows tbody tr')].map((row) => [
        row.querySelector('th a').textContent,
        row.querySelector('.badge').lastChild.textContent.trim(),
        (row.querySelector('.why b') || {textContent: ''}).textContent])"""
    return {name: (state, reason) for name, state, reason in window.execute_script(script)}


def listed(kind: Kind, api: InProcessKube) -> Awaitable[Any]:
    return api.list(kind)


def held(site: PageSite) -> dict[str, tuple[str, str]]:
    """The same, as the API server's objects say."""
    found = {}
    for kind in (APPLICATION_INSTANCE, OPERATION):
        for manifest in site.do(partial(listed, kind)).items:
            summary = summary_of(kind, manifest)
            found[summary.ref.name] = (summary.state_text, summary.reason)
    return found


def agree(window: Any, site: PageSite, what: str) -> None:
    until(lambda: shown(window) == held(site), f"{what}: {shown(window)} is not {held(site)}")


def is_live(window: Any) -> bool:
    return bool(window.execute_script("return document.getElementById('live').dataset.state") == "live")


def settle(window: Any, url: str) -> None:
    """Go there, and wait until it is live; what tells a reload is set."""
    window.get(url)
    if window.execute_script("return Boolean(document.getElementById('main').dataset.view)"):
        until(lambda: is_live(window), f"{url} is not live")
    window.execute_script("window.unloaded = false")


def complaints(window: Any) -> list[str]:
    """What the browser refused or could not do."""
    return [one["message"] for one in window.get_log("browser") if "404" not in one["message"]]


def test_what_is_shown_is_what_the_api_says_through_changes_and_restarts_SEE_3(window: Any) -> None:
    with page_site() as site:
        for name in ("one", "two", "three"):
            site.create(APPLICATION_INSTANCE, instance(name), ready())
        settle(window, site.url)
        agree(window, site, "at first")

        site.tell(instance_ref("two"), degraded("upgrade failed"))
        agree(window, site, "after a change")
        site.create(APPLICATION_INSTANCE, instance("four"))
        site.create(OPERATION, operation_manifest("backup", NS, target="one"))
        site.do(lambda api: api.delete(instance_ref("three")))
        agree(window, site, "after a new one and a deletion")
        assert "three" not in shown(window)
        assert window.execute_script("return window.unloaded") is False, "without a reload"

        site.stop()
        until(lambda: "disconnected" in window.find_element(By.ID, "live").text, "that it is disconnected is told")
        assert shown(window) == held(site), "what was seen last stays"
        assert "stale" in window.execute_script("return document.documentElement.className")
        site.tell(instance_ref("two"), ready())
        site.tell(instance_ref("four"), degraded("while nobody looked"))
        site.start(site.url.removeprefix("http://"))
        agree(window, site, "after a restart of the operator")
        until(lambda: is_live(window), "it is live again")
        assert window.execute_script("return window.unloaded") is False, "without a reload"
        assert "stale" not in window.execute_script("return document.documentElement.className")
        window.get("about:blank")
        window.get_log("browser")  # that it could not connect


def test_one_object_is_followed_to_its_end_SEE_3(window: Any) -> None:
    with page_site() as site:
        site.create(APPLICATION_INSTANCE, instance("shop"), ready())
        until(lambda: site.get(f"{OBJECT}/shop").status == 200, "it is in the cache")
        settle(window, f"{site.url}{OBJECT}/shop")
        assert "Ready" in window.find_element(By.ID, "head").text
        site.create(OPERATION, operation_manifest("backup", NS, target="shop"))
        until(lambda: "backup" in window.find_element(By.ID, "graph").text, "the Operation is drawn")
        site.tell(instance_ref("shop"), degraded("disk is full"))
        until(lambda: "disk is full" in window.find_element(By.ID, "head").text, "its end is told")
        until(lambda: "disk is full" in window.find_element(By.ID, "timeline").text, "and when")
        site.do(lambda api: api.delete(instance_ref("shop")))
        until(lambda: "gone" in window.find_element(By.ID, "live").text, "that it is gone is told")


def test_two_thousand_instances_are_listed_a_page_at_a_time_SEE_3(window: Any) -> None:
    with page_site() as site:
        names = [f"app-{number:04}" for number in range(2000)]
        for number in range(20):
            namespace = f"team-{number:02}"
            manifest = NAMESPACE.manifest(namespace)
            site.create(NAMESPACE, manifest)
        for number, name in enumerate(names):
            status = degraded("no such image") if number % 400 == 7 else ready()
            site.create(APPLICATION_INSTANCE, instance(name, f"team-{number % 20:02}"), status)
        until(lambda: "2000 objects" in site.get("/").text, "all are in the cache")
        assert len(site.get("/").text.encode()) < 150_000
        settle(window, site.url)
        first = shown(window)
        assert len(first) == PAGE_SIZE
        assert [state for state, _ in first.values()][:6] == ["Degraded"] * 5 + ["Ready"], "what wants help is first"
        assert "Page 1 of 20" in window.find_element(By.ID, "pages").text
        received = window.execute_script(
            "return performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
            ".reduce((sum, one) => sum + (one.name.includes('/events') ? 0 : one.transferSize), 0)"
        )
        assert received < 150_000
        assert window.execute_script("return document.getElementsByTagName('*').length") < 2500

        site.tell(instance_ref("app-1999", "team-19"), degraded("it too"))
        until(lambda: "app-1999" in shown(window), "what went wrong on the last page comes to the first")
        search = window.find_element(By.NAME, "q")
        search.send_keys("app-0407", Keys.ENTER)
        until(lambda: list(shown(window)) == ["app-0407"], "one is found among all")
        window.find_element(By.LINK_TEXT, "Clear").click()
        until(lambda: len(shown(window)) == PAGE_SIZE, "all are back")
        window.find_element(By.LINK_TEXT, "Next").click()
        until(lambda: "Page 2 of 20" in window.find_element(By.ID, "pages").text, "the next page")
        assert complaints(window) == []


def test_everything_is_reached_with_the_keyboard_SEE_3(window: Any, fleet: PageSite) -> None:
    settle(window, fleet.url)

    def press(*keys: str) -> Any:
        window.switch_to.active_element.send_keys(*keys)
        return window.switch_to.active_element

    reached = []
    for _ in range(40):
        element = press(Keys.TAB)
        if element.tag_name == "body":
            break
        reached.append(element.accessible_name)
        drawn = "return getComputedStyle(document.activeElement).outlineStyle"
        assert window.execute_script(drawn) != "none", f"{element.accessible_name} shows that it has the focus"
    assert reached[0] == "Skip to content"
    assert reached[2:6] == ["Fleet", "Timeline", "Operator", "Control plane"]
    assert {"Search", "Filter", "needs you 2", "Operation 1", "shop", "wiki", "mail", "nightly"} <= set(reached)

    settle(window, fleet.url)
    press("/")
    assert window.switch_to.active_element.accessible_name == "Search"
    window.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert [press(key).text for key in ("j", "j", "k")] == [*shown(window)][:2] + [*shown(window)][:1]
    press(Keys.ENTER)
    until(lambda: "wiki" in window.title, "Enter opens what is chosen")
    until(lambda: is_live(window), "it is live")

    def told() -> str:
        return str(window.find_element(By.CSS_SELECTOR, "#graph .tip").text)

    def focus(selector: str) -> None:
        window.execute_script("document.querySelector(arguments[0]).focus()", f"#graph svg.wide {selector}")

    assert "post-upgrade hook timed out" in told(), "the reason of what fails is told first"
    focus("a:not(.edge)[aria-label^=HelmRelease]")
    until(lambda: told().startswith("HelmRelease wiki · "), told())
    focus("a.edge")
    until(lambda: "comes after" in told(), told())
    focus("a:not(.edge)[aria-label^=HelmRelease]")
    press(Keys.ENTER)
    target = "return document.querySelector('.nodes li:target').innerText"
    assert "HelmRelease wiki" in window.execute_script(target), "it leads there"


def test_focus_and_typing_survive_what_changes_around_them_SEE_3(window: Any) -> None:
    with page_site() as site:
        for name in ("one", "two"):
            site.create(APPLICATION_INSTANCE, instance(name), ready())
        until(lambda: "2 objects" in site.get("/").text, "both are in the cache")
        settle(window, site.url)
        window.find_element(By.LINK_TEXT, "two").send_keys("")
        window.execute_script("document.activeElement.focus()")
        site.tell(instance_ref("two"), degraded("gone wrong"))
        agree(window, site, "after a change")
        assert window.switch_to.active_element.text == "two"
        search = window.find_element(By.NAME, "q")
        search.send_keys("hal")
        site.tell(instance_ref("one"), degraded("that too"))
        agree(window, site, "after another change")
        assert window.switch_to.active_element == search
        assert search.get_attribute("value") == "hal", "what somebody types is not taken away"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_use_it_SEE_3(window: Any, fleet: PageSite, dark: bool) -> None:
    look(window, dark=dark)
    for view in VIEWS:
        settle(window, fleet.url + view)
        assert violations(window) == [], view
    window.execute_script(
        "document.querySelector('h1').style.color = '#888'; document.querySelector('h1').innerText = ''"
    )
    assert any(violation.startswith("empty-heading") for violation in violations(window)), (
        "the examiner sees what is wrong"
    )
    look(window, dark=False)


def test_the_timeline_has_a_lane_an_object_on_one_axis_and_can_show_problems_alone_SEE_3(
    window: Any, fleet: PageSite
) -> None:
    def lanes() -> list[str]:
        names = "return [...document.querySelectorAll('#lanes li.lane p')].map((one) => one.children[1].textContent)"
        return list(window.execute_script(names))

    for width in (1280, 360):
        resize(window, width, 900)
        settle(window, f"{fleet.url}/timeline")
        assert set(lanes()) == {"shop", "wiki", "mail", "nightly"}
        frames = window.execute_script(
            "return [...document.querySelectorAll('#lanes .span')].map((one) => {"
            " const a = one.getBoundingClientRect(), b = one.closest('li > svg').getBoundingClientRect();"
            " return a.width > 1 && a.left >= b.left - 1 && a.right <= b.right + 1 })"
        )
        assert len(frames) >= 4
        assert all(frames), "every bar is seen, and within the axis"
    resize(window, 1280, 900)
    settle(window, f"{fleet.url}/timeline")
    window.find_element(By.LINK_TEXT, "problems only").click()
    until(lambda: set(lanes()) == {"wiki", "mail"}, "what is well is not shown")
    window.execute_script("[...document.querySelectorAll('#lanes li.lane a:has(.span.bad)')].pop().focus()")
    until(lambda: "wiki" in window.find_element(By.CSS_SELECTOR, "#lanes .tip").text, "its reason is told")
    until(lambda: "post-upgrade hook" in window.find_element(By.CSS_SELECTOR, "#lanes .tip").text, "its reason")
    window.execute_script("document.querySelector('#lanes li.lane a:has(.mark-apply)').focus()")
    until(lambda: "apply at" in window.find_element(By.CSS_SELECTOR, "#lanes .tip").text, "when it was applied, too")
    window.find_element(By.LINK_TEXT, "7d").click()
    until(lambda: "range=7d" in window.current_url, "another axis")
    assert "problems=1" in window.current_url


def test_the_tab_shows_the_state_and_follows_it_SEE_3(window: Any) -> None:
    with page_site() as site:
        site.create(APPLICATION_INSTANCE, instance("one"), ready())
        until(lambda: "1 object" in site.get("/").text, "it is in the cache")
        window.get_log("browser")
        settle(window, site.url)
        until(lambda: window.title == "● Nothing needs you: 1 object · vworkspace-operator", "it is well")
        site.tell(instance_ref("one"), degraded("gone wrong"))
        until(lambda: window.title == "▲ 1 of 1 object needs you · vworkspace-operator", "it is not")
        assert "icon-bad.svg" in window.find_element(By.ID, "icon").get_attribute("href")
        assert complaints(window) == []


def test_a_command_is_copied_by_a_button_SEE_3(window: Any) -> None:
    with page_site() as site:
        gate = condition("Blocked", "True", "NamespaceNotGated", "To fix: kubectl label namespace x y=z")
        site.create(APPLICATION_INSTANCE, instance("one"), {"conditions": [gate]})
        until(lambda: "kubectl" in site.get("/").text, "it is in the cache")
        window.execute_cdp_cmd(
            "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
        )
        settle(window, site.url)
        button = window.find_element(By.CSS_SELECTOR, "#headline button.copy")
        button.click()
        until(lambda: button.text == "Copied", "that it is copied is said")
        copied = window.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
        assert copied == "kubectl label namespace x y=z"


def test_two_hundred_objects_fit_on_one_screen_in_the_dense_form_SEE_3(window: Any) -> None:
    with page_site() as site:
        for number in range(DENSE_PAGE_SIZE):
            status = degraded("no such image") if number == 77 else ready()
            site.create(APPLICATION_INSTANCE, instance(f"application-{number:03}"), status)
        until(lambda: "200 objects" in site.get("/").text, "all are in the cache")
        settle(window, f"{site.url}/?dense=1")
        names = "return [...document.querySelectorAll('ol.dense li')].map((one) => one.innerText.trim().split(/\\s+/))"
        found = window.execute_script(names)
        assert len(found) == DENSE_PAGE_SIZE
        assert found[0][:3] == ["▲", "application-077", "Degraded"], "what needs a person is first"
        low = "[...document.querySelectorAll('ol.dense li')].map((one) => one.getBoundingClientRect().bottom)"
        assert max(window.execute_script(f"return {low}")) <= 900, "no scrolling at 1280 by 900"
        assert violations(window) == []


def test_the_switch_turns_light_to_dark_and_is_remembered_SEE_3(window: Any, fleet: PageSite) -> None:
    def ground() -> str:
        return str(window.execute_script("return getComputedStyle(document.documentElement).backgroundColor"))

    settle(window, fleet.url)
    light = ground()
    window.find_element(By.ID, "theme").click()
    assert (dark := ground()) != light
    settle(window, f"{fleet.url}/operator")
    assert ground() == dark
    window.find_element(By.ID, "theme").click()
    assert ground() == light
    window.execute_script("localStorage.clear()")


def test_nothing_scrolls_sideways_on_a_phone_SEE_3(window: Any, fleet: PageSite) -> None:
    resize(window, 360, 740)
    for view in VIEWS:
        settle(window, fleet.url + view)
        width, height = window.execute_script(
            "const root = document.documentElement; return [root.scrollWidth, root.scrollHeight]"
        )
        assert width == 360, view
        assert height < 8000, view
        small = window.execute_script(
            "return [...document.querySelectorAll('header a, button, select, input')]"
            ".filter((one) => one.offsetParent && one.getBoundingClientRect().height < 24).map((one) => one.outerHTML)"
        )
        assert small == [], f"{view}: too small for a finger"
    resize(window, 1280, 900)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_overlaps_and_nothing_is_cut_off_SEE_3(window: Any, fleet: PageSite, width: int, dark: bool) -> None:
    look(window, dark=dark)
    resize(window, width, 900)
    for view in VIEWS:
        settle(window, fleet.url + view)
        assert crowded(window) == [], view
        left, right = margins(window)
        assert left == right >= (24 if width == 1280 else 8), view
    look(window, dark=False)
    resize(window, 1280, 900)


def test_the_examiner_of_places_finds_what_is_wrong(window: Any, fleet: PageSite) -> None:
    settle(window, f"{fleet.url}{OBJECT}/shop")
    window.execute_script("document.getElementById('head').style.marginBottom = '-60px'")
    window.execute_script("document.querySelector('svg svg').setAttribute('x', '-100')")
    window.execute_script("document.querySelector('dd').style.cssText = 'width: 9px; white-space: nowrap'")
    found = " ".join(crowded(window))
    assert "overlap" in found
    assert "out of its place" in found
    assert "is cut off" in found


def crowded(window: Any) -> list[str]:
    """What overlaps, leaves the place that it stands in, or does not show the whole of its text."""
    return list(window.execute_script(CROWDED))


def margins(window: Any) -> list[float]:
    """Between the edges of the window and what is in it."""
    return list(
        window.execute_script(
            "const boxes = [...document.querySelectorAll('main > *')].map((one) => one.getBoundingClientRect())"
            ".filter((box) => box.width);"
            "return [Math.min(...boxes.map((box) => box.left)),"
            " document.documentElement.clientWidth - Math.max(...boxes.map((box) => box.right))].map(Math.round)"
        )
    )


CROWDED = """
const found = [], name = (one) => `${one.tagName} ${one.id || one.className.baseVal || one.className}`;
const shown = (list) => [...list].filter((one) => one.getClientRects().length);
const apart = (list) => list.forEach((one, at) => list.slice(at + 1).forEach((other) => {
  const a = one.getBoundingClientRect(), b = other.getBoundingClientRect();
  if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
    found.push(`${name(one)} and ${name(other)} overlap`);
}));
const within = (inner, outer) => {
  const a = inner.getBoundingClientRect(), b = outer.getBoundingClientRect();
  if (a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1)
    found.push(`${name(inner)} is out of its place ${name(outer)}`);
};
apart(shown(document.querySelectorAll('main > *, header, footer')));
apart(shown(document.querySelectorAll('svg .node')));
shown(document.querySelectorAll('svg .node')).forEach((one) => within(one, one.closest('section')));
if (document.getElementById('graph') && shown(document.querySelectorAll('#graph > svg')).length !== 1)
  found.push('not one drawing is shown');
shown(document.querySelectorAll('.node text')).forEach((one) => within(one, one.closest('.node')));
for (const row of shown(document.querySelectorAll('tr, .timeline li, dl, .tiles, .filters')))
  apart(shown(row.children).filter((one) => getComputedStyle(one).display !== 'inline'));
for (const one of shown(document.querySelectorAll('h1, h2, p, dd, dt, th, td, li, code, label, button, .tile')))
  if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')
    found.push(`${name(one)} is cut off: ${one.textContent.trim().slice(0, 60)}`);
for (const one of shown(document.querySelectorAll('thead th'))) {
  const range = document.createRange();
  range.selectNodeContents(one);
  if (range.getClientRects().length > one.textContent.trim().split(/\\s+/).length)
    found.push(`${name(one)} is broken within a word: ${one.textContent}`);
}
return found;
"""


def test_the_browser_loads_nothing_from_elsewhere_and_refuses_nothing_SEE_3(window: Any, fleet: PageSite) -> None:
    window.get("about:blank")  # the page of an earlier test may complain that its site has ended
    window.get_log("browser")
    for view in VIEWS:
        settle(window, fleet.url + view)
        loaded = window.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
        assert loaded
        assert all(address.startswith(fleet.url) for address in loaded), view
    assert complaints(window) == []


def test_without_script_it_can_be_read_and_filtered_SEE_3(fleet: PageSite) -> None:
    with browser(script=False) as window:
        window.get(fleet.url)
        assert {"shop", "wiki", "mail", "nightly"} <= {
            element.text for element in window.find_elements(By.CSS_SELECTOR, "th a")
        }
        assert "UTC" in window.find_element(By.CSS_SELECTOR, "td time").text
        window.find_element(By.NAME, "q").send_keys("wiki")
        window.find_element(By.CSS_SELECTOR, "form.filters button").click()
        until(
            lambda: [element.text for element in window.find_elements(By.CSS_SELECTOR, "th a")] == ["wiki"],
            "it is filtered",
        )
        window.find_element(By.LINK_TEXT, "wiki").click()
        until(lambda: "post-upgrade hook timed out" in window.find_element(By.ID, "head").text, "it is told")
        assert not window.find_element(By.ID, "theme").is_displayed(), "what needs script is not there"


def test_a_real_operator_is_shown_at_work_SEE_3(window: Any, request: pytest.FixtureRequest) -> None:
    """An instance comes to be ready, one waits for its gate; with --screenshots the pictures of docs are made."""
    box = example("webapp")
    with page_site(works=True, boxes=[box], further=jobs) as site:
        for name in ("nextcloud", "shop"):
            site.create(APPLICATION_INSTANCE, instance(name))
        site.create(APPLICATION_INSTANCE, instance("wiki", suspend=True))
        site.create(APPLICATION_INSTANCE, instance("mail", chart=chart(version=BROKEN)))
        parent = {**box.kind.manifest("storefront", NS), "spec": {"image": "registry.example/shop:1", "replicas": 2}}
        site.create(box.kind, parent)
        site.create(OPERATION, operation("nightly", "shop"))
        settle(window, site.url)
        until(lambda: shown(window).get("shop", ("", ""))[0] == "Ready", "Flux installs it")
        until(lambda: shown(window).get("mail", ("", ""))[1] == "HelmReleaseFailed", "Flux cannot install it")
        until(lambda: shown(window).get("nightly", ("", ""))[0] == "Stalled", "its target names no engine")
        assert shown(window)["shop"] == held(site)["shop"]
        until(lambda: shown(window).get("storefront"), "a parent of a box has a row")
        ref = ObjectRef(box.kind, NS, "storefront")
        found = site.do(lambda api: api.get(ref))
        assert get_path(found, "kind") == box.kind.kind
        waiting = {"name": "web", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}}
        for name, status in (
            ("mail-7d9f-x2x5k", {"phase": "Running", "containerStatuses": [waiting]}),
            ("mail-7d9f-zq8rt", {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
        ):
            pod = POD.manifest(name, NS)
            pod["metadata"]["labels"] = {"app.kubernetes.io/instance": "mail"}
            site.create(POD, {**pod, "spec": {"containers": [{"name": "web", "image": "web"}]}}, status)
        settle(window, f"{site.url}{OBJECT}/mail")
        until(lambda: "CrashLoopBackOff" in window.find_element(By.ID, "graph").text, "its pods are drawn")
        assert crowded(window) == []
        assert violations(window) == []
        settle(window, f"{site.url}/object/{box.kind.crd_name}/{NS}/storefront")
        until(lambda: "Deployment" in window.find_element(By.ID, "graph").text, "its graph is drawn")
        assert "gate" in window.find_element(By.ID, "nodes").text
        if request.config.getoption("--screenshots"):
            pictures(window, site, f"/object/{box.kind.crd_name}/{NS}/storefront")


def pictures(window: Any, site: PageSite, box_object: str) -> None:
    """The screenshots of docs/page.md."""
    SCREENSHOTS.mkdir(exist_ok=True)
    views = {
        "fleet": ("/", False, 1280, 800),
        "object": (f"{OBJECT}/mail", False, 1280, 900),
        "box-dark": (box_object, True, 1100, 760),
        "operator-dark": ("/operator", True, 1100, 760),
        "phone": ("/", False, 360, 740),
    }
    for name, (path, dark, width, height) in views.items():
        look(window, dark=dark)
        resize(window, width, height)
        settle(window, site.url + path)
        window.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
    look(window, dark=False)
    resize(window, 1280, 900)
