"""Rows of data files: read, projected to a schema, without what delete files take, and counted."""
