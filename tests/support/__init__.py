"""What tests share: builders of tables, storages with faults, independent checkers, recorded cases."""
