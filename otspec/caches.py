"""Where a user's caches are, by the custom of each system."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache() -> Path:
    """The folder of this package in the user's cache; whoever writes there makes it."""
    if sys.platform == "win32":
        user = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        user = "~/Library/Caches"
    else:
        user = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(user)) / "otspec"
