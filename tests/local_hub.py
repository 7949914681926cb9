"""A small hub on localhost: enough of the Hugging Face API for data sets, models and single files."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Handler(http.server.BaseHTTPRequestHandler):
    """Repositories with one commit, which is also `main`; `gated` ones refuse every request."""

    server: LocalHub

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = path.strip("/").split("/")
        if parts[0] == "api":  # of data sets, or models
            self._api("/".join(parts[2:4]), parts[4:], body)
        elif "resolve" in parts:
            place = parts.index("resolve")
            self._file("/".join(parts[place - 2 : place]), parts[place + 1], "/".join(parts[place + 2 :]))
        else:
            self._send(404, b"", {})

    do_POST = do_HEAD = do_GET

    def _refused(self, repo: str, revision: str) -> bool:
        if repo in self.server.gated:
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
        elif repo not in self.server.repositories:
            self._send(401, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif revision not in ("main", COMMIT):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"No {revision}"})
        else:
            return False
        return True

    def _api(self, repo: str, rest: list[str], body: bytes) -> None:
        verb = rest[0] if rest else "info"
        revision = rest[1] if len(rest) > 1 else "main"
        if self._refused(repo, revision):
            return
        entries = []
        for name, content in self.server.repositories[repo].items():
            entries.append(
                {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            )
        if verb in ("info", "revision"):
            siblings = [{**entry, "rfilename": entry["path"], "blobId": entry["oid"]} for entry in entries]
            self._json({"id": repo, "sha": COMMIT, "private": False, "gated": False, "tags": [], "siblings": siblings})
            return
        if verb == "paths-info":
            wanted = json.loads(body)["paths"]
            entries = [entry for entry in entries if entry["path"] in wanted]
        elif rest[2:]:  # a folder of the tree: these repositories have none
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        self._json(entries)

    def _file(self, repo: str, revision: str, name: str) -> None:
        if self._refused(repo, revision):
            return
        content = self.server.repositories[repo].get(name)
        if content is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            return
        etag = hashlib.sha256(content).hexdigest()
        self._send(200, content, {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'})

    def _json(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Tests print nothing."""


class LocalHub(http.server.ThreadingHTTPServer):
    """A hub that serves `repositories` (id -> file -> bytes), and a process that reads from it."""

    daemon_threads = True

    def __init__(self, home: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.requests: list[str] = []
        self.home = home
        self.address = f"http://127.0.0.1:{self.server_port}"

    def run(self, code: str, **variables: str) -> str:
        """What `code` prints in a fresh Python that has this hub as HF_ENDPOINT, and an empty cache at first."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        environment |= {
            "HF_ENDPOINT": self.address,
            "HF_HOME": str(self.home),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def running_hub(home: Path) -> Iterator[LocalHub]:
    """A LocalHub without repositories."""
    server = LocalHub(home)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
