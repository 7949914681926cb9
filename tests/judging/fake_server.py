"""An OpenAI-compatible judge for faults and determinism: `python fake_server.py PORT_FILE LOG [FAULTS]`.

Its verdict is a function of the prompt alone. Every request that it answers is appended to LOG, a line each.
FAULTS is a JSON object from a text that a prompt contains to what goes wrong with it: "500", "401", "404", "empty",
"malformed" or "html".
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DELAY = 0.01


def verdict(prompt: str) -> str:
    return ("1", "2", "Tie")[hashlib.sha256(prompt.encode()).digest()[0] % 3]


def main() -> None:
    port_file, log = Path(sys.argv[1]), Path(sys.argv[2])
    faults: dict[str, str] = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            # A judge that was killed hangs up in the middle of a reply.
            with contextlib.suppress(ConnectionError):
                super().handle()

        def log_message(self, *_args: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
            time.sleep(DELAY)
            fault = next((kind for text, kind in faults.items() if text in prompt), None)
            with log.open("a") as file:
                file.write(json.dumps({"path": self.path, "fault": fault, "body": body}) + "\n")
            if fault in ("500", "401", "404"):
                return self.send(int(fault), json.dumps({"error": {"message": f"no: {self.headers['Authorization']}"}}))
            if fault == "html":
                return self.send(200, "<html>Bad gateway</html>", "text/html")
            if fault == "malformed":
                return self.send(200, '{"choices": [{')
            text = f"{verdict(prompt)}\n### Reason: so\n### Reference: none"
            choice = {
                "index": 0,
                "finish_reason": "stop",
                "text": text,
                "message": {"role": "assistant", "content": text},
            }
            reply = {
                "id": "x", "object": "completion", "created": 0, "model": body["model"],
                "choices": [] if fault == "empty" else [choice],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }  # fmt: skip
            self.send(200, json.dumps(reply))

        def send(self, status: int, text: str, kind: str = "application/json") -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    temporary = port_file.with_suffix(".part")
    temporary.write_text(str(server.server_port))
    temporary.rename(port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
