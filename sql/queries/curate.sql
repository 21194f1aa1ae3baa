-- What people decide: which names are one concept, which sources go.

-- name: save_decision
-- The last word counts, whichever of the two it named first.
with other as (
    delete from kb.decision where first = %(second)s and second = %(first)s
)
insert into kb.decision (first, second, same, first_title, second_title)
values (%(first)s, %(second)s, %(same)s, %(first_title)s, %(second_title)s)
on conflict (first, second) do update
set same = excluded.same, first_title = excluded.first_title, second_title = excluded.second_title,
    decided_at = now();

-- name: list_merges
select first, second from kb.decision where same order by decided_at desc, first, second;

-- name: delete_decision
delete from kb.decision where first = %(first)s and second = %(second)s;

-- name: save_split
insert into kb.split (name, name_title, title, uri, sha256)
select %(name)s, %(name_title)s, %(title)s, u.uri, s.sha256
from kb.source_uri u join kb.source s on s.id = u.source_id
where u.uri = %(uri)s;

-- name: delete_splits
delete from kb.split where name = %(name)s and sha256 = %(sha256)s;

-- name: list_split_files
-- Of files: which bytes they hold, whether a concept is named there, and the splits that say what names mean there.
select u.uri, s.sha256,
       exists (select from kb.mention m where m.source_id = s.id and m.concept_id = %(concept_id)s) as is_named,
       array(select d.name from kb.split d where d.sha256 = s.sha256 order by d.id) as names,
       array(select d.name_title from kb.split d where d.sha256 = s.sha256 order by d.id) as name_titles,
       array(select d.title from kb.split d where d.sha256 = s.sha256 order by d.id) as titles
from kb.source_uri u join kb.source s on s.id = u.source_id
where u.uri = any (%(uris)s::text[])
order by u.uri;

-- name: list_split
select name_title, title, uri, decided_at from kb.split order by name_title, title, uri;

-- name: list_homonyms
select title, uris, reason from kb.homonym order by concept_key, uris;

-- name: list_decided
select first_title, second_title, same, decided_at from kb.decision order by first_title, second_title;

-- name: list_likenesses
select first_title, second_title, band, status, score, reason from kb.likeness
order by status <> 'doubtful', status, score desc, first_key, second_key;

-- name: list_redirects
select second_title as title from kb.decision where same
union
select first_title from kb.likeness where status = 'merged'
union
select second_title from kb.likeness where status = 'merged'
order by title;

-- name: find_concept
select c.id, c.key, c.title, array(select a.name from kb.alias a where a.concept_id = c.id order by a.key) as names
from kb.concept c
where c.slug = %(slug)s or c.key = any (%(keys)s::text[])
   or c.id in (select concept_id from kb.alias where key = any (%(keys)s::text[]))
order by (c.slug = %(slug)s) desc, c.key
limit 1;

-- name: list_candidate_keys
select distinct key from kb.candidate where key = any (%(keys)s::text[]);

-- name: list_pages_now
select 'concept' as kind, c.title as name from kb.concept c
union all
select 'source', p.title from kb.source_page p
union all
select 'edge', h.title || ' - ' || t.title
from kb.edge e join kb.concept h on h.id = e.head_id join kb.concept t on t.id = e.tail_id
union all
select 'question', a.question from kb.answer a
union all
select 'answer', a.question from kb.answer a where a.statements -> 'said' <> '[]'
order by 1, 2;

-- name: find_uris
select u.uri
from kb.source_uri u
where u.uri = any (%(uris)s::text[])
order by u.uri;

-- name: delete_uris
delete from kb.source_uri where uri = any (%(uris)s::text[]);

-- name: delete_sources_without_uri
delete from kb.source s where not exists (select from kb.source_uri u where u.source_id = s.id);

-- name: list_source_uris
select u.uri, u.source_id from kb.source_uri u order by u.uri;

-- name: list_sources
select u.uri, s.title, s.lang, s.year, (select count(*) from kb.chunk c where c.source_id = s.id) as chunks,
       length(s.text) as characters, nullif(jsonb_array_length(s.structure -> 'pages'), 0) as pages,
       (select count(distinct m.concept_id) from kb.mention m where m.source_id = s.id) as concepts, s.notes
from kb.source_uri u join kb.source s on s.id = u.source_id
order by u.uri;

-- name: show_source
select u.uri, s.title, s.authors, s.year, s.dated, s.lang, s.reader, s.sha256, u.size as bytes, length(s.text) as characters,
       (select count(*) from kb.chunk c where c.source_id = s.id) as chunks, s.notes, s.structure -> 'coverage' as coverage,
       s.structure -> 'characters' as signs, s.structure -> 'ids' as ids,
       s.structure -> 'blocks' as blocks, s.structure -> 'pages' as pages, s.text
from kb.source_uri u join kb.source s on s.id = u.source_id
where u.uri = %(uri)s;

-- name: list_bare_edges
select h.title as head, t.title as tail
from kb.edge e
join kb.concept h on h.id = e.head_id
join kb.concept t on t.id = e.tail_id
where e.method is distinct from 'human' and not exists (select from kb.edge_evidence v where v.edge_id = e.id)
order by h.key, t.key;
