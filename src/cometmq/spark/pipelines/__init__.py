"""`cometmq pipeline`: Spark's own declarative pipelines, started, watched and summed up.

`project` finds and makes folders, `embedded` starts Spark, `running` runs, `watching` hears of batches, `flows` keeps
what is known, `display` shows it, `faults` says where in the user's files an error is.
"""
