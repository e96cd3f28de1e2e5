"""Stands for Spark's JVM before a keeper: it tells its port and secret, and ends with its stdin.

It answers a client that shows the secret, and knows nothing else of py4j or Spark. It runs as a
program; its argument is how it behaves: `well`, `fails` (it complains and ends) or `never` (it does
not become ready).
"""

import os
import socket
import struct
import sys
import threading
from pathlib import Path

SECRET = "a secret"


def main() -> None:
    behaviour = sys.argv[1]
    if behaviour == "fails":
        sys.exit("no memory")
    server = socket.create_server(("127.0.0.1", 0))
    if behaviour == "well":
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        tell(server.getsockname()[1])
    sys.stdin.read()


def tell(port: int) -> None:
    """As PySpark's gateway does: complete or not at all."""
    path = Path(os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"])
    draft = path.with_suffix(".draft")
    secret = SECRET.encode()
    draft.write_bytes(struct.pack("!ii", port, len(secret)) + secret)
    draft.rename(path)


def answer(server: socket.socket) -> None:
    while True:
        client, _ = server.accept()
        with client:
            asked = client.recv(1000)
            client.sendall(b"!yv\n" if asked == f"A\n{SECRET}\ne\n".encode() else b"!x\n")


if __name__ == "__main__":
    main()
