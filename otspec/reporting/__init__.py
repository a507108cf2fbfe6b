"""How results are shown and kept: what the commands, the benchmarks and the checks of claims share."""
