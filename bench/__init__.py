"""Benchmarks: CometMQ beside Apache RocketMQ 5.5.0, one driver for both.

python -m bench                  measure both sides, judge the gates, write bench/results and docs/performance.md
python -m bench report           write docs/performance.md again from a result that is in the tree
python -m bench.sdk              the SDK beside the Java client and the official Python client
python -m bench.spark            the Spark source beside Spark's own for Apache Kafka
python -m bench.soak             ten idle minutes and a million messages: nothing of the client grows (growth.py)

workloads.py  what is measured, as data             servers.py  the two sides as processes
frames.py     requests, encoded before the clock    startup.py  spawn to first acknowledged message, idle memory
pump.py       many requests in flight               runner.py   rounds: alternate, warm, pause the other side
single.py     one request in flight                 gates.py    what must hold
driver.py     the process that makes the load       results.py  runs as JSON, medians
ask.py        one question, one answer              report.py, chart.py  the page and its picture
replication.py  a master and its slave          filling.py  topics to be read
"""
