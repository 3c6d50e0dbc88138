"""Parquet files: written column chunk by column chunk, footers, layout, and a reader in batches of bytes."""
