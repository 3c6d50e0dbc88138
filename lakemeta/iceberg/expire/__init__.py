"""expire-snapshots: what goes with old snapshots, and deleting what nothing names any more."""
