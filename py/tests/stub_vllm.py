"""A vLLM server in miniature: the endpoints that we and TRL's client ask, over real HTTP, with faults on request.

What it samples from is a model of the test's, by the rule of `sampling.draw`: the numbers that belong to a request's
seed are looked up in `uniforms`, where `noting_seeds` puts those of each turn.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import torch
from trainers.sampling import SamplingParams, draw, sampling_mode
from trainers.vllm_sampler import VllmSampler, seed_of

SETTINGS = {"weight_transfer_config": {"backend": "nccl"}, "model_config": {"logprobs_mode": "processed_logprobs"}}


class StubServer:
    """Serves `model` under `name` until the block ends; `fault(path, payload)` may answer in its place."""

    def __init__(self, model: Any, name: str = "tiny", *, tokenizer: Any = None, max_model_len: int = 4096) -> None:
        self.model, self.name, self.tokenizer, self.max_model_len = model, name, tokenizer, max_model_len
        self.settings: dict | None = SETTINGS  # None: no development endpoints
        self.uniforms: dict[int, np.ndarray] = {}
        self.requests: list[dict] = []
        self.updates = 0
        # (status, JSON or text), or None for the usual answer. A float instead: seconds of silence before it.
        self.fault: Callable[[str, dict | None], Any] = lambda path, payload: None
        self._lock = threading.Lock()

    def __enter__(self) -> StubServer:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self._answer(json.loads(self.rfile.read(length) or b"{}"))

            def _answer(self, payload: dict | None) -> None:
                status, body = stub.answer(self.path.partition("?")[0], payload)
                text = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:  # the client has gone
                    pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def stop(self) -> None:
        """As if it was killed: connections are refused from now on."""
        self.http.shutdown()
        self.http.server_close()

    def answer(self, path: str, payload: dict | None) -> tuple[int, Any]:
        fault = self.fault(path, payload)
        if isinstance(fault, float):
            time.sleep(fault)
        elif fault is not None:
            return fault
        if path == "/v1/completions":
            with self._lock:
                self.requests.append(payload)
                return 200, self._complete(payload)
        if path == "/health":
            return 200, ""
        if path == "/v1/models":
            return 200, {"data": [{"id": self.name, "root": self.name, "max_model_len": self.max_model_len}]}
        if path == "/get_world_size":
            return 200, {"world_size": 1}
        if path == "/server_info" and self.settings is not None:
            return 200, {"vllm_config": self.settings}
        if path in ("/start_weight_update", "/update_weights", "/finish_weight_update", "/reset_prefix_cache"):
            self.updates += path == "/finish_weight_update"
            return 200, {"success": True}
        return 404, {"detail": "Not Found"}

    def _complete(self, payload: dict) -> dict:
        [context] = payload["prompt"]
        if len(context) + payload["max_tokens"] > self.max_model_len:
            raise AssertionError("a real server refuses this")
        params = SamplingParams(0, *(payload[name] for name in ("temperature", "top_p", "top_k", "min_p")))
        ids, logprobs = [], []
        with torch.no_grad(), sampling_mode(self.model):
            for uniform in self.uniforms[payload["seed"]][: payload["max_tokens"]]:
                logits = self.model(input_ids=torch.tensor([context + ids])).logits[:, -1]
                drawn, logprob = draw(logits, torch.tensor([uniform], dtype=torch.float64), params)
                ids.append(int(drawn))
                logprobs.append(float(logprob))
                text = self.tokenizer.decode(ids) if payload.get("stop") else ""
                if ids[-1] in payload["stop_token_ids"] or any(stop in text for stop in payload.get("stop", [])):
                    break
        names = [f"token_id:{token_id}" for token_id in ids]
        tops = [{name: value} for name, value in zip(names, logprobs, strict=True)]
        given = {"tokens": names, "token_logprobs": logprobs, "top_logprobs": tops}
        return {"choices": [{"index": 0, "token_ids": ids, "prompt_token_ids": context, "logprobs": given}]}


@contextmanager
def noting_seeds(server: StubServer) -> Iterator[None]:
    """Lets the server know which random numbers a seed stands for."""
    original = VllmSampler.turn

    def turn(self: VllmSampler, rows: Any, contexts: Any, budgets: Any, uniforms: np.ndarray) -> Any:
        server.uniforms |= {seed_of(row): row for row in uniforms}
        return original(self, rows, contexts, budgets, uniforms)

    VllmSampler.turn = turn
    try:
        yield
    finally:
        VllmSampler.turn = original
