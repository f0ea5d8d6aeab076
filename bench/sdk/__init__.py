"""The SDK beside the Java client and the official Python client, against the same broker.

python -m bench.sdk              measure all clients, judge the gates, write bench/results/sdk and docs/performance.md

programs.py           the three clients as programs with the same arguments, and how each is got
comet_client.py       the program on CometMQ's SDK
official_client.py    the program on rocketmq-python-client; runs in an environment of its own
java/SdkBench.java    the program on rocketmq-client 5.5.0
runner.py             rounds: one broker, one client at a time
report.py             the section of docs/performance.md

What counts is messages per second of processor time that the client's process used, its own threads and compilers
included: the broker is the same, and the machine's cores are shared.
"""
