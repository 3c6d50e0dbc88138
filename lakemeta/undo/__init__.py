"""What runs have deleted: history, bringing quarantined files back, and doing away with them."""
