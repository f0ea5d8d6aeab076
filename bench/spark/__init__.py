"""`format("rocketmq")` beside Spark's own Kafka source: the same messages, the same Spark, the same two cores.

python -m bench.spark            measure, judge the gates, write bench/results/spark and docs/performance.md

loads.py     what is measured, as data              program.py  the Spark program that does it
kafka.py     Apache Kafka and Spark's source, by their Maven coordinates (kafka-pom.xml, spark-kafka-pom.xml)
process.py   the program as a process               workers.py  the memory of Spark's Python workers
runner.py    rounds: fill, copy, warm up, take turns
gates.py     what must hold                         report.py   the section of docs/performance.md

What counts is rows per second of a whole query, from the call to its answer: planning and Spark's own work included.
"""
