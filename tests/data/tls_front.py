"""Speaks TLS in front of a plain server: tls_front.py CERTIFICATE KEY HOST PORT; prints the port it listens on."""

import socket
import ssl
import sys
import threading

certificate, key, host, port = sys.argv[1:5]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
context.set_alpn_protocols(["http/1.1"])


def pour(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    try:
        client = context.wrap_socket(client, server_side=True)
    except (OSError, ssl.SSLError):
        return
    server = socket.create_connection((host, int(port)))
    threading.Thread(target=pour, args=(client, server), daemon=True).start()
    pour(server, client)


listener = socket.create_server(("127.0.0.1", 0))
print("LISTEN", listener.getsockname()[1], flush=True)
while True:
    accepted, _ = listener.accept()
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
