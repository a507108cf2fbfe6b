"""A browser for the tests of pages."""

from collections.abc import Iterator

import pytest

from tests.pages import Browser, no_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for the tests of a module; each opens its page anew."""
    if reason := no_browser():
        pytest.skip(reason)
    shown = Browser(tmp_path_factory.mktemp("profile"))
    yield shown
    shown.driver.quit()
