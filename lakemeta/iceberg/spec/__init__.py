"""What the Iceberg specification defines: types, schemas, transforms, partitioning, table metadata."""
