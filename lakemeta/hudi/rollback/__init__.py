"""Rollbacks of failed writes: what undoes one, and doing it."""
