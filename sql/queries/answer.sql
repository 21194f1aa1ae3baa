-- Filed answers.

-- name: find_filed
select key, slug from kb.answer where slug = %(slug)s or key = %(key)s;

-- name: find_passages
select p.slug, p.title, c.text, c.page, c.text_sha, c.source_id, c.start_at, kb.quotable(c) as quotable
from kb.chunk c join lateral (
    select 'sources/' || g.slug as slug, g.title from kb.source_page g where g.source_id = c.source_id
) p on true
where c.text_sha = any (%(shas)s::text[]);

-- name: find_cited_passages
-- The passages that the first footnotes of pages rest on.
with cited as (
    select 'answers/' || a.slug as page, p.at as ordinal, p.source_id, p.start_at
    from kb.answer a
    cross join lateral rows from (
        jsonb_to_recordset(a.passages -> 'cited') as (source_id bigint, start_at int)
    ) with ordinality as p (source_id, start_at, at)
    where 'answers/' || a.slug = any (%(slugs)s::text[])
    union all
    select o.page, t.ordinal, t.source_id, t.start_at
    from (
        select 'concepts/' || c.slug as page, r.id from kb.concept c join kb.article r on r.concept_id = c.id
        union all
        select 'sources/' || g.slug, r.id from kb.source_page g join kb.article r on r.source_id = g.source_id
    ) o
    join kb.citation t on t.article_id = o.id
    where o.page = any (%(slugs)s::text[]) and t.ordinal <= %(n)s
)
select distinct on (d.page, c.id) d.page as cited_by, d.ordinal, 'sources/' || g.slug as slug, g.title, c.text, c.page,
       c.text_sha, c.source_id, c.start_at, kb.quotable(c) as quotable
from cited d
join kb.chunk c on c.source_id = d.source_id and d.start_at >= c.start_at and d.start_at < c.end_at
join kb.source_page g on g.source_id = c.source_id
order by d.page, c.id, d.ordinal;

-- name: list_unheard
-- Which words of a question stand in none of these entries.
select w.word
from unnest(%(words)s::text[]) with ordinality as w (word, at)
where not exists (
    select from (select e.pool, array_agg(e.id) as ids from kb.entry e where e.id = any (%(entries)s::bigint[])
                 group by e.pool) n
    cross join lateral kb.lexemes(n.pool, w.word) l
    join kb.posting p on p.lexeme = l.lexeme and p.pool = n.pool and p.entry_id = any (n.ids))
order by w.at;

-- name: save_answer
insert into kb.answer as a (key, slug, question, lang, k, asked, statements, missing, engine, passages, input_sha,
                            search_text, text_sha)
values (%(key)s, %(slug)s, %(question)s, %(lang)s, %(k)s, %(asked)s, %(statements)s, %(missing)s, %(engine)s,
        %(passages)s, kb.sha(variadic %(shas)s::text[]), %(search_text)s, kb.sha(%(question)s))
on conflict (key) do update
set lang = excluded.lang, k = excluded.k, asked = excluded.asked, statements = excluded.statements,
    missing = excluded.missing, engine = excluded.engine, passages = excluded.passages,
    input_sha = excluded.input_sha, search_text = excluded.search_text, answered_at = now();

-- name: withdraw_answer
update kb.answer a
set statements = '{"said": []}', missing = '', engine = '', passages = '{"cited": []}', input_sha = %(sources_sha)s,
    search_text = a.question
where a.key = %(key)s;

-- name: read_sources_sha
select kb.sources_sha();

-- name: list_stale_answers
select a.key, a.question, a.lang, a.k, a.asked
from kb.answer a
where kb.is_stale(a)
order by a.key collate "C";

-- name: list_unanswered
select 'answers/' || a.slug as slug, a.question from kb.answer a
where a.statements -> 'said' = '[]'
order by a.key collate "C";

-- name: list_filed
select 'answers/' || slug as slug from kb.answer order by slug;

-- name: unfile_answers
delete from kb.answer where 'answers/' || slug = any (%(slugs)s::text[]);

-- name: list_answer_pages
select a.key, a.slug, a.question as title, a.lang, a.statements -> 'said' as statements, a.missing, a.engine
from kb.answer a
order by a.key collate "C";

-- name: list_answer_citations
-- names: concepts that the quote names, as (key, words).
select a.key, p.at as ordinal, p.start_at, p.end_at, p.quote, p.page, '' as heading, g.key as source_key,
       (select coalesce(jsonb_agg(jsonb_build_array(c.key, substr(s.text, m.start_at + 1, m.end_at - m.start_at))
                                  order by m.start_at), '[]')
        from kb.mention m join kb.concept c on c.id = m.concept_id
        where m.source_id = p.source_id and m.start_at >= p.start_at and m.end_at <= p.end_at) as names
from kb.answer a
cross join lateral rows from (
    jsonb_to_recordset(a.passages -> 'cited')
        as (source_id bigint, start_at int, end_at int, quote text, page int)
) with ordinality as p (source_id, start_at, end_at, quote, page, at)
join kb.source s on s.id = p.source_id
join kb.source_page g on g.source_id = s.id
order by a.key collate "C", p.at;
