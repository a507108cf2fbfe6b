"""Every table and figure of [thomas2025global] that concerns one step, one command each, with `interval` beside it.

    otspec bench                                         Tables 1 and 3: solve times and success rates
    python -m benchmarks.global_resolution.limits        Table 2: best acceptance within 10 and 100 ms per token
    python -m benchmarks.global_resolution.acceptance    Figure 1: acceptance over n and k
    python -m benchmarks.global_resolution.greedy        Figures 2 and 3: i.i.d. against greedy drafts
    python -m benchmarks.global_resolution.temperature   Figures 4 and 5: the target's temperature
    python -m benchmarks.global_resolution.other_laws    Table 5: drafts without replacement, and of two drafters

`otspec bench` prints the paper's times beside ours, and `limits` reads the folder that it leaves; the commands are in
docs/global_resolution.md.  Each leaves a folder with a record per line (JSON), the tables (Markdown) and the
pictures.  The laws are synthetic (`otspec.data`), calibrated to the few acceptances that the paper prints: compare
trends, not digits.
"""
