"""`otspec bench`: every solver on the same positions, at every (k, n), with a time budget for each cell."""
