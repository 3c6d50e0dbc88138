"""The services on delete files: position deletes rewritten, useless ones removed, equality deletes converted."""
