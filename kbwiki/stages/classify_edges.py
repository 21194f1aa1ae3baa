"""classify-edges: each Edge gets one of the directed types, inside the database.

The work is `kb.classify_by_rules`; the rules are rows of `kb.edge_rule`.
"""

from kbwiki.stages.stage import Outcome, Services, Stage


def run(services: Services) -> Outcome:
    """Type the edges whose evidence or rules changed."""
    database = services.database
    with database.transaction():
        [counts] = database.dicts("classify_by_rules")
    types = ", ".join(f"{row['n']} {row['type']}" for row in database.dicts("count_edge_types"))
    return Outcome(n_done=counts["n_typed"] + counts["n_rejected"], note=types)


STAGE = Stage(name="classify-edges", run=run)
