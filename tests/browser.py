"""A headless browser that opens pages from disk, reaches no host, and tells which ones a page asks for."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The origin, in a browser's log, of what it asks for on its own account; some of that can be switched off.
_BROWSER = "not an origin"
_QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--no-first-run")


def find_browser():
    """The path of a browser. Without one the test is skipped, or fails where CI has promised one."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(f"CI runs these tests, and there is none of {', '.join(NAMES)}: .ci/run installs chromium")
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    return found


class Browser:
    """Opens one page a call, each time with a profile of its own, and no way to any host."""

    def __init__(self, program, folder):
        self._program = program
        self._folder = Path(folder)
        self._opened = 0

    def screenshot(self, page, width, height):
        """A picture of ``page``, as the path of a PNG."""
        out = self._folder / f"{page.stem}-{width}.png"
        self._open(page, f"--window-size={width},{height}", f"--screenshot={out}", "--hide-scrollbars")
        return out

    def print_pdf(self, page):
        """``page`` on paper, as the path of a PDF."""
        out = self._folder / f"{page.stem}.pdf"
        self._open(page, f"--print-to-pdf={out}", "--no-pdf-header-footer")
        return out

    def read(self, page, *options):
        """The document's text after its scripts have run."""
        return self._open(page, "--dump-dom", "--hide-scrollbars", *options)

    def list_asked(self, page):
        """The addresses that ``page`` makes the browser ask for, besides files and what is in the page."""
        log = self._folder / f"{page.stem}.netlog.json"
        self._open(page, "--dump-dom", f"--log-net-log={log}")
        return _read_requests(log)

    def _open(self, page, *options):
        self._opened += 1
        profile = self._folder / f"profile-{self._opened}"
        # A resolver that knows no host.
        command = [self._program, "--headless=new", "--no-sandbox", "--disable-gpu", *_QUIET]
        command += ["--host-resolver-rules=MAP * ~NOTFOUND"]
        command += [f"--user-data-dir={profile}", *options, page.resolve().as_uri()]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        shutil.rmtree(profile, ignore_errors=True)
        assert finished.returncode == 0, finished.stderr[-2000:]
        return finished.stdout


def _read_requests(log):
    """What a page asked for, by the browser's own log: addresses, and ``a lookup`` where any host was looked up.

    Requests of the browser on its own account (updates, lists, the time) have no origin and are left out.
    """
    record = json.loads(log.read_text())
    names = {number: name for name, number in record["constants"]["logEventTypes"].items()}
    asked = set()
    for event in record["events"]:
        told = event.get("params", {})
        match names[event["type"]]:
            case "URL_REQUEST_START_JOB" if told.get("initiator", _BROWSER) != _BROWSER:
                asked.add(told["url"])
            case "HOST_RESOLVER_MANAGER_REQUEST" if "file://" in told.get("network_anonymization_key", ""):
                asked.add("a lookup")
    return asked


def count_sheets(pdf):
    """Sheets of the PDF at ``pdf``."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))
