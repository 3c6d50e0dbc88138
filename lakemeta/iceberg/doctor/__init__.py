"""What is wrong with a table, and its facts."""
