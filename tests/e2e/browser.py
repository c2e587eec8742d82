"""A browser for tests of the page: Debian's Chromium without a window, whose pictures the processor computes. Tests that use it
are skipped by name where there is none, or no Playwright."""

from __future__ import annotations

import contextlib
import io
import shutil
from typing import Any, Callable, Iterator

import numpy as np
import pytest
from conftest import PATIENCE, wait_until

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (tests/requirements-page.txt)")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist",
             "--disable-dev-shm-usage"]


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium (tests/tools/packages install page)")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield running
        finally:
            running.close()


class Tab:
    """A page of the browser, and what its console said. Waiting asks again and again from here: the page's policy forbids to
    have text evaluated within it, which is how Playwright waits for a condition."""

    def __init__(self, running: Any, **options: Any):
        self.context = running.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        self.context.set_default_timeout(1000 * PATIENCE)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self.hear)

    def hear(self, message: Any) -> None:
        """Errors, but not what the browser says itself of requests that were refused, or met no server: the page says that."""
        if message.type == "error" and "status of" not in message.text and "net::ERR_" not in message.text:
            self.errors.append(message.text)

    def until(self, script: str, what: str) -> Any:
        def ask() -> Any:
            with contextlib.suppress(sync_api.Error):  # the page is being loaded
                return self.page.evaluate(script)

        try:
            return wait_until(ask, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; console: {self.errors}; page: {self.page.inner_text('main')[:600]}") from error

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def until_text(self, selector: str, wanted: str | Callable[[str], bool]) -> str:
        is_good = wanted if callable(wanted) else lambda text: wanted in text
        try:
            wait_until(lambda: is_good(self.page.text_content(selector) or ""), f"{wanted} in {selector}")
        except AssertionError as error:
            raise AssertionError(f"{error}, which has {self.text(selector)!r}") from error
        return self.text(selector)

    def pixels(self, selector: str = "#canvas") -> np.ndarray:
        """What is to be seen of an element: rows, columns, and red, green and blue from 0 to 255."""
        from matplotlib import image

        return (255 * image.imread(io.BytesIO(self.page.locator(selector).screenshot()))[..., :3]).astype(int)
