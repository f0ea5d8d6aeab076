"""JSON bodies of requests and replies, by subject; each with its reader and its writer.

reading.py       values out of parsed JSON, as fastjson takes them
route.py         where a topic is
registration.py  what a broker tells a NameServer about itself
cluster.py       brokers by name and cluster; members of a broker name
topics.py        lists of topic names
kv.py            one namespace of the NameServer's key-value settings
"""
