"""Chat templates that a run takes in place of the model's own: ours by name, a user's by its file."""

from __future__ import annotations

from pathlib import Path

from trainers.sources import UserError

SHIPPED = Path(__file__).parent / "templates"


def read_template(chat_template: str) -> str:
    """The Jinja text of `chat_template`: the name of a shipped one, as "hermes", or the path of a .jinja file."""
    shipped = {path.stem: path for path in sorted(SHIPPED.glob("*.jinja"))}
    path = shipped.get(chat_template, Path(chat_template))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else error
        raise UserError(
            f"chat_template is '{chat_template}': {why}. Expected {', '.join(shipped)}, or the path of a .jinja file."
        ) from error
    if not text.strip():
        raise UserError(f"chat_template is '{chat_template}', an empty file; expected a Jinja chat template.")
    return text


def template_kwargs(request: dict) -> dict:
    """`request["chat_template_kwargs"]`, with the text that `request["chat_template"]` names as its `chat_template`."""
    kwargs = dict(request.get("chat_template_kwargs") or {})
    chosen = request.get("chat_template")
    if chosen is None:
        return kwargs
    if "chat_template" in kwargs:
        raise UserError(
            f"chat_template is '{chosen}', and chat_template_kwargs has a chat_template too. Leave one of them out."
        )
    return {**kwargs, "chat_template": read_template(chosen)}
