-- Briefs and articles.

-- name: list_unwritten
with page as (
    select c.id as concept_id, null::bigint as source_id, c.title, c.slug, c.kind, c.lang, c.main_source_id,
           'concepts/' || c.slug as item, c.input_sha, a.input_sha as written, a.written_as
    from kb.concept c
    left join kb.article a on a.concept_id = c.id
    union all
    select null, p.source_id, p.title, p.slug, 'source', e.lang, p.source_id, 'sources/' || p.slug, p.input_sha,
           a.input_sha, a.written_as
    from kb.source_page p
    join kb.extraction e on e.source_id = p.source_id
    left join kb.article a on a.source_id = p.source_id
),
stale as (
    select * from page
    where (written, written_as) is distinct from (input_sha, %(written_as)s)
      and not (item = any (%(skip)s::text[]))
    order by item
    limit %(limit)s
)
select t.concept_id, t.source_id, t.title, t.slug, t.kind, t.lang, t.input_sha, p.key as main_source_key,
       array(select n.name from kb.alias n where n.concept_id = t.concept_id order by n.key) as aliases
from stale t
left join kb.source_page p on p.source_id = t.main_source_id
order by t.item;

-- name: list_statements
select distinct on (m.concept_id, cl.id)
       cl.id as claim_id, m.concept_id, null::bigint as owner_source_id, cl.source_id, p.key as source_key,
       p.title as source_title, cl.start_at, cl.end_at, cl.text, cl.lang, cl.page, cl.heading, cl.rank,
       cl.statement as wording, coalesce(s.dated::text, coalesce(s.year, e.year)::text, '') as dated
from kb.mention m
join kb.claim cl on cl.id = m.claim_id
join kb.source_page p on p.source_id = cl.source_id
join kb.source s on s.id = cl.source_id
join kb.extraction e on e.source_id = cl.source_id
where m.concept_id = any (%(concepts)s::bigint[])
union all
select cl.id, null, cl.source_id, cl.source_id, p.key, p.title, cl.start_at, cl.end_at, cl.text, cl.lang, cl.page,
       cl.heading, cl.rank, cl.statement, ''
from kb.claim cl
join kb.source_page p on p.source_id = cl.source_id
where cl.source_id = any (%(sources)s::bigint[]);

-- name: list_named
select m.claim_id, m.concept_id, m.start_at - cl.start_at as start_at, m.end_at - cl.start_at as end_at, c.title,
       m.defines
from kb.mention m
join kb.claim cl on cl.id = m.claim_id
join kb.concept c on c.id = m.concept_id
where m.claim_id in (
    select claim_id from kb.mention where concept_id = any (%(concepts)s::bigint[])
    union
    select id from kb.claim where source_id = any (%(sources)s::bigint[])
);

-- name: save_article
insert into kb.article (concept_id, source_id, title, lang, summary, body, engine, input_sha, written_as,
                        search_text, text_sha)
values (%(concept_id)s, %(source_id)s, %(title)s, %(lang)s, %(summary)s, %(body)s, %(engine)s, %(input_sha)s,
        %(written_as)s,
        %(search_text)s, kb.sha(%(search_text)s))
on conflict (concept_id, source_id) do update
set title = excluded.title, lang = excluded.lang, summary = excluded.summary, body = excluded.body,
    engine = excluded.engine, input_sha = excluded.input_sha, written_as = excluded.written_as,
    search_text = excluded.search_text,
    text_sha = excluded.text_sha, written_at = now()
returning id;

-- name: save_citations
-- Keeps a quote only where it stands; returns how many were kept.
with surplus as (
    delete from kb.citation where article_id = %(article_id)s and ordinal > cardinality(%(sources)s::bigint[])
),
kept as (
    insert into kb.citation (article_id, ordinal, source_id, start_at, end_at, quote, page)
    select %(article_id)s, c.ordinal, c.source_id, c.start_at, c.end_at, c.quote, c.page
    from unnest(%(sources)s::bigint[], %(starts)s::int[], %(ends)s::int[], %(quotes)s::text[], %(pages)s::int[])
         with ordinality as c (source_id, start_at, end_at, quote, page, ordinal)
    join kb.source s on s.id = c.source_id
    where c.quote = substr(s.text, c.start_at + 1, c.end_at - c.start_at)
    on conflict (article_id, ordinal) do update
    set source_id = excluded.source_id, start_at = excluded.start_at, end_at = excluded.end_at,
        quote = excluded.quote, page = excluded.page
    returning ordinal
)
select count(*) from kept;

-- name: find_model_page
-- The engine of a page that a model wrote: the second word of what it was written as.
select split_part(written_as, ' ', 2) from kb.article where written_as !~ '^\S+ local-' limit 1;
