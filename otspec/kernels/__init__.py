"""Kernels: arrays in, arrays out.  They know no problem, no scheme and no solver."""
