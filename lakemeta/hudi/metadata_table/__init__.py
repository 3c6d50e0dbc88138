"""The metadata table: read, updated with what is done to the table, rolled back, or dropped."""
