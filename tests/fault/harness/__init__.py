"""What the fault tests share: they break real processes and real files, and an outside ledger says what was promised.

    rows.py          one row of the fault matrix: how many, which seed, progress, violations, the JSON result
    ledger.py        every message sent, acknowledged and seen, outside the broker; I1 to I5 are checked against it
    crash_disk.py    a file system that records, and makes the folders that a power cut could have left
    failing_disk.py  a file system whose n-th call fails
    workload.py      everything a store does, as one seeded run on a file system
    traffic.py       senders and a reader on a broker process, with the ledger beside them
    steady.py        a sender at an even pace and a reader whose every wait is noted
    keys.py          the index, asked for every acknowledged message
    delayed.py       messages for later that are under way while the broker ends
    pair.py          a master and its slave as processes, and how far each is
    two_masters.py   a master with its slave, and another master, as processes
    damage.py        a killed store as bytes, to be torn, flipped and robbed, and what it must still serve
    sick_broker.py   a broker process whose disk is slow or failing when told so
    jumping.py       server processes whose wall clock jumps when told so
    traced_broker.py a broker process one of whose system calls fails
    warm.py          processes forked from one that has imported everything, to be killed by the thousand
    consumer.py      a consumer process that writes down what it consumes, to be killed
    heard.py         what consumers have written down, and whether what came again might
    restarting.py    starting a killed broker again on its port
    capabilities.py  what a test needs from the machine; what is missing is counted, and the count is held

`make test` runs trimmed numbers with a fixed seed; `make fault` all of them, with a seed of its own or FAULT_SEED.
A run is repeated by its FAULT_SHARE and FAULT_SEED together; each row prints both.
"""
