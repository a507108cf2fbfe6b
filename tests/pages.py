"""Readers of the pages that we write: an HTML parser, and a browser without a screen."""

import json
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from otspec.extras import installed

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


def no_browser() -> str | None:
    """What there is not, of all that it takes."""
    if not installed("selenium"):
        return "selenium is not installed"
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not found; on Debian: apt-get install chromium chromium-driver" if absent else None


class Reader(HTMLParser):
    """What an HTML parser finds: elements with their attributes, texts by element, and the rows of tables."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.tables: list[list[list[str]]] = []
        self.cell = self.marker = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.cell = True
        elif tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "span" and ("aria-hidden", "true") in attrs:
            self.marker = True  # of a series: not of the table

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.cell = False
        elif tag == "span":
            self.marker = False

    def handle_data(self, data: str) -> None:
        if self.cell and not self.marker:
            self.tables[-1][-1][-1] += data
        if self.scripts and self.elements[-1][0] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)


def charts_of(page: Path) -> list[dict[str, Any]]:
    """What a page's script draws."""
    found: list[dict[str, Any]] = json.loads(Reader(page.read_text()).scripts[0][1])["charts"]
    return found


class Browser:
    """Chromium at a page.

    Parameters
    ----------
    profile : Path
        A new folder for what it keeps.
    """

    def __init__(self, profile: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver: Any = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))

    def open(self, page: Path, width: int = 1280, scheme: str = "light") -> None:
        """Show a page in a window of a width, to somebody who prefers a colour scheme, until its charts are drawn."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.prefer(scheme)
        self.driver.get(page.as_uri())
        self.wait(f"return document.documentElement.dataset.drawn === '{scheme}'")

    def prefer(self, scheme: str) -> None:
        """Change what the user prefers."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str, *arguments: Any) -> None:
        """Wait until a script returns true; a page that never does fails the test."""
        for _ in range(600):
            if self.run(condition, *arguments):
                return
            time.sleep(0.05)
        raise AssertionError(f"not within 30 s: {condition}; the console says {self.complaints()}")

    def all(self, selector: str) -> list[Any]:
        """The elements of a selector."""
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
