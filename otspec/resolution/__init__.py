"""The machinery of the `global_resolution` solver: two systems, solved by a softmax each, and the plan they make.

`systems` splits the problem along H*, finds the outer residuals and truncates, `softmax` minimises, `plan` verifies.
The mathematics, and where it departs from the printed algorithm, is in `docs/global_resolution.md`.
"""
