"""Sends octets to an echo server and compares them with the answer: client.py ADDRESS PORT OCTETS SECONDS."""
import os
import socket
import sys
import threading

address, port, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
octets = os.urandom(count)
with socket.create_connection((address, port), timeout=seconds) as connection:
    connection.settimeout(seconds)

    def send():
        connection.sendall(octets)
        connection.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    got = bytearray()
    while part := connection.recv(65536):
        got += part
    sender.join()
if bytes(got) != octets:
    sys.exit(f"sent {count} octets, got {len(got)}, which differ" if len(got) == count else
             f"sent {count} octets, got {len(got)}")
