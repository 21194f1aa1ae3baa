"""Settings: what a person may set, where each value came from, and where a knowledge base lies.

Flag > environment (``KBWIKI_*``) > ``.env`` > default. Read only by cli.py and server/; below them
plain arguments travel.
"""

import os
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_path
from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from kbwiki.errors import ConfigError

HOME_NAME = ".kbwiki"


class Settings(BaseSettings):
    """Every setting, with its one line of help."""

    model_config = SettingsConfigDict(
        env_prefix="KBWIKI_", extra="ignore", frozen=True, env_ignore_empty=True
    )

    database_url: SecretStr | None = Field(
        None, description="Postgres >= 15 with pgvector >= 0.7 to use instead of the embedded one."
    )
    engine: Literal["auto", "local", "gemini", "openai"] = Field(
        "auto",
        description="Who reads and writes: local (no model), gemini, openai; "
        "auto: gemini if it has a key, else local.",
    )
    model: str = Field(
        "", description="Language model; empty: gemini-flash-lite-latest for gemini."
    )
    gemini_api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("KBWIKI_GEMINI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
        description="Key of the Gemini API; GEMINI_API_KEY and GOOGLE_API_KEY count too.",
    )
    gemini_base_url: str = Field("", description="Another address of the Gemini API.")
    vertex_project: str = Field("", description="Google Cloud project, for Gemini on Vertex AI.")
    vertex_location: str = Field("global", description="Location, for Gemini on Vertex AI.")
    openai_base_url: str = Field(
        "", description="Address of any OpenAI-compatible server, such as Ollama or vLLM."
    )
    openai_api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("KBWIKI_OPENAI_API_KEY", "OPENAI_API_KEY"),
        description="Key of that server; OPENAI_API_KEY counts too.",
    )
    concurrency: int = Field(8, ge=1, le=64, description="Calls to a language model at a time.")
    daily_usd: float | None = Field(
        None, ge=0, description="Dollars that all runs of a day may spend together."
    )
    embedder: str = Field(
        "e5-small", description="Embedding model: e5-small (bundled), or st:NAME_OR_PATH."
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


def load_settings(env_file: Path | None = None, **flags: object) -> Settings:
    """Return the settings; a flag that is None does not count. ConfigError for a bad value.

    ``env_file`` is the knowledge base's own ``.env``, so that it holds in every folder below.
    """
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**{"_env_file": env_file, **given})
    except UnicodeDecodeError as error:
        raise ConfigError(f"{env_file}: it is no UTF-8 text.", "Save it as UTF-8.") from error
    except ValidationError as error:
        first = error.errors()[0]
        name = "KBWIKI_" + str(first["loc"][0]).upper().removeprefix("KBWIKI_")
        raise ConfigError(f"{name}: {first['msg']}.", "See `kbwiki config`.") from error


def describe_settings(settings: Settings) -> list[dict[str, str]]:
    """Return name, value, origin and help of each setting; secrets are masked."""
    out: list[dict[str, str]] = []
    present = {key.upper() for key, value in os.environ.items() if value}
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        variable = f"KBWIKI_{name.upper()}"
        if _variables(name, field) & present:
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


def _variables(name: str, field: FieldInfo) -> set[str]:
    """Return the environment variables that set a field."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return {str(choice) for choice in alias.choices}
    return {f"KBWIKI_{name.upper()}"}


def find_home(start: Path) -> Path | None:
    """Return the ``.kbwiki`` folder of ``start`` or of the nearest folder above it."""
    for folder in (start, *start.parents):
        if (folder / HOME_NAME).is_dir():
            return folder / HOME_NAME
    return None
