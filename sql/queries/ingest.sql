-- Files into sources and chunks.

-- name: list_known
select u.uri, u.size, u.mtime_ns, s.reader, s.is_partial,
       (select array_agg(o.uri) from kb.source_uri o where o.source_id = s.id) as uris
from kb.source_uri u join kb.source s on s.id = u.source_id
where u.uri = any (%(uris)s::text[]);

-- name: list_shas
select sha256, reader, is_partial from kb.source;

-- name: find_source
select s.reader, s.is_partial,
       array(select o.uri from kb.source_uri o where o.source_id = s.id) as uris
from kb.source s where s.sha256 = %(sha256)s;

-- name: find_uri
select s.sha256 from kb.source_uri u join kb.source s on s.id = u.source_id where u.uri = %(uri)s;

-- name: lock_shas
select pg_advisory_xact_lock(hashtextextended('kbwiki:source:' || sha, 0))
from (select distinct sha from unnest(%(shas)s::text[]) as sha order by sha) as sorted;

-- name: save_source
insert into kb.source (sha256, title, authors, year, dated, lang, text, structure, notes, reader, is_partial)
values (%(sha256)s, %(title)s, %(authors)s, %(year)s, %(dated)s, %(lang)s, %(text)s, %(structure)s,
        %(notes)s, %(reader)s, %(is_partial)s)
on conflict (sha256) do update
set title = excluded.title, authors = excluded.authors, year = excluded.year, dated = excluded.dated,
    lang = excluded.lang, text = excluded.text, structure = excluded.structure, notes = excluded.notes,
    reader = excluded.reader, is_partial = excluded.is_partial
returning id;

-- name: delete_chunks
-- The mentions in them go too, so that what `resolve` knows of this source no longer holds.
with anew as (delete from kb.setting where name = 'resolve'),
     stale as (update kb.source_page set mentions_sha = '' where source_id = %(source_id)s)
delete from kb.chunk where source_id = %(source_id)s;

-- name: save_chunks
-- Each row of the JSON is one chunk.
insert into kb.chunk (source_id, ordinal, start_at, end_at, page, headings, lang, text, text_sha)
select %(source_id)s, c.ordinal, c.start_at, c.end_at, c.page, c.headings, c.lang, c.text, kb.sha(c.text)
from jsonb_to_recordset(%(chunks)s::jsonb -> 'chunks') as c (ordinal int, start_at int, end_at int, page int, headings text[],
                                                      lang text, text text);

-- name: index_chunks
select kb.index_chunks(%(sources)s::bigint[]);

-- name: settle_index
select kb.index_chunks(null), kb.fold_tally();

-- name: fold_tally
select kb.fold_tally();

-- name: save_uri
insert into kb.source_uri (uri, source_id, size, mtime_ns)
select %(uri)s, id, %(size)s, %(mtime_ns)s from kb.source where sha256 = %(sha256)s
on conflict (uri) do update
set source_id = excluded.source_id, size = excluded.size, mtime_ns = excluded.mtime_ns, seen_at = now();

-- name: delete_unnamed_source
delete from kb.source s where s.sha256 = %(sha256)s and not exists (select from kb.source_uri u where u.source_id = s.id);

-- name: list_partial
-- Sources of which less than 98 % of the parts or of the signs came through.
select u.uri, p.n_read, p.n_parts, p.n_kept, p.n_signs, s.notes
from kb.source_uri u join kb.source s on s.id = u.source_id
cross join lateral (select coalesce((s.structure -> 'coverage' ->> 0)::int, 1) as n_read,
                           coalesce((s.structure -> 'coverage' ->> 1)::int, 1) as n_parts,
                           coalesce((s.structure -> 'characters' ->> 0)::int, 1) as n_kept,
                           coalesce((s.structure -> 'characters' ->> 1)::int, 1) as n_signs) as p
where p.n_read < 0.98 * p.n_parts or p.n_kept < 0.98 * p.n_signs
order by u.uri;
