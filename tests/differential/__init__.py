"""Apache RocketMQ 5.5.0 and CometMQ are asked the same and must answer the same.

    script.py          what is asked: a request, what comes before and after it, and the variants derived from it
    namesrv_scripts.py one script for each request code of the NameServer
    broker_scripts.py  one script for each request code of the broker
    target.py          a running server of either kind, asked over a raw connection
    frames.py          bytes that are no requests
    reply.py           an answer as plain data that can be compared
    differences/       the one list of what may differ, and why
    compat.py          that list as the page docs/reference/compat.md
    comparison.py      both sides asked, and what differs without an entry that covers it
    exchange.py        store folders: filled, and all that a broker serves from them
    handled.py         which codes have a handler: the scripts must cover them

Every difference between two answers must be explained by an entry of the list, and every entry must explain one.
"""
