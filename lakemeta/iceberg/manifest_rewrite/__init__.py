"""Rewriting manifests: which, clustered how, and the commit that puts new ones in their place."""
