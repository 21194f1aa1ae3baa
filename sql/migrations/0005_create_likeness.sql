-- Writer: resolve. The vector of a name, as little-endian floats: kept, for names come back at each run.
create table kb.name_vector (
    model text  not null,
    name  text  not null,
    v     bytea not null,
    primary key (model, name)
);

-- Writer: resolve. What an engine said of two concepts as they were described to it; null: it could not tell.
create table kb.verdict (
    pair_sha text        primary key,
    engine   text        not null,
    same     boolean,
    asked_at timestamptz not null default now()
);

-- Writer: resolve. Pairs that no text joins and that are alike: made one, told apart by an engine, or left to a
-- person. Keys are those of the concepts; of a merged pair, what they were before.
create table kb.likeness (
    first_key    text not null,
    second_key   text not null,
    first_title  text not null,
    second_title text not null,
    band         text not null check (band in ('form', 'meaning', 'engine')),
    status       text not null check (status in ('merged', 'doubtful', 'apart')),
    score        real not null check (score between 0 and 1),
    reason       text not null,
    primary key (first_key, second_key),
    check (first_key <> second_key)
);
