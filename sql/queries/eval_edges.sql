-- Labelled sentences, laid as the stages before `link` would; run in a scratch schema only.

-- name: list_edge_types
select name, inverse, is_symmetric, ordinal, code, definition, label_en, label_ru, inverse_en, inverse_ru
from kb.edge_type order by ordinal;

-- name: lay_statement
with source as (
    insert into kb.source (sha256, title, lang, text, structure, reader)
    values (%(number)s, %(number)s, %(lang)s, %(text)s, '{}', 'eval')
    returning id
),
page as (
    insert into kb.source_page (source_id, key, title, slug, mentions_sha, input_sha)
    select id, %(number)s, %(number)s, %(number)s, '', '' from source
),
chunk as (
    insert into kb.chunk (source_id, ordinal, start_at, end_at, headings, lang, text, text_sha)
    select id, 0, 0, length(%(text)s), '{}', %(lang)s, %(text)s, '' from source
)
insert into kb.claim (source_id, ordinal, start_at, end_at, text, lang, heading, rank)
select id, 0, 0, length(%(text)s), %(text)s, %(lang)s, '', 1 from source
returning id;

-- name: lay_mention
with concept as (
    insert into kb.concept (key, title, slug, kind, lang, definition, n_sources, n_mentions, input_sha, search_text,
                            text_sha)
    values (%(key)s, %(title)s, %(key)s, %(kind)s, 'en', '', 1, 1, '', '', '')
    returning id
)
insert into kb.mention (concept_id, source_id, chunk_id, claim_id, start_at, end_at, linked, defines)
select concept.id, c.source_id, k.id, c.id, %(start_at)s, %(end_at)s, false, false
from concept, kb.claim c join kb.chunk k on k.source_id = c.source_id
where c.id = %(claim_id)s;

-- name: list_edge_verdicts
select p.key::int as number, e.type, h.title as head, e.confidence, e.rule
from kb.edge e
join kb.concept h on h.id = e.head_id
join kb.edge_evidence v on v.edge_id = e.id
join kb.claim c on c.id = v.claim_id
join kb.source_page p on p.source_id = c.source_id;
