"""Where torch is not installed there is nothing to test here."""

from tests.decode.conftest import collect_ignore_glob as collect_ignore_glob
