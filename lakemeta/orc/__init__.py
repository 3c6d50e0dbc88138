"""ORC files as Arrow cannot read them alone: schemas with ids, nulls, integers and timestamps."""
