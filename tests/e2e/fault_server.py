# SPDX-License-Identifier: Apache-2.0
"""A Chat Completions server on loopback that answers rightly or with one fault.

    with FaultServer(fault="server_error", times=2) as server:
        ... base_url: server.url

A right answer holds a right kernel of the scripted backend's bank for the workload
that the prompt names, picked by the request's `seed`, or with `prose` a sentence without
code, which needs no worker to be judged.  Equal requests get equal answers, whatever
was asked between them.  `times` is how many requests get the
fault before it heals (None: all of them).  `requests` is what came in.  Can be
started by hand:  python -m tests.e2e.fault_server --fault stall --port 8080
"""

import argparse
import email.utils
import http.server
import json
import pathlib
import re
import socket
import ssl
import struct
import threading
import time

BANK = pathlib.Path(__file__).resolve().parents[2] / "plugins/backends/scripted/bank"
MODEL = "fault-model-1"
KEY = "sk-fault-server-key-0815"


def kernel(workload, seed):
    """A right kernel of the bank; `<<a|b>>` in it is a choice."""
    sources = sorted((BANK / workload).glob("right_*.py"))
    if not sources:
        return None
    source = sources[seed % len(sources)].read_text()
    return re.sub(r"<<([^|>]*)(?:\|[^>]*)?>>", r"\1", source) + "\n# seed %d\n" % seed


def reply_text(body, prose=False):
    if prose:
        return "I would rather talk about %d." % body.get("seed", 0)
    prompt = "\n".join(m["content"] for m in body["messages"] if m["role"] == "user")
    found = re.search(r"Workload (\w+)", prompt)
    source = kernel(found.group(1), body.get("seed", 0)) if found else None
    return "I know no such workload." if source is None else "A kernel:\n\n```python\n%s```\n" % source


def completion(text, finish="stop", refusal=None, usage=None, model=MODEL):
    if usage is None:
        usage = {"prompt_tokens": 100, "completion_tokens": 40, "total_tokens": 140,
                 "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 10}}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": model, "usage": usage,
            "choices": [{"index": 0, "finish_reason": finish,
                         "message": {"role": "assistant", "content": text, "refusal": refusal}}]}


def error(message, kind, code=None):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *args):
        pass

    # -- pieces ---------------------------------------------------------------

    def text(self, body):
        return reply_text(body, self.server.prose)

    def send(self, status, document, headers=()):
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def event(self, document):
        self.piece(b"data: %s\r\n\r\n" % json.dumps(document).encode())

    def stream(self, text, finish="stop", usage=True, upto=None, after=None):
        """The reply in uneven pieces, which cut lines and characters where they like."""
        whole = completion(text)
        data = b": hello\n\n"
        for at in range(0, len(text), 37):
            data += b"data: %s\n\n" % json.dumps({"model": MODEL, "choices": [
                {"index": 0, "delta": {"content": text[at:at + 37]}, "finish_reason": None}]}, ensure_ascii=False).encode()
        data += b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}).encode()
        if usage:
            data += b"data: %s\n\n" % json.dumps({"choices": [], "usage": whole["usage"]}).encode()
        data += b"data: [DONE]\n\n"
        data = data[:upto]
        self.begin_stream()
        for at in range(0, len(data), 101):
            self.piece(data[at:at + 101])
        if after is not None:
            self.event(after)
        self.piece(b"")

    def abort(self):
        """Close with a reset, as a dying server would."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    # -- faults: one method each --------------------------------------------------

    def fault_rate_limit(self, body):
        self.send(429, error("Rate limit reached, slow down", "requests", "rate_limit_exceeded"),
                  [("Retry-After", self.server.retry_after)])

    def fault_rate_limit_date(self, body):
        self.send(429, error("Rate limit reached", "requests"),
                  [("Retry-After", email.utils.formatdate(time.time() + 1, usegmt=True))])

    def fault_quota(self, body):
        self.send(429, error("You exceeded your current quota, please check your plan and billing details.",
                             "insufficient_quota", "insufficient_quota"))

    def fault_server_error(self, body):
        self.send(500, error("The server had an error while processing your request", "server_error"))

    def fault_bad_gateway(self, body):
        self.send(502, b"<html><body>502 Bad Gateway</body></html>")

    def fault_cut(self, body):
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b'{"choices":[{"message":{"content":"half of')
        self.wfile.flush()
        self.abort()

    def fault_empty(self, body):
        self.send(200, b"")

    def fault_empty_content(self, body):
        self.send(200, completion(""))

    def fault_truncated(self, body):
        text = self.text(body)
        self.send(200, completion(text[:len(text) // 2], finish="length"))

    def fault_invalid_json(self, body):
        self.send(200, b'{"choices": [{"message": {"content": "unfinish')

    def fault_refusal(self, body):
        self.send(200, completion(None, refusal="I'm sorry, I can't help with kernels."))

    def fault_filtered(self, body):
        self.send(200, completion("", finish="content_filter"))

    def fault_stall(self, body):
        self.server.stopping.wait(30)
        self.abort()

    def fault_stall_midway(self, body):
        self.begin_stream()
        self.event({"choices": [{"index": 0, "delta": {"content": "wait"}}]})
        self.server.stopping.wait(30)
        self.abort()

    def fault_wrong_key(self, body):
        given = self.headers.get("Authorization", "")
        self.send(401, error("Incorrect API key provided: %s. You can find your API key at https://example.invalid." % given,
                             "invalid_request_error", "invalid_api_key"))

    def fault_unknown_model(self, body):
        self.send(404, error("The model `%s` does not exist or you do not have access to it." % body["model"],
                             "invalid_request_error", "model_not_found"))

    def fault_too_long(self, body):
        self.send(400, error("This model's maximum context length is 8192 tokens.", "invalid_request_error",
                             "context_length_exceeded"))

    def fault_wrong_usage(self, body):
        self.send(200, completion(self.text(body), usage={"prompt_tokens": "many", "completion_tokens": -3,
                                                           "prompt_tokens_details": [], "total_tokens": None}))

    def fault_no_usage(self, body):
        document = completion(self.text(body))
        del document["usage"]
        self.send(200, document)

    def fault_redirect(self, body):
        self.send(307, b"", [("Location", self.server.redirect)])

    def fault_echo(self, body):
        """A right answer that quotes the key it was asked with."""
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.send(200, completion("Your key is %s.\n\n%s" % (key, self.text(body)), model="model-of-" + key))

    def fault_stream_cut(self, body):
        self.stream(self.text(body), upto=700)

    def fault_stream_error(self, body):
        self.stream(self.text(body), upto=0, after=error("The engine is overloaded", "overloaded_error"))

    # -- the right answer -----------------------------------------------------------

    def good(self, body):
        if body.get("stream"):
            self.stream(self.text(body))
        else:
            self.send(200, completion(self.text(body)))

    def do_POST(self):
        server = self.server
        try:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(raw)
            fault = server.note(self, body)
            if server.delay:
                time.sleep(server.delay * (0.5 + (body.get("seed", 0) % 7) / 7))
            if server.key is not None and self.headers.get("Authorization") != "Bearer " + server.key:
                fault = "wrong_key"
            getattr(self, "fault_" + fault)(body) if fault else self.good(body)
            self.wfile.flush()
            server.note_end(body)
        except (ConnectionError, TimeoutError):
            self.close_connection = True


class FaultServer(http.server.ThreadingHTTPServer):
    """Runs in threads of the caller's process between __enter__ and __exit__."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, fault=None, times=None, key=KEY, delay=0.0, retry_after="1", redirect="", prose=False,
                 port=0, certificate=None):
        super().__init__(("127.0.0.1", port), Handler)
        if fault is not None and not hasattr(Handler, "fault_" + fault):
            raise ValueError("unknown fault %r" % fault)
        self.fault, self.times, self.key, self.delay = fault, times, key, delay
        self.retry_after, self.redirect, self.prose = retry_after, redirect, prose
        self.scheme = "https" if certificate else "http"
        if certificate:  # (certificate file, key file)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.requests, self.ended, self.busy, self.most_busy = [], 0, 0, 0
        self.guard, self.stopping = threading.Lock(), threading.Event()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self):
        return "%s://127.0.0.1:%d/v1" % (self.scheme, self.server_address[1])

    def note(self, handler, body):
        with self.guard:
            n = len(self.requests)
            self.requests.append({"path": handler.path, "at": time.monotonic(), "body": body,
                                  "headers": dict(handler.headers.items())})
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
            return self.fault if self.fault and (self.times is None or n < self.times) else None

    def note_end(self, body):
        with self.guard:
            self.ended += 1
            self.busy -= 1

    def handle_error(self, request, client_address):
        pass  # a client that went away is what the tests are about

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stopping.set()
        self.shutdown()
        self.server_close()


def main():
    parser = argparse.ArgumentParser(description="Chat Completions with one fault, on loopback.")
    parser.add_argument("--fault", choices=sorted(n[6:] for n in dir(Handler) if n.startswith("fault_")))
    parser.add_argument("--times", type=int, help="requests that get it before it heals")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default=KEY)
    args = parser.parse_args()
    with FaultServer(args.fault, args.times, key=args.key, port=args.port) as server:
        print(server.url, flush=True)
        try:
            server.thread.join()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
