"""Manifests and manifest lists: entries, Avro schemas, reading, writing, and the store that has them."""
