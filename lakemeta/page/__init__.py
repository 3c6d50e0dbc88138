"""Pages to look at: a table, a plan or a simulation as one HTML file that needs nothing else."""
