-- name: search_chunks
select 'source' as kind, p.slug, p.title, s.score, s.words, s.vectors, c.lang, c.page, c.text,
       ts_headline(kb.text_config(c.lang), c.text, q.query,
                   'StartSel=**, StopSel=**, MaxWords=40, MinWords=20, MaxFragments=2, FragmentDelimiter=" … "') as snippet
from kb.search_chunks(%(question)s, %(vector)s, %(model)s, %(k)s) s
join kb.chunk c on c.id = s.chunk_id
join kb.source_page p on p.source_id = c.source_id
cross join lateral (
    select coalesce(string_agg(quote_literal(l.lexeme), ' | '), '')::tsquery as query
    from kb.question_lexemes(%(question)s) l where l.lang = c.lang
) q
order by s.score desc, p.key collate "C", c.ordinal;

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

-- name: list_edges_of
with recursive near as (
    select c.id, 0 as depth from kb.concept c where c.key = %(key)s
    union
    select case when e.head_id = n.id then e.tail_id else e.head_id end, n.depth + 1
    from near n
    join kb.edge e on n.id in (e.head_id, e.tail_id) and e.status = 'typed'
    where n.depth < %(depth)s and (e.type <> 'related_to' or %(all)s)
)
select distinct h.title as head, h.slug as head_slug, e.type, y.is_symmetric as symmetric, t.title as tail,
       t.slug as tail_slug, e.confidence, e.n_sources, e.rule, y.ordinal,
       (select cl.text from kb.edge_evidence v join kb.claim cl on cl.id = v.claim_id
        where v.edge_id = e.id and v.ordinal = 1) as evidence
from kb.edge e
join kb.edge_type y on y.name = e.type
join kb.concept h on h.id = e.head_id
join kb.concept t on t.id = e.tail_id
join near a on a.id = e.head_id
join near b on b.id = e.tail_id
where e.status = 'typed' and (e.type <> 'related_to' or %(all)s)
  and (a.depth < %(depth)s or b.depth < %(depth)s)
order by y.ordinal, head, tail;

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
           kb.sha('extract', s.sha256, s.reader, kb.shown_title(s.title, u.uri), %(engine)s)) as extract,
    (select count(*) from kb.concept c left join kb.article a on a.concept_id = c.id
     where (a.input_sha, a.written_as) is distinct from (c.input_sha, %(written_as)s))
    + (select count(*) from kb.source_page p left join kb.article a on a.source_id = p.source_id
       where (a.input_sha, a.written_as) is distinct from (p.input_sha, %(written_as)s)) as write,
    (select count(*) from kb.edge e, kb.rules_sha() r
     where e.method is distinct from 'human' and e.typed_sha is distinct from kb.sha(e.evidence_sha, r))
     as "classify-edges",
    (select count(distinct t.text_sha) from kb.searched_text t
     left join kb.vector v on v.model = %(model)s and v.text_sha = t.text_sha where v.text_sha is null) as embed;
