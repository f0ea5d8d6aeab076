"""Looking at a store that no broker has open: is it sound, what is in it, and what can be repaired.

`folder` opens a store folder, CometMQ's or Java's, without changing a byte of it; `check` proves it sound; `records`
lists what is in the log; `plan` says what can be repaired, and does it if asked to.
"""
