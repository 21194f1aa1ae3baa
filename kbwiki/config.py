"""Settings: what a person may set, where each value came from, and where a knowledge base lies.

Flag > environment (``KBWIKI_*``) > ``.env`` > default. Read only by cli.py and server/; below them
plain arguments travel.
"""

import os
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_path
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from kbwiki.errors import ConfigError

HOME_NAME = ".kbwiki"


class Settings(BaseSettings):
    """Every setting, with its one line of help."""

    model_config = SettingsConfigDict(
        env_prefix="KBWIKI_", env_file=".env", extra="ignore", frozen=True
    )

    database_url: SecretStr | None = Field(
        None, description="Postgres >= 15 with pgvector >= 0.7 to use instead of the embedded one."
    )
    engine: str = Field("auto", description="Who reads and writes: auto or local.")
    embedder: str = Field(
        "e5-small",
        description="Embedding model: e5-small (bundled), or st:NAME_OR_PATH.",
    )
    wiki_dir: Path = Field(
        Path("wiki"), description="Folder for the exported wiki, from the knowledge base's root."
    )
    lang: Literal["auto", "en", "ru"] = Field(
        "auto", description="Language of pages: auto (that of most evidence), en or ru."
    )
    jobs: int = Field(0, ge=0, le=64, description="Parallel workers; 0 means one for each core.")
    max_file_mb: float = Field(50, gt=0, description="A larger file is refused.")
    idle_minutes: float = Field(
        15,
        ge=0,
        description="The embedded server stops after so many minutes without a client; 0: never.",
    )
    cache_dir: Path = Field(
        default_factory=lambda: user_cache_path("kbwiki"),
        description="Folder for models made once per user.",
    )


def load_settings(**flags: object) -> Settings:
    """Return the settings; a flag that is None does not count. Raises ConfigError for a bad value."""
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = "KBWIKI_" + str(first["loc"][0]).upper()
        raise ConfigError(f"{name}: {first['msg']}.", "See `kbwiki config`.") from error


def describe_settings(settings: Settings, flags: set[str]) -> list[dict[str, str]]:
    """Return name, value, origin and help of each setting; secrets are masked."""
    out: list[dict[str, str]] = []
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        variable = f"KBWIKI_{name.upper()}"
        if name in flags:
            origin = "flag"
        elif variable in {key.upper() for key in os.environ}:
            origin = "environment"
        else:
            origin = ".env" if name in settings.model_fields_set else "default"
        out.append(
            {
                "name": variable,
                "value": "" if value is None else str(value),
                "origin": origin,
                "help": field.description or "",
            }
        )
    return out


def find_home(start: Path) -> Path | None:
    """Return the ``.kbwiki`` folder of ``start`` or of the nearest folder above it."""
    for folder in (start, *start.parents):
        if (folder / HOME_NAME).is_dir():
            return folder / HOME_NAME
    return None
