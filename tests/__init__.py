"""Run with one thread each: tests run side by side, and threads that wait for small matrices cost more than they do."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are first imported, which is after this
