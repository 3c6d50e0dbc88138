"""Commits: the next snapshot, its manifests and summary, validation against others' commits, retries."""
