"""What every Python client does here, written against a small face that each client fills in.

A client module gives: create_topic(name, partitions), produce(topic, codec, records), and consume(topic, group, count), which
joins the group, reads `count` records in total, commits what it read, leaves, and returns (partition, offset, key, value, headers).
"""

import sys

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PER_CODEC = 200
PARTITIONS = 3


def records(codec, start):
    """Keyed, headed, and some with a null value or an empty one."""
    made = []
    for n in range(start, start + PER_CODEC):
        key = f"key-{n % 17}".encode()
        value = None if n % 50 == 7 else b"" if n % 50 == 8 else f"{codec}-{n}-".encode() + b"x" * (n % 300)
        headers = [("codec", codec.encode()), ("n", str(n).encode())]
        made.append((key, value, headers))
    return made


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(client, topic, group):
    client.create_topic(topic, PARTITIONS)
    sent = []
    for index, codec in enumerate(CODECS):
        batch = records(codec, index * PER_CODEC)
        client.produce(topic, codec, batch)
        sent += batch
    half = len(sent) // 2
    first = client.consume(topic, group, half)
    check(len(first) >= half, f"the first member read {len(first)} of {half}")
    rest = client.consume(topic, group, len(sent) - len(first))
    seen = first + rest
    check(len(seen) == len(sent), f"read {len(seen)} records, sent {len(sent)}")
    places = [(partition, offset) for partition, offset, *_ in seen]
    check(len(set(places)) == len(places), "the second member read again what the first had committed")
    for partition in range(PARTITIONS):
        offsets = sorted(offset for p, offset in places if p == partition)
        check(offsets == list(range(len(offsets))), f"offsets of partition {partition} are not dense")
        key_order = {}
        for p, offset, key, value, headers in sorted(seen, key=lambda r: (r[0], r[1])):
            n = int(dict(headers)["n"])
            check(key_order.get(key, -1) < n, f"records of {key} changed their order")
            key_order[key] = n
    wanted = sorted((dict(h)["n"], k, v or b"", v is None, tuple(h)) for k, v, h in sent)
    got = sorted((dict(h)["n"], k, v or b"", v is None, tuple(h)) for _, _, k, v, h in seen)
    check(wanted == got, "what was read differs from what was sent")
    print(f"OK {len(seen)} records")
