"""link: an untyped Edge between two Concepts that meet in the sources, with its evidence.

They meet where one statement names both (a sentence, a claim, a relation that a model noted), and
where a Source about one links to the subject of another.

The work is one SQL function, `kb.link_concepts`.
"""

from kbwiki.stages.stage import Outcome, Services, Stage
from kbwiki.text.normal import counted

VERSION = "link-2"
MAX_NAMED = 12
"""A statement that names more concepts than this is a list and is no evidence."""
MAX_EVIDENCE = 5


def run(services: Services) -> Outcome:
    """Bring the edges to what the statements hold, if any mention changed."""
    database = services.database
    fingerprint = database.value("fingerprint_link", {"version": VERSION})
    if database.value("read_setting", {"name": "link"}) == fingerprint:
        return Outcome(note=counted(database.value("count_edges"), "edge"))
    with database.transaction():
        [counts] = database.dicts(
            "link_concepts", {"max_named": MAX_NAMED, "max_kept": MAX_EVIDENCE}
        )
        database.run("save_setting", {"name": "link", "value": fingerprint})
    note = counted(counts["n_edges"], "edge")
    note += ": {n_new} new, {n_changed} changed, {n_gone} gone".format(**counts)
    return Outcome(n_done=counts["n_new"] + counts["n_changed"] + counts["n_gone"], note=note)


STAGE = Stage(name="link", run=run)
