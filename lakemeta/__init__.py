"""Table maintenance for Apache Hudi and Apache Iceberg in plain Python.

The two formats live in :mod:`lakemeta.hudi` and :mod:`lakemeta.iceberg`; they meet in :mod:`lakemeta.plan`
(what would be done) and :mod:`lakemeta.report` (what was done). Importing this package loads neither.
"""

__version__ = "0.1.0"
