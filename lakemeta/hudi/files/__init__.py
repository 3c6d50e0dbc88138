"""What lies where: names of files, log files, properties, and the doors through which files are deleted."""
