"""The Hugging Face hub and other homes of weights: what is kept here first, then a quick look whether they answer."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tg_crepe._optional import require

#: Seconds that a home of weights has to answer at all; libraries by themselves try again for a minute.
_PATIENCE = 5.0

#: Where the hub is; a mirror has the variable that its library reads.
HUB = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def answers(url: str, patience: float = _PATIENCE) -> bool:
    """Whether the server of an address answers within some seconds; a proxy of the environment is used."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    found: list[bool] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=patience):
                found.append(True)
        except urllib.error.HTTPError:
            found.append(True)  # an answer, if not the one that was hoped for
        except (OSError, ValueError):
            found.append(False)

    # In a thread: looking up a name may take longer than any timeout of a connection.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(patience)
    return bool(found and found[0])


def kept_file(repo: str, names: Sequence[str]) -> Path | None:
    """The first of some files of a repository that is in the hub's cache."""
    hub = require("huggingface_hub", extra="embed")
    for name in names:
        found = hub.try_to_load_from_cache(repo, name)
        if isinstance(found, str):
            return Path(found)
    return None


def fetch_file(repo: str, names: Sequence[str]) -> Path | None:
    """The first of some files of a repository, from the hub; None where the repository has none of them."""
    hub = require("huggingface_hub", extra="embed")
    errors = require("huggingface_hub.errors", extra="embed")
    for name in names:
        try:
            return Path(hub.hf_hub_download(repo, name))
        except (errors.EntryNotFoundError, errors.RepositoryNotFoundError):
            continue
        except Exception as error:  # what the network does to a download has many names
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise OSError(f"'{name}' of '{repo}' could not be fetched from {HUB} ({reason})") from error
    return None


def hub_cache() -> str:
    """Where the hub keeps what it has fetched, for a message."""
    return str(require("huggingface_hub.constants", extra="embed").HF_HUB_CACHE)
