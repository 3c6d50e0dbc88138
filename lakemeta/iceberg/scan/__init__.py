"""Planning of scans: which data files, with which delete files, in which splits."""
