"""Statistics of snapshots: counts of each partition, and how many different values columns have."""
