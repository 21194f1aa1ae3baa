-- name: list_pools
select t.pool, sum(t.n) as n
from kb.tally t
where t.lexeme = '' and t.pool not like '%%/%%'
group by t.pool
having sum(t.n) > 0
order by t.pool;

-- name: find_named
-- Concepts by the lemmas of their names; the one that is mentioned most owns a name.
select distinct on (a.lemmas) a.lemmas, c.id, c.slug, c.title, c.main_source_id as source_id
from kb.alias a join kb.concept c on c.id = a.concept_id
where a.lemmas = any (%(keys)s::text[]) and a.lemmas <> ''
order by a.lemmas, c.n_mentions desc, c.key collate "C";

-- name: list_strange_words
select w.word from kb.strange_words(%(words)s::text[]) w;

-- name: suggest_names
select n.name from kb.names_like(%(words)s::text[], %(question)s, %(n)s) n;

-- name: list_source_ids
-- Sources whose uri, title or slug holds these words, and that are not older than this.
select s.id
from kb.source s
left join kb.source_page p on p.source_id = s.id
where (%(source)s::text is null
       or p.slug = %(source)s or s.title ilike %(pattern)s
       or exists (select from kb.source_uri u where u.source_id = s.id and u.uri ilike %(pattern)s))
  and (%(since)s::date is null or coalesce(s.dated, s.ingested_at::date) >= %(since)s::date)
order by s.id;

-- name: search_entries
-- nearness: how far a text is on the way from everyday sentences (0) to the question itself (1); null where the
-- store has no vectors of them. A name is a concept of which nothing else is indexed.
select s.pool, s.entry_id, s.score, s.words, s.vectors, s.graph, s.deviations, s.seed_id, s.concept_id, s.edge_id,
       (s.cosine - b.cosine) / greatest(1 - b.cosine, 1e-6) as nearness, e.kind = 'concept' and c.definition = '' as is_name,
       e.kind, case when e.kind = 'answer' then 'answer/' || e.record_id
                    when e.concept_id is not null then 'concept/' || e.concept_id
                    else 'source/' || e.source_id end as page,
       case when e.kind <> 'answer' then coalesce(c.main_source_id, e.source_id) end as home_id,
       'concepts/' || c.slug as concept_slug, a.is_bare
from kb.search_entries(%(question)s, %(vector)s, %(model)s, %(pools)s::text[], %(kinds)s::text[],
                       %(sources)s::bigint[], %(mode)s, %(named)s::bigint[], %(n)s) s
join kb.entry e on e.id = s.entry_id
left join kb.concept c on c.id = e.concept_id
cross join lateral kb.bareness(e) a
cross join (
    select avg(k.cosine) as cosine
    from kb.cosines(%(vector)s, %(model)s, array(select g.text_sha from kb.background g)) k
) b
order by s.pool, s.score desc, s.entry_id;

-- name: find_bridged
-- Passages of other sources that share words with these, words that few entries hold and the question does not: names above all, of which nothing made a concept. share: the best is 1.
with seed as (
    select u.id, u.weight, e.source_id, e.pool
    from unnest(%(entries)s::bigint[], %(weights)s::real[]) as u (id, weight) join kb.entry e on e.id = u.id
),
rare as materialized (
    select w.source_id, w.weight, w.pool, w.lexeme
    from (
        select distinct s.source_id, s.weight, p.pool, p.lexeme
        from seed s join kb.posting p on p.entry_id = s.id
        where p.lexeme ~ '^[^[:digit:][:punct:]]{3,}$'
    ) w
    cross join lateral (
        select sum(t.n) as df from kb.tally t where t.lexeme = w.lexeme and t.pool = w.pool
    ) t
    where t.df between 2 and 30
      and w.lexeme not in (select l.lexeme from kb.lexemes(regexp_replace(w.pool, '^.*/', ''), %(question)s) l)
),
shared as (
    select r.source_id as seed_source, r.weight, r.lexeme, r.pool, e.source_id, e.id
    from rare r
    join kb.posting p on p.lexeme = r.lexeme and p.pool = r.pool
    join kb.entry e on e.id = p.entry_id and e.kind = 'chunk' and e.source_id <> r.source_id
),
spread as (
    select h.seed_source, h.pool, h.lexeme, count(distinct h.source_id) as n from shared h group by 1, 2, 3
),
total as (
    select h.id, sum(h.weight / (1 + ln(n.n))) as share
    from shared h join spread n using (seed_source, pool, lexeme)
    where n.n <= 3
    group by h.id
)
select e.pool, e.id as entry_id, 0.0::real as words, 0.0::real as vectors, 0.0::real as deviations,
       null::bigint as seed_id, null::bigint as concept_id, null::bigint as edge_id, e.kind,
       'source/' || e.source_id as page, e.source_id as home_id, null::text as concept_slug, false as is_bare,
       0.0::real as graph, 'by rare words' as place, (t.share / max(t.share) over ())::real as share
from total t join kb.entry e on e.id = t.id
order by t.share desc, e.id
limit 50;

-- name: find_concept_entries
select e.pool, e.id as entry_id, 0.0::real as words, 0.0::real as vectors, 0.0::real as deviations,
       null::bigint as seed_id, null::bigint as concept_id, null::bigint as edge_id, e.kind,
       'concept/' || c.id as page, c.main_source_id as home_id, 'concepts/' || c.slug as concept_slug,
       b.is_bare
from kb.concept c join kb.entry e on e.kind = 'concept' and e.record_id = c.id
cross join lateral kb.bareness(e) b
where c.slug = any (%(slugs)s::text[]);

-- name: describe_entries
-- Only hits have a snippet: of the others it is told where they are.
with wanted as (
    select e.id, e.kind, e.record_id, e.pool, e.concept_id, e.source_id, e.text_sha
    from kb.entry e where e.id = any (%(entries)s::bigint[])
),
shown as (
    select w.id, 'sources/' || p.slug as slug, p.title, k.text, k.page
    from wanted w join kb.chunk k on k.id = w.record_id
    join kb.source s on s.id = k.source_id
    join lateral (
        select coalesce(max(g.slug), '') as slug, coalesce(max(g.title), s.title) as title
        from kb.source_page g where g.source_id = s.id
    ) p on true
    where w.kind = 'chunk'
    union all
    select w.id, 'concepts/' || c.slug, c.title, kb.said_of(c), null
    from wanted w join kb.concept c on c.id = w.record_id
    where w.kind = 'concept'
    union all
    select w.id, case when c.id is null then 'sources/' || p.slug else 'concepts/' || c.slug end, a.title,
           kb.body_words(a.body), null
    from wanted w join kb.article a on a.id = w.record_id
    left join kb.concept c on c.id = a.concept_id
    left join kb.source_page p on p.source_id = a.source_id
    where w.kind = 'article'
    union all
    select w.id, 'answers/' || a.slug, left(a.question, 200), a.search_text, null
    from wanted w join kb.answer a on a.id = w.record_id
    where w.kind = 'answer'
),
asked as materialized (
    select p.pool, (select coalesce(string_agg(quote_literal(l.lexeme), ' | '), '')::tsquery
                    from kb.lexemes(p.pool, %(question)s) l) as query
    from (select distinct w.pool from wanted w) p
)
select w.id, w.kind, w.pool as lang, s.slug, s.title, s.text, s.page, w.text_sha, w.concept_id, w.source_id,
       case when w.id = any (%(hits)s::bigint[]) then
           ts_headline(kb.text_config(w.pool), s.text, a.query,
                       'StartSel=**, StopSel=**, MaxWords=40, MinWords=20, MaxFragments=2, FragmentDelimiter=" … "')
       end as snippet
from wanted w
join shown s on s.id = w.id
join asked a on a.pool = w.pool;

-- name: describe_concepts
select id, slug, title, key from kb.concept where id = any (%(ids)s::bigint[]);

-- name: describe_edges
select e.id, e.head_id, e.tail_id, e.type, y.inverse, y.is_symmetric, e.confidence,
       kb.shown_evidence(e) as evidence
from kb.edge e join kb.edge_type y on y.name = e.type
where e.id = any (%(ids)s::bigint[]);

-- name: find_paths
select nodes, edges, strength
from kb.paths(%(first)s, %(last)s, %(via)s::bigint[], %(n)s);

-- name: list_shared
select concept_id, first_edge, second_edge, strength
from kb.shared_neighbours(%(first)s, %(second)s, %(n)s);

-- name: find_page
select 'concepts' as folder, c.slug, c.key from kb.concept c
where c.slug = %(slug)s or c.key = any (%(keys)s::text[])
   or c.id in (select concept_id from kb.alias where key = any (%(keys)s::text[]))
union all
select 'sources', p.slug, p.key from kb.source_page p
where p.slug = %(slug)s or p.slug = regexp_replace(%(slug)s, '^sources/', '')
order by 1, 2
limit 1;

-- name: list_alias_keys
select distinct key from kb.alias order by key;

-- name: list_slugs
select 'concepts' as folder, slug, title, kind, lang, n_mentions from kb.concept
union all
select 'sources', p.slug, p.title, 'source', e.lang, 0
from kb.source_page p join kb.extraction e on e.source_id = p.source_id
order by 1, 2;

-- name: read_status
select (select count(*) from kb.source) as sources,
       (select count(*) from kb.source_uri) as files,
       (select count(*) from kb.chunk) as chunks,
       (select count(*) from kb.concept) as concepts,
       (select count(*) from kb.mention) as mentions,
       (select count(*) from kb.article) as articles,
       (select count(*) from kb.citation) as citations,
       (select count(*) from kb.edge where status = 'typed') as edges,
       (select count(*) from kb.vector) as vectors,
       (select count(*) from kb.answer) as questions,
       (select value from kb.setting where name = 'embedder') as embedder,
       array(select distinct engine from kb.article order by 1) as engines,
       pg_database_size(current_database()) as database_bytes,
       current_setting('server_version') as postgres,
       (select extversion from pg_extension where extname = 'vector') as pgvector;

-- name: count_stale
select
    (select count(*)
     from kb.source s
     join lateral (select min(uri collate "C") as uri from kb.source_uri where source_id = s.id) u on true
     left join kb.extraction e on e.source_id = s.id
     where e.fingerprint is distinct from
           kb.sha('extract-3', s.sha256, s.reader, kb.shown_title(s.title, u.uri), %(engine)s)) as extract,
    (select count(*) from kb.concept c left join kb.article a on a.concept_id = c.id
     where (a.input_sha, a.written_as) is distinct from (c.input_sha, %(written_as)s))
    + (select count(*) from kb.source_page p left join kb.article a on a.source_id = p.source_id
       where (a.input_sha, a.written_as) is distinct from (p.input_sha, %(written_as)s)) as write,
    (select count(*) from kb.edge e, kb.rules_sha() r
     where e.method is distinct from 'human'
       and (e.status = 'pending' or e.typed_sha not in (kb.sha(e.evidence_sha, r), kb.sha('model', e.evidence_sha))))
     as "classify-edges",
    (select count(distinct t.text_sha) from kb.searched_text t
     left join kb.vector v on v.model = %(model)s and v.text_sha = t.text_sha where v.text_sha is null) as embed,
    (select count(*) from kb.answer a where kb.is_stale(a)) as answer;

-- name: list_page_names
select 'concepts' as folder, c.slug, array_agg(a.name) || c.title as names, '{}'::text[] as uris
from kb.concept c left join kb.alias a on a.concept_id = c.id
group by c.id
union all
select 'answers', a.slug, array[a.question], '{}' from kb.answer a
union all
select 'sources', p.slug, array[p.title], array(select u.uri from kb.source_uri u where u.source_id = p.source_id)
from kb.source_page p
order by 1, 2;
