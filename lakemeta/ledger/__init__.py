"""The ledger: what a run deletes, recorded as it goes."""
