"""Drives a headless Chromium: for the tests of the page, its benchmark and its screenshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import which
from typing import Any, TypeVar

DRIVER, BROWSER = "chromedriver", "chromium"
ALL = "return itl.frames > 3 && itl.streams.byId.size > 0 && !itl.aggregate.waiting.length && !itl.needsRefresh"
"""True once a page has taken in its streams, and drawn them."""
T = TypeVar("T")


def missing_browser() -> str | None:
    """Return why no browser can be driven, with the remedy; None: one can."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed: pip install selenium"
    missing = [program for program in (BROWSER, DRIVER) if which(program) is None]
    return f"{' and '.join(missing)} not found: apt-get install chromium chromium-driver" if missing else None


class Browser:
    """A page in a headless Chromium."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def resize(self, width: int, height: int, scale: int = 1) -> None:
        """Give the page this size in CSS pixels; `scale`: device pixels for each."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def open(self, url: str) -> None:
        """Open a page from the beginning, and wait until it has begun to draw."""
        self.driver.get("about:blank")
        self.driver.get(url)
        self.wait("return window.itl && itl.frames > 1")

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page, and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, seconds: float = 15.0) -> Any:
        """Run a script again and again until it returns something true, and return that."""
        return wait_for(lambda: self.run(script), seconds, script)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag over an element, from one point to another: shares of its width and height."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        box = self.run("return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", selector)
        builder = ActionBuilder(self.driver, duration=20)
        points = [(round(box["x"] + box["width"] * x), round(box["y"] + box["height"] * y)) for x, y in (start, end)]
        builder.pointer_action.move_to_location(*points[0]).pointer_down()
        builder.pointer_action.move_to_location(*points[1]).pointer_up()
        builder.perform()
        ActionChains(self.driver).pause(0.05).perform()

    def complaints(self) -> list[str]:
        """Return what the browser has logged since the last call: errors, and violations of the security policy."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}]


def wait_for(check: Callable[[], T], seconds: float, what: str) -> T:
    """Call a function until it returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s: {what}")


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Start a browser for the `with` block."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,900"):
        options.add_argument(argument)
    options.binary_location = which(BROWSER) or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(which(DRIVER)))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
