"""A host with a small environment in Python, behind the real codec: what trainers can be tested with alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trainers.wire import Host, decode, encode


@dataclass
class FakeEpisode:
    task_id: str
    seed: int
    trial: int
    replies: list[str] = field(default_factory=list)


class FakeHost(Host):
    """Plays episodes of `max_turns` turns: the prompt says the task, each reply is answered by `observation`.

    `reward(episode)` scores one; None makes the rollout invalid. An episode of which `finishes(episode)` is true after
    a reply ends by `terminated`, else the turns run out. `stop_at_step`: asks to stop with the log of that step.
    """

    def __init__(
        self,
        reward: Callable[[FakeEpisode], float | None] = lambda episode: len(episode.replies[0]) % 3 / 2,
        finishes: Callable[[FakeEpisode], bool] = lambda episode: len(episode.replies) == 2,
        max_turns: int = 2,
        observation: str = "go on",
        fails_at_reset: Callable[[FakeEpisode], bool] = lambda episode: False,
        stop_at_step: int | None = None,
        reward_weights: dict[str, float] | None = None,
    ):
        super().__init__(self._serve)
        self.reward, self.finishes, self.max_turns, self.observation = reward, finishes, max_turns, observation
        self.fails_at_reset, self.stop_at_step = fails_at_reset, stop_at_step
        self.reward_weights = reward_weights or {}
        self.episodes: dict[int, FakeEpisode] = {}
        self.open: set[int] = set()
        self.starts: list[dict] = []
        self.finished: list[dict] = []
        self.logs: list[dict] = []
        self.notes: list[str] = []

    def _serve(self, op: str, text: str, _round_trip_ms: float) -> str:
        payload = decode(text)
        result = getattr(self, f"_{op}")(payload)
        return encode({"ok": True, "result": result, "handler_ms": 0.01, "stop": self._wants_stop()})

    def _wants_stop(self) -> bool:
        return self.stop_at_step is not None and any(log["step"] >= self.stop_at_step for log in self.logs)

    def _start(self, payload: dict) -> dict:
        self.starts.append(payload)
        answers = []
        for request in payload["episodes"]:
            handle = len(self.episodes)
            self.episodes[handle] = episode = FakeEpisode(request["task_id"], request["seed"], request["trial"])
            self.open.add(handle)
            failed = self.fails_at_reset(episode)
            messages = [] if failed else prompt_of(episode.task_id)
            answers.append({"handle": handle, "messages": messages, "done": failed, "max_turns": self.max_turns})
        return {"episodes": answers}

    def _checkpoint(self, payload: dict) -> dict:
        return {"step": payload["step"], "logs": {}, "counters": {}}

    def _step(self, payload: dict) -> dict:
        answers = []
        for request in payload["episodes"]:
            episode = self.episodes[request["handle"]]
            episode.replies.append(request["reply"])
            ended_by = self._ended_by(episode)
            observations = [] if ended_by else [{"role": "user", "content": self.observation}]
            answers.append({"observations": observations, "done": ended_by is not None, "ended_by": ended_by})
        return {"episodes": answers}

    def _ended_by(self, episode: FakeEpisode) -> str | None:
        if self.finishes(episode):
            return "terminated"
        return "truncated" if len(episode.replies) >= self.max_turns else None

    def _finish(self, payload: dict) -> dict:
        answers = []
        for request in payload["episodes"]:
            self.open.remove(request["handle"])  # KeyError: finished twice
            episode = self.episodes[request["handle"]]
            failed = self.fails_at_reset(episode)
            reward = None if failed else self.reward(episode)
            cut = request["ended"]
            ended_by = "error" if reward is None else cut["by"] if cut else self._ended_by(episode) or "truncated"
            answer: dict[str, Any] = {
                "reward": reward,
                "parts": {"length": reward, "style": None},
                "metrics": {} if reward is None else self._metrics(),
                "success": reward == 1,
                "ended_by": ended_by,
                "ended_why": cut["why"] if cut else "turns" if ended_by == "truncated" else None,
            }
            self.finished.append({"episode": episode, "tokens": request["tokens"], **answer})
            answers.append(answer)
        return {"episodes": answers}

    def _metrics(self) -> dict[str, Any]:
        weights = {f"reward_weights/{name}": weight for name, weight in self.reward_weights.items()}
        return {"parse_error_rate": 0.5, "tool_error_rate": 0.25, "strict": False, "reason": "text", **weights}

    def _log(self, payload: dict) -> dict:
        self.logs.append(payload)
        return {}

    def _note(self, payload: dict) -> dict:
        self.notes.append(payload["text"])
        return {}


def prompt_of(task_id: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Be short."}, {"role": "user", "content": f"Task {task_id}."}]
