"""Apache Iceberg tables: model, planning and commits."""
