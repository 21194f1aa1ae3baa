-- Pages, edges and citations as export renders them.

-- name: list_concept_pages
select c.key, c.slug, c.title, a.lang, c.kind, c.n_sources, a.summary, a.body, a.engine,
       array(select n.name from kb.alias n where n.concept_id = c.id) as aliases,
       (select max(s.dated) from kb.mention m join kb.source s on s.id = m.source_id where m.concept_id = c.id) as updated
from kb.concept c join kb.article a on a.concept_id = c.id;

-- name: list_source_pages
-- What a paper does not say of itself, a bibliography of the store does, and then what a model read.
with told as (
    select distinct on (r ->> 0) r ->> 0 as key, array(select jsonb_array_elements_text(r -> 1)) as authors, (r ->> 2)::int as year
    from kb.source b cross join jsonb_array_elements(b.structure -> 'references') as r
    order by r ->> 0, b.sha256)
select p.key, p.slug, p.title, a.lang, a.summary, a.body, a.engine, s.dated, s.sha256, s.notes,
       case when s.authors <> '{}' then s.authors when r.authors <> '{}' then r.authors else e.authors end as authors,
       coalesce(s.year, r.year, e.year) as year,
       jsonb_array_length(s.structure -> 'pages') as n_pages,
       array(select u.uri from kb.source_uri u where u.source_id = s.id order by u.uri collate "C") as uris,
       array(select distinct c.key from kb.mention m join kb.concept c on c.id = m.concept_id
             where m.source_id = s.id) as concepts
from kb.source_page p
join kb.source s on s.id = p.source_id
join kb.extraction e on e.source_id = p.source_id
join kb.article a on a.source_id = p.source_id
left join told r on r.key = regexp_replace(p.key, '[|][^|]*$', '');  -- what follows the title is a file's name

-- name: list_citations
select case when a.concept_id is null then 'sources' else 'concepts' end as folder, coalesce(c.key, p.key) as key,
       t.ordinal, t.start_at, t.end_at, t.quote, t.page, cited.key as source_key, coalesce(cl.heading, '') as heading
from kb.citation t
join kb.article a on a.id = t.article_id
left join kb.concept c on c.id = a.concept_id
left join kb.source_page p on p.source_id = a.source_id
join kb.source_page cited on cited.source_id = t.source_id
left join kb.claim cl on cl.source_id = t.source_id and cl.start_at = t.start_at
order by t.article_id, t.ordinal;

-- name: list_typed_edges
select h.key as head, t.key as tail, e.type, y.is_symmetric as symmetric, y.ordinal, e.confidence, e.n_sources, y.label_en, y.label_ru,
       y.inverse_en, y.inverse_ru
from kb.edge e
join kb.concept h on h.id = e.head_id
join kb.concept t on t.id = e.tail_id
join kb.edge_type y on y.name = e.type
where e.status = 'typed';

-- name: list_page_bases
select path, folder, key, sha, text, machine, cites, links from kb.page_base where path = any (%(paths)s::text[]);

-- name: list_page_base_shas
select path, sha from kb.page_base;

-- name: save_page_base
insert into kb.page_base (path, folder, key, sha, text, machine, cites, links)
values (%(path)s, %(folder)s, %(key)s, %(sha)s, %(text)s, %(machine)s, %(cites)s, %(links)s)
on conflict (path) do update
set folder = excluded.folder, key = excluded.key, sha = excluded.sha, text = excluded.text, machine = excluded.machine, cites = excluded.cites, links = excluded.links;

-- name: delete_page_bases_but
delete from kb.page_base where not (path = any (%(paths)s::text[]));

-- name: list_moved_sources
-- Pages of sources of which another page speaks now: of the same bytes, or, where the page is gone, of the same file.
select b.key as old, n.key as new, n.slug, n.rank
from kb.page_base b
cross join lateral (
    select p.key, p.slug, 1 as rank
    from kb.source s join kb.source_page p on p.source_id = s.id
    where s.sha256 = substring(b.text from 'sha256: "([0-9a-f]{64})"')
    union all
    select p.key, p.slug, 2
    from kb.source_uri u join kb.source_page p on p.source_id = u.source_id
    where not exists (select from kb.source_page o where o.key = b.key)
      and right(b.key, length(u.uri) + 1) = '|' || u.uri
    order by rank
    limit 1
) n
where b.folder = 'sources' and b.key <> n.key
order by n.rank, b.key;

-- name: list_edits
-- place: the key of the page on which the words stand now. The words on a concept that is another name of another one
-- by now stand there, unless a person wrote there too.
select e.folder, e.key, e.path, e.base, e.theirs, e.heading, e.front, e.tail, e.cites,
       coalesce((select c.key from kb.alias a join kb.concept c on c.id = a.concept_id
                 where e.folder = 'concepts' and a.key = e.key
                   and not exists (select from kb.concept o where o.key = e.key)
                   and not exists (select from kb.article_edit o where o.folder = 'concepts' and o.key = c.key)
                 order by c.key collate "C" limit 1), e.key) as place
from kb.article_edit e
order by e.folder, e.key;

-- name: list_edit_citations
-- Of the places that a person's words cite, those where the quote stands, or where it stands now.
select e.folder, e.key, c.place, c.source_key, n.start_at, n.start_at + length(c.quote) as end_at, c.quote,
       case when n.start_at = c.start_at then c.page end as page, c.heading
from kb.article_edit e
cross join jsonb_to_recordset(e.cites -> 'items')
     as c (place text, source_key text, start_at int, end_at int, quote text, page int, heading text)
join kb.source_page p on p.key = c.source_key
join kb.source s on s.id = p.source_id
cross join lateral (
    select case when substr(s.text, c.start_at + 1, c.end_at - c.start_at) = c.quote then c.start_at
                else strpos(s.text, c.quote) - 1 end as start_at
) n
where n.start_at >= 0;

-- name: save_edit
insert into kb.article_edit (folder, key, path, base, theirs, heading, front, tail, cites)
values (%(folder)s, %(key)s, %(path)s, %(base)s, %(theirs)s, %(heading)s, %(front)s, %(tail)s, %(cites)s)
on conflict (folder, key) do update
set path = excluded.path, base = excluded.base, theirs = excluded.theirs, heading = excluded.heading,
    front = excluded.front, tail = excluded.tail, cites = excluded.cites, edited_at = now();

-- name: delete_edit
delete from kb.article_edit where folder = %(folder)s and key = %(key)s;

-- name: sum_calls_since_log
-- What builds have asked a model since the log's last entry. What the cache answered was no call.
select greatest(coalesce(max(c.id), 0), coalesce((select value::bigint from kb.setting where name = 'logged_call'), 0)) as last_id, coalesce(sum(c.usd), 0) as usd, count(*) as n
from kb.call c
where c.status not in ('cached', 'open') and c.task in ('extract', 'same', 'write')
  and c.id > coalesce((select value::bigint from kb.setting where name = 'logged_call'), 0);
