"""Rewriting data files: choosing and packing them into groups, rewriting groups, committing them."""
