"""Partitions, and the file groups and slices in them."""
