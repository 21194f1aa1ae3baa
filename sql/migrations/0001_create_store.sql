-- The store of a knowledge base. Each table names its one writer.
-- Offsets are characters, half-open, into source.text. Names are unique by their canonical key.

-- Writer: ingest. One row per distinct content.
create table kb.source (
    id          bigint generated always as identity primary key,
    sha256      text        not null unique,
    title       text        not null,
    authors     text[]      not null default '{}',
    year        int,
    dated       date,
    lang        text        not null,
    text        text        not null,
    structure   jsonb       not null,
    notes       text[]      not null default '{}',
    reader      text        not null,
    ingested_at timestamptz not null default now()
);

-- Writer: ingest. Where a source was found; the same bytes under two names are one source.
create table kb.source_uri (
    uri       text        primary key,
    source_id bigint      not null references kb.source on delete cascade,
    size      bigint      not null,
    mtime_ns  bigint      not null,
    seen_at   timestamptz not null default now()
);
create index source_uri_source on kb.source_uri (source_id);

-- Writer: ingest.
create table kb.chunk (
    id         bigint generated always as identity primary key,
    source_id  bigint not null references kb.source on delete cascade,
    ordinal    int    not null,
    start_at   int    not null,
    end_at     int    not null,
    page       int,
    headings   text[] not null,
    lang       text   not null,
    text       text   not null,
    text_sha   text   not null,
    n_lexemes  int    not null default 0,
    unique (source_id, ordinal)
);
create index chunk_text_sha on kb.chunk (text_sha);

-- Writer: ingest. The inverted index that BM25 reads.
create table kb.posting (
    lexeme   text     not null,
    chunk_id bigint   not null references kb.chunk on delete cascade,
    tf       smallint not null
);
create index posting_lexeme on kb.posting (lexeme) include (chunk_id, tf);
create index posting_chunk on kb.posting (chunk_id);

-- Writer: extract. What an engine read in a source; lemmas and offsets are its words for matching.
-- A new reading has a new reading_id: rows that hung on the old one are gone, even if the words are equal.
create table kb.extraction (
    source_id    bigint primary key references kb.source on delete cascade,
    reading_id   bigint generated always as identity,
    fingerprint  text   not null,
    engine       text   not null,
    title        text   not null,
    lang         text   not null,
    summary      text   not null,
    lemmas       text   not null,
    starts       int[]  not null,
    ends         int[]  not null,
    link_starts  int[]  not null,
    link_ends    int[]  not null
);

-- Writer: extract.
create table kb.candidate (
    source_id        bigint not null references kb.source on delete cascade,
    key              text   not null,
    name             text   not null,
    lang             text   not null,
    kind             text,
    signals          jsonb  not null,
    aliases          jsonb  not null,
    definition_start int,
    definition_end   int,
    primary key (source_id, key)
);

-- Writer: extract. A statement worth citing.
create table kb.claim (
    id        bigint generated always as identity primary key,
    source_id bigint not null references kb.source on delete cascade,
    ordinal   int    not null,
    start_at  int    not null,
    end_at    int    not null,
    text      text   not null,
    lang      text   not null,
    page      int,
    heading   text   not null,
    rank      real   not null check (rank between 0 and 1),
    unique (source_id, ordinal)
);

-- Writer: resolve. One row per concept; key is the canonical key of its title.
create table kb.concept (
    id               bigint generated always as identity primary key,
    key              text   not null unique,
    title            text   not null,
    slug             text   not null unique deferrable initially deferred,
    kind             text   not null,
    lang             text   not null,
    definition       text   not null,
    main_source_id   bigint references kb.source on delete set null,
    n_sources        int    not null,
    n_mentions       int    not null,
    input_sha        text   not null,
    search_text      text   not null,
    text_sha         text   not null
);
create index concept_text_sha on kb.concept (text_sha);

-- Writer: resolve. Every name of a concept.
create table kb.alias (
    concept_id bigint not null references kb.concept on delete cascade,
    key        text   not null,
    name       text   not null,
    lang       text   not null,
    kind       text   not null,
    primary key (concept_id, key)
);
create index alias_key on kb.alias (key);

-- Writer: resolve. A source's page: its title and slug are unique views of the source.
create table kb.source_page (
    source_id    bigint primary key references kb.source on delete cascade,
    key          text   not null unique deferrable initially deferred,
    title        text   not null,
    slug         text   not null unique deferrable initially deferred,
    mentions_sha text   not null,
    input_sha    text   not null
);

-- Writer: resolve.
create table kb.mention (
    concept_id bigint  not null references kb.concept on delete cascade,
    source_id  bigint  not null references kb.source on delete cascade,
    chunk_id   bigint  not null references kb.chunk on delete cascade,
    claim_id   bigint  references kb.claim on delete cascade,
    start_at   int     not null,
    end_at     int     not null,
    linked     boolean not null,
    defines    boolean not null,
    primary key (source_id, start_at)
);
create index mention_concept on kb.mention (concept_id);
create index mention_claim on kb.mention (claim_id);
create index mention_chunk on kb.mention (chunk_id);

-- Writer: write. A page about a concept or a source.
create table kb.article (
    id          bigint generated always as identity primary key,
    concept_id  bigint references kb.concept on delete cascade,
    source_id   bigint references kb.source on delete cascade,
    title       text   not null,
    lang        text   not null,
    summary     text   not null,
    body        text   not null,
    engine      text   not null,
    input_sha   text   not null,
    written_as  text   not null,
    search_text text   not null,
    text_sha    text   not null,
    written_at  timestamptz not null default now(),
    unique nulls not distinct (concept_id, source_id),
    check (num_nonnulls(concept_id, source_id) = 1)
);
create index article_source on kb.article (source_id);
create index article_text_sha on kb.article (text_sha);

-- Writer: write. A footnote: the exact words, and where they stand.
create table kb.citation (
    article_id bigint not null references kb.article on delete cascade,
    ordinal    int    not null,
    source_id  bigint not null references kb.source on delete cascade,
    start_at   int    not null,
    end_at     int    not null,
    quote      text   not null,
    page       int,
    primary key (article_id, ordinal)
);
create index citation_source on kb.citation (source_id);

-- Seed: sql/seed/edge_types.sql.
create table kb.edge_type (
    name          text    primary key,
    inverse       text    not null,
    is_symmetric  boolean not null,
    ordinal       int     not null unique,
    definition    text    not null,
    label_en      text    not null,
    label_ru      text    not null,
    inverse_en    text    not null,
    inverse_ru    text    not null
);

-- Seed: sql/seed/edge_rules.sql. A cue in the text between two mentions, or before the first of them.
-- backward: the edge runs from the second to the first. Kinds, where given, must be those of the ends. A rule
-- does not fire where "unless" matches the text before the first mention, a bar, and the text between.
create table kb.edge_rule (
    name       text    primary key,
    type       text    not null references kb.edge_type,
    lang       text    not null,
    scope      text    not null check (scope in ('between', 'before')),
    backward   boolean not null,
    weight     real    not null check (weight > 0 and weight <= 1),
    head_kinds text[],
    tail_kinds text[],
    pattern    text    not null,
    unless     text
);

-- Writer: link. One edge a pair of concepts; type and the columns after it belong to classify-edges.
create table kb.edge (
    id           bigint generated always as identity primary key,
    head_id      bigint not null references kb.concept on delete cascade,
    tail_id      bigint not null references kb.concept on delete cascade,
    evidence_sha text   not null,
    n_sources    int    not null,
    n_evidence   int    not null,
    type         text   references kb.edge_type,
    status       text   not null default 'pending' check (status in ('pending', 'typed', 'rejected')),
    confidence   real   check (confidence between 0 and 1),
    method       text   check (method in ('rule', 'llm', 'human')),
    rule         text,
    typed_sha    text,
    check (head_id <> tail_id)
);
create unique index edge_pair on kb.edge (least(head_id, tail_id), greatest(head_id, tail_id));
create index edge_head on kb.edge (head_id);
create index edge_tail on kb.edge (tail_id);

-- Writer: link. Why an edge stands: the statement that names both ends; offsets into the claim's text.
create table kb.edge_evidence (
    edge_id     bigint  not null references kb.edge on delete cascade,
    ordinal     int     not null,
    claim_id    bigint  not null references kb.claim on delete cascade,
    first_id    bigint  not null references kb.concept on delete cascade,
    first_start int     not null,
    first_end   int     not null,
    last_start  int     not null,
    last_end    int     not null,
    n_between   int     not null,
    primary key (edge_id, ordinal)
);
create index edge_evidence_claim on kb.edge_evidence (claim_id);

-- Writer: embed. One vector per text and model, so a text that comes back costs nothing.
-- More than 2,000 dimensions are kept as halfvec, which is what an index can hold.
create table kb.vector (
    model    text not null,
    text_sha text not null,
    v        vector,
    h        halfvec,
    primary key (model, text_sha),
    check (num_nonnulls(v, h) = 1)
);

-- Writer: export. What was written, for removing only what is ours.
create table kb.setting (
    name  text primary key,
    value text not null
);

-- Writer: pipeline.
create table kb.run (
    id         bigint generated always as identity primary key,
    stage      text        not null,
    started_at timestamptz not null default clock_timestamp(),
    ended_at   timestamptz,
    n_done     int         not null default 0,
    n_failed   int         not null default 0
);

-- Writer: pipeline. An item that failed, until it succeeds.
create table kb.attempt (
    stage     text        not null,
    item      text        not null,
    reason    text        not null,
    hint      text        not null default '',
    n_tries   int         not null default 1,
    failed_at timestamptz not null default clock_timestamp(),
    primary key (stage, item)
);

-- Writer: pipeline. Who works on an item, and until when the claim holds.
create table kb.lease (
    stage      text        not null,
    item       text        not null,
    owner      text        not null,
    expires_at timestamptz not null,
    primary key (stage, item)
);
