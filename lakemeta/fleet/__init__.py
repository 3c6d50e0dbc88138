"""Many tables with one command: which there are, what is done to each, when, and within which bounds.

Knows no format: what opens a table, lists a catalog or runs a service is handed over. What is done to one table is its
maintenance (:mod:`lakemeta.maintenance`) and nothing else.
"""
