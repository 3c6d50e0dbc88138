"""Cleans: what may go, planning, checking and executing them."""
