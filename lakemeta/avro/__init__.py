"""Avro: container files, data and schemas of strangers, read with care."""
