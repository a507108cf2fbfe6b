"""Nothing here runs without the extra that benchmarks need."""

from otspec.extras import installed

collect_ignore_glob = [] if installed("polars") else ["*.py"]
