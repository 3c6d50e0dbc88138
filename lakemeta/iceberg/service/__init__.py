"""What all services have in common: what is asked of one, the arguments it takes, the plans it makes and opens."""
