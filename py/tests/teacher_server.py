"""A completions server over a real HTTP socket, with a model behind it, that fails on request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch


class TeacherServer:
    """vLLM's /v1/models, /v1/completions with prompt_logprobs, and /tokenize, as far as a teacher needs them.

    `plan` holds what happens to the next completions, first come first served: None (a good answer), a number (that
    HTTP status), or a function (handler, answer) that writes to the socket itself. `drop(place)`: the entry at a place
    of the prompt is null. `change(answer)`: what is answered instead. `form`: "prompt_logprobs", "echo", or "none".
    """

    def __init__(self, model: Any, tokenizer: Any, name: str = "teacher"):
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.plan: list[Any] = []
        self.drop: Callable[[int], bool] = lambda place: False
        self.change: Callable[[dict], dict] = lambda answer: answer
        self.form = "prompt_logprobs"
        self.has_tokenize = True
        self.max_model_len = 4096
        self.headers: dict[str, str] = {}
        self.requests: list[tuple[str, dict, str | None]] = []  # path, body, authorization
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                entry = {"id": stub.name, "max_model_len": stub.max_model_len}
                self.answer(200, {"data": [entry]} if self.path.endswith("/models") else {})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with stub._lock:
                    stub.requests.append((self.path, body, self.headers["authorization"]))
                    step = stub.plan.pop(0) if self.path.endswith("/completions") and stub.plan else None
                if self.path == "/tokenize":
                    return self.tokenize(body)
                if isinstance(step, int):
                    said = f"status {step} for {self.headers['authorization']}"
                    return self.answer(step, {"error": {"message": said}}, stub.headers)
                answer = stub.change(stub.completion(body))
                return step(self, answer) if step else self.answer(200, answer)

            def tokenize(self, body):
                if not stub.has_tokenize:
                    return self.answer(404, {"detail": "Not Found"})
                ids = stub.tokenizer.encode(body["prompt"], add_special_tokens=False)
                return self.answer(200, {"tokens": ids, "count": len(ids), "max_model_len": stub.max_model_len})

            def answer(self, status, value, headers=None):
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                for name, text in (headers or {}).items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> TeacherServer:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """After it nobody listens at the port."""
        self.server.shutdown()
        self.server.server_close()

    def spec(self, **changes: Any) -> dict[str, Any]:
        """The request's `teacher`."""
        return {
            "kind": "api",
            "base_url": f"http://127.0.0.1:{self.port}/v1",
            "query": "",
            "model": self.name,
            "tokenizer": None,
            "trust_tokenizer": False,
            "max_retries": 2,
            "timeout_s": 5,
            "parallel": 2,
            **changes,
        }

    def logprobs(self, ids: list[int]) -> torch.Tensor:
        """(len(ids) − 1, V): of each token but the first, given those before it."""
        with torch.no_grad(), self._lock:
            return torch.log_softmax(self.model(torch.tensor([ids])).logits[0, :-1], -1)

    def completion(self, body: dict) -> dict:
        ids = body["prompt"]
        table = self.logprobs(ids)
        entries: list[Any] = [None]
        for place, token in enumerate(ids[1:], start=1):
            row = table[place - 1]
            best = int(row.argmax())
            # The most probable token first, as vLLM has it: the sampled one is often the second.
            entry = {str(each): {"logprob": row[each].item(), "rank": 1} for each in dict.fromkeys((best, token))}
            entries.append(None if self.drop(place) else entry)
        choice: dict[str, Any] = {"index": 0, "text": "x", "prompt_logprobs": None, "logprobs": None}
        if self.form == "prompt_logprobs" and "prompt_logprobs" in body:
            choice["prompt_logprobs"] = entries
        if self.form == "echo" and body.get("echo"):
            numbers = [each and each[str(token)]["logprob"] for each, token in zip(entries, ids, strict=True)]
            choice["logprobs"] = {"tokens": ["?"] * (len(ids) + 1), "token_logprobs": [*numbers, -0.5]}
        return {"choices": [choice], "usage": {"prompt_tokens": len(ids)}}
