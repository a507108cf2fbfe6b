"""Decoding on a GPU machine, measured in ten minutes: `python -m benchmarks.gpu`."""
