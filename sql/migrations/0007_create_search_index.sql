-- One index for all that is searched. A pool is what has one ranked list: a language of the wiki, or of
-- another collection ('memory/ru'); the part after the last slash names the language.

-- Writer: the triggers of functions/400_index.sql. One row per chunk, concept, article or answer.
create table kb.entry (
    id         bigint generated always as identity primary key,
    kind       text   not null,
    record_id  bigint not null,
    pool       text   not null,
    source_id  bigint,
    concept_id bigint,
    length     int    not null,
    text_sha   text   not null,
    unique (kind, record_id)
);
create index entry_text_sha on kb.entry (text_sha);
create index entry_source on kb.entry (source_id);
create index entry_concept on kb.entry (concept_id);
create index entry_pool on kb.entry (pool);

-- Writer: the same. The inverted index that BM25 reads; it repeats the entry's length, so that a score
-- needs no look at the entry.
drop table kb.posting;
create table kb.posting (
    entry_id bigint   not null,
    length   int      not null,
    tf       smallint not null,
    pool     text     not null,
    lexeme   text     not null
);
create index posting_lexeme on kb.posting (lexeme, pool, tf desc) include (entry_id, length);
create index posting_entry on kb.posting (entry_id, lexeme) include (tf);

-- Writer: the same. In how many entries of a pool a lexeme stands; the lexeme '' counts the entries and their
-- length. Rows are only added, so that writers never wait for each other; kb.fold_tally sums them up.
create table kb.tally (
    pool   text    not null,
    lexeme text    not null,
    n      bigint  not null,
    length bigint  not null default 0,
    folded boolean not null default false
);
create index tally_lexeme on kb.tally (lexeme, pool) include (n, length);
create index tally_new on kb.tally (folded) where not folded;
create unique index tally_folded on kb.tally (pool, lexeme) where folded;

alter table kb.chunk drop column n_lexemes;

-- For which pool a vector was made: each pool has an index of its own when it is large.
alter table kb.vector add column pool text not null default '';

-- What a question may call a concept, by the lemmas of its words.
alter table kb.alias add column lemmas text not null default '';
create index alias_lemmas on kb.alias (lemmas);
delete from kb.setting where name = 'resolve';

-- Writer: the command query --save, and the stage answer. A question and what was answered.
create table kb.answer (
    id          bigint generated always as identity primary key,
    key         text        not null unique,
    slug        text        not null unique,
    question    text        not null,
    lang        text        not null,
    k           int         not null,
    statements  jsonb       not null,
    missing     text        not null,
    engine      text        not null,
    passages    jsonb       not null,
    input_sha   text        not null,
    search_text text        not null,
    text_sha    text        not null,
    answered_at timestamptz not null default now()
);
create index answer_text_sha on kb.answer (text_sha);
