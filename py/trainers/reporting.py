"""Report backends: which there are, whether they can work here, and where they write. transformers' integrations do
the reporting."""

import netrc
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

# Each with the packages that make it work, one of them is enough.
BACKENDS = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "wandb": ("wandb",),
    "trackio": ("trackio",),
    "swanlab": ("swanlab",),
}
# Where a backend's files go if the user has not said otherwise: the variable it reads, and the folder in the run's.
_FOLDERS = {
    "tensorboard": ("TENSORBOARD_LOGGING_DIR", "tensorboard"),
    "wandb": ("WANDB_DIR", "."),  # it makes a folder `wandb` there
    "swanlab": ("SWANLAB_LOG_DIR", "swanlog"),
}
_USERS_OWN = {variable: os.environ.get(variable) for variable, _ in _FOLDERS.values()}


def report_problems(trainer: dict[str, Any]) -> list[str]:
    """Every backend of `trainer.report_to` must be known, installed, and able to begin without asking for a login."""
    report_to = trainer.get("report_to")
    names = _names(report_to)
    if len(names) > 1 and (alone := [name for name in names if name in ("none", "auto")]):
        return [f"trainer.report_to has '{alone[0]}' beside others ({', '.join(names)}); leave it out."]
    if names in (["none"], ["auto"], []):
        return []
    problems = []
    for name in names:
        if name not in BACKENDS:
            known = ", ".join(["none", "auto", *BACKENDS])
            problems.append(f"trainer.report_to is '{name}'; expected one of {known}, or several of them.")
        elif not _is_installed(name):
            problems.append(f"trainer.report_to is '{name}', which is not installed: pip install {name}.")
        elif problem := _login_problem(name, trainer):
            problems.append(f"trainer.report_to is '{name}': {problem}")
    return problems


def reporting_arguments(request: dict) -> dict[str, Any]:
    """Keys of TRL's config class for `request["trainer"]`: its backends and the run's name there.

    The backends' files go to the run folder, unless the user's environment says where.
    """
    given, folder = request["trainer"], Path(request["output_dir"])
    names = _names(given.get("report_to"))
    if names == ["auto"]:
        names = [name for name in BACKENDS if _is_installed(name) and _login_problem(name, given) is None]
    for name, (variable, inner) in _FOLDERS.items():
        if name in names:
            os.environ[variable] = _USERS_OWN[variable] or str(folder / inner)
    return {"report_to": names or ["none"], "run_name": given.get("run_name") or folder.name}


def _names(report_to: Any) -> list[str]:
    """null, a name, a list of them, or several with commas between."""
    if report_to is None:
        return []
    return [name.strip() for name in (report_to.split(",") if isinstance(report_to, str) else report_to)]


def _is_installed(name: str) -> bool:
    return any(find_spec(package) is not None for package in BACKENDS[name])


def _login_problem(name: str, trainer: dict[str, Any]) -> str | None:
    """Why a backend would ask for a login, or fail for want of one, in the middle of the run; None: it will not."""
    if name == "wandb":
        offline = os.environ.get("WANDB_MODE", "").lower() in ("offline", "disabled", "dryrun")
        host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
        files = [os.environ.get("NETRC"), Path.home() / ".netrc", Path.home() / "_netrc"]
        if offline or os.environ.get("WANDB_API_KEY") or _netrc_knows(files, host):
            return None
        return (
            "nobody is logged in to it here. Run `wandb login`, set WANDB_API_KEY, or set WANDB_MODE=offline and "
            "sync later."
        )
    if name == "swanlab":
        offline = os.environ.get("SWANLAB_MODE", "").lower() in ("local", "offline", "disabled")
        folder = Path(os.environ.get("SWANLAB_SAVE_DIR") or Path.home() / ".swanlab")
        if offline or os.environ.get("SWANLAB_API_KEY") or (folder / ".netrc").is_file():
            return None
        return (
            "nobody is logged in to it here. Run `swanlab login`, set SWANLAB_API_KEY, or set SWANLAB_MODE=offline "
            "to keep the logs in the run folder."
        )
    if name == "trackio" and trainer.get("trackio_space_id"):
        from huggingface_hub import get_token

        if get_token() is None:
            return (
                f"trackio_space_id is '{trainer['trackio_space_id']}', which needs a login to the hub. Run "
                "`hf auth login`, or leave trackio_space_id out: then it logs to this machine."
            )
    return None


def _netrc_knows(files: list[Any], host: str) -> bool:
    for file in files:
        if file is None or not Path(file).expanduser().is_file():
            continue
        try:
            if netrc.netrc(str(Path(file).expanduser())).authenticators(host) is not None:
                return True
        except (netrc.NetrcParseError, OSError):
            continue  # wandb could not read it either
    return False
