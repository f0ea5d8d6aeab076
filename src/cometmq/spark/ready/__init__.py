"""Ready-made pipelines: one file each, for `cometmq pipeline run NAME`, or to be changed, by `init … --like NAME`.

The lines `# cometmq.key = value` at the top of each are its settings and what they usually are; those without a value
have to be given. A file stands for itself, so that it can be copied: it imports nothing of the others.
"""
