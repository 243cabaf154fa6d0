"""A headless Chromium that opens pages from files and tells what went wrong in them."""

import json
import os
import shutil
from pathlib import Path

import pytest


class Browser:
    """One page at a time: open a file, run a script in it, see what it logged and which addresses it asked for."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path: Path, *, width: int = 1280, height: int = 900):
        """Show a page in a window whose viewport has this size, with what was said of earlier pages forgotten."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        self.errors(), self.requests()
        self.driver.get(path.resolve().as_uri())

    def run(self, script: str, *arguments):
        """What `return ...` in a script gives."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str, seconds: float = 20.0):
        """Until an expression is true in the page."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds, 0.05).until(lambda d: d.execute_script(f"return {condition}"))

    def dark(self, on: bool = True):
        """What the reader prefers: `prefers-color-scheme`."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def errors(self) -> list[str]:
        """What the page wrote to the console since the last call: errors and warnings."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Addresses asked for since the last call, those of files and inline data left out."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("file:", "data:", "blob:", "about:", "chrome:"))]

    def picture(self, path: Path):
        """The whole page as a PNG."""
        import base64

        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(shot["data"]))


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Debian's Chromium with its driver, or a skip that says what is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs chromium and chromedriver on the path")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    home = tmp_path_factory.mktemp("chromium")
    arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={home}"]
    for argument in arguments + (["--no-sandbox"] if os.geteuid() == 0 else []):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield Browser(started)
    started.quit()
