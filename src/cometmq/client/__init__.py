"""The SDK: producers and consumers for CometMQ and Apache RocketMQ, on asyncio. Programs import it from `cometmq`.

message.py       what is sent, what is received, what a send gives back
options.py       how to reach a cluster
instance.py      one per cluster and client id: connections, routes, heartbeats; shared by what lives in a loop
members.py       the contract between the instance and the producers and consumers on it
route_cache.py   where topics are (pure)        name_server_calls.py   asking for it, with fail-over
heartbeats.py    telling brokers who lives here inbound.py             what brokers ask of us
preparing.py     what a message is on the wire  sender.py, sending.py  all sends of a producer, and one of them
compression.py   zlib, lz4, zstd                forking.py             a client is of one process
simple_consumer.py   one by one: popping.py brings messages, acknowledging.py takes their receipts back
lite_pull.py         when the program asks: read_ahead.py keeps queues at hand     wanted.py   tags or SQL92
"""
