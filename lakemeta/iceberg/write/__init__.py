"""Data files as they are written: names, roll-over, metrics, and the table's settings for them."""
