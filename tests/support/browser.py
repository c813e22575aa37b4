"""A real browser for tests of pages: Chromium, as the system installs it, driven without a window."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.patience import PATIENCE

_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
)


@cache
def missing() -> str:
    """Return why there is no browser; nothing where there is one."""
    if find_spec("selenium") is None:
        return "selenium is not installed: `make setup` installs it"
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not found: install Debian's chromium and chromium-driver" if lacking else ""


@contextmanager
def browser(*, width: int = 1280, height: int = 900, dark: bool = False, script: bool = True) -> Iterator[Any]:
    """A browser of its own, with a window of that size."""
    if missing():
        pytest.skip(missing())
    from selenium import webdriver  # where no browser is asked for it may be absent, and its import takes long
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*_FLAGS, f"--window-size={width},{height}"):
        options.add_argument(flag)
    if not script:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = Service(shutil.which("chromedriver") or "", log_output=os.devnull)
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_page_load_timeout(PATIENCE)
        resize(driver, width, height)
        look(driver, dark=dark)
        driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})  # after Tab left the page too
        yield driver
    finally:
        driver.quit()


def resize(driver: Any, width: int, height: int) -> None:
    """Show the page as in a window of that size, however small."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def look(driver: Any, *, dark: bool) -> None:
    """What the system says of light and dark."""
    feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def violations(driver: Any) -> list[str]:
    """What axe-core finds on the page by the rules of WCAG 2.1, levels A and AA, and its own good practice."""
    driver.execute_script((Path(str(files("axe_core_python"))) / "axe.min.js").read_text(encoding="utf-8"))
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {runOnly: {type: 'tag', values: arguments[0]}}).then(done)",
        tags,
    )
    return [
        f"{violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"][:5]
    ]


def until(found: Callable[[], Any], what: str) -> Any:
    """What is found, once something is. An element that was replaced while it was asked is looked for again."""
    limit = time.monotonic() + PATIENCE
    while not (result := _asked(found)):
        assert time.monotonic() < limit, what
        time.sleep(0.02)
    return result


def _asked(found: Callable[[], Any]) -> Any:
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

    try:
        return found()
    except (NoSuchElementException, StaleElementReferenceException):
        return None
