"""A real browser with one page, and everything that went wrong on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
BROWSER = [
    pytest.mark.skipif(
        find_spec("playwright") is None,
        reason="playwright is not installed: pip install --group browser",
    ),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.timeout(240),
]
"""For tests that need one, which takes a while to start."""


@asynccontextmanager
async def browsed(**more: Any) -> AsyncGenerator[tuple[Any, list[str]]]:
    """Open a browser with one page; every error, refused load or dialog of it is in the list."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
            timeout=120_000,
        )
        context = await browser.new_context(viewport={"width": 1280, "height": 800}, **more)
        page = await context.new_page()
        page.set_default_timeout(40_000)
        wrong: list[str] = []

        def heard(said: Any) -> None:
            if said.type in {"error", "warning"}:
                wrong.append(said.text)

        page.on("console", heard)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        try:
            yield page, wrong
        finally:
            await browser.close()
