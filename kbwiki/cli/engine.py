"""Which engine reads and writes, and the ledger of what it costs."""

from threading import Event

from kbwiki.cli.console import notice
from kbwiki.cli.store import Place
from kbwiki.config import Settings
from kbwiki.db import Database, connect
from kbwiki.engines import Engine
from kbwiki.engines.chat import GEMINI_MODEL, Chat, make_chat
from kbwiki.engines.late import LateChat
from kbwiki.engines.llm import LlmEngine
from kbwiki.engines.local import LocalEngine
from kbwiki.errors import ConfigError
from kbwiki.ledger import Ledger


def engine_name(settings: Settings) -> str:
    """Return the engine that the settings mean: ``auto`` is Gemini where it has a key."""
    if settings.engine != "auto":
        return settings.engine
    return "gemini" if settings.gemini_api_key or settings.vertex_project else "local"


def open_engine(
    place: Place, url: str, max_usd: float | None, stop: Event
) -> tuple[Engine, Ledger | None]:
    """Return the engine of the settings, and its ledger if its answers cost money.

    ``stop``, once set, ends every wait for a model.
    """
    settings = place.settings
    name = engine_name(settings)
    if name == "local":
        return LocalEngine(), None
    ledger = Ledger(lambda: connect(url, "kbwiki ledger"), max_usd, settings.daily_usd)
    model = settings.model or (GEMINI_MODEL if name == "gemini" else "")
    chat = LateChat(name, model, lambda: _open_chat(settings, name, stop))
    return LlmEngine(chat, ledger), ledger


def check_engine(settings: Settings, database: Database) -> None:
    """Raise ConfigError where a key is missing that the pages of the store were written with.

    Else a run in a shell without the key would replace what a model wrote, unasked.
    """
    if settings.engine != "auto" or engine_name(settings) != "local":
        return
    written = database.value("find_model_page")
    if written:
        raise ConfigError(
            f"engine: {written} wrote pages of this store, and there is no key for a model.",
            "Set GEMINI_API_KEY to go on, or KBWIKI_ENGINE=local to rewrite them without a model.",
        )


def _open_chat(settings: Settings, name: str, stop: Event) -> Chat:
    if name == "openai":
        if not settings.model:
            raise ConfigError("engine: openai needs the name of a model.", "Set KBWIKI_MODEL.")
        key = settings.openai_api_key
        return make_chat(
            name,
            settings.model,
            key=key.get_secret_value() if key else "",
            base_url=settings.openai_base_url,
            stop=stop,
            on_notice=notice,
        )
    gemini_key = settings.gemini_api_key
    return make_chat(
        name,
        settings.model,
        key=gemini_key.get_secret_value() if gemini_key else "",
        base_url=settings.gemini_base_url,
        project=settings.vertex_project,
        location=settings.vertex_location if settings.vertex_project else "",
        stop=stop,
        on_notice=notice,
    )
