-- Writer: the command split; resolve keeps place and bytes up as files move and change. In this file a name, by lemma
-- key, means another thing than elsewhere: what title says, or, where that is empty, no other thing.
create table kb.split (
    id         bigint generated always as identity primary key,
    name       text        not null,
    name_title text        not null,
    title      text        not null,
    uri        text        not null,
    sha256     text        not null,
    decided_at timestamptz not null default now()
);

-- Writer: resolve. A concept whose sources have nothing in common may be two things of one name; uris are those of
-- the fewer sources.
create table kb.homonym (
    concept_key text   not null,
    title       text   not null,
    uris        text[] not null,
    reason      text   not null,
    primary key (concept_key, uris)
);
