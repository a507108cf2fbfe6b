"""Where torch is not installed there is nothing to test here."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["*"]
