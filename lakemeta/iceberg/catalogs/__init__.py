"""Where a table's current metadata is looked up and replaced: Hadoop tables and pyiceberg's catalogs."""
