"""confluent-kafka (the newest librdkafka) on a broker whose device is full. Usage: full.py BOOTSTRAP TOPIC

One producer, as its defaults are, sends a record twenty times a second until it is killed, and prints a line for each delivery: `ok`, or the name
of the error and how long it took in seconds.
"""

import sys
import time

from confluent_kafka import Producer

bootstrap, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "delivery.timeout.ms": 20000})


def send():
    started = time.monotonic()

    def delivered(error, _message):
        took = time.monotonic() - started
        print(f"{error.name()} {took:.3f} {error.str()}" if error else "ok", flush=True)

    producer.produce(topic, value=b"still there", on_delivery=delivered)


while True:
    send()
    producer.poll(0.05)
