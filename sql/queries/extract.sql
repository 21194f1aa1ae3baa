-- What an engine read in each source.

-- name: list_unread
select s.id, s.sha256, u.uri, t.title, s.authors, s.year, s.dated, s.text, s.structure,
       kb.sha('extract-3', s.sha256, s.reader, t.title, %(engine)s) as fingerprint
from kb.source s
join lateral (select min(uri collate "C") as uri from kb.source_uri where source_id = s.id) u on true
join lateral (select kb.shown_title(s.title, u.uri) as title) t on true
left join kb.extraction e on e.source_id = s.id
where e.fingerprint is distinct from kb.sha('extract-3', s.sha256, s.reader, t.title, %(engine)s)
  and not (u.uri = any (%(skip)s::text[]))
order by u.uri
limit %(limit)s;

-- name: delete_extraction
with gone as (delete from kb.candidate where source_id = %(source_id)s),
     claims as (delete from kb.claim where source_id = %(source_id)s)
delete from kb.extraction where source_id = %(source_id)s;

-- name: save_extraction
insert into kb.extraction (source_id, fingerprint, engine, title, lang, authors, year, summary, lemmas, starts, ends,
                           link_starts, link_ends)
values (%(source_id)s, %(fingerprint)s, %(engine)s, %(title)s, %(lang)s, %(authors)s::text[], %(year)s, %(summary)s,
        %(lemmas)s, %(starts)s::int[], %(ends)s::int[], %(link_starts)s::int[], %(link_ends)s::int[]);

-- name: save_candidate
insert into kb.candidate (source_id, key, name, lang, kind, signals, aliases, definition_start, definition_end)
values (%(source_id)s, %(key)s, %(name)s, %(lang)s, %(kind)s, %(signals)s, %(aliases)s,
        %(definition_start)s, %(definition_end)s);

-- name: save_claim
insert into kb.claim (source_id, ordinal, start_at, end_at, text, lang, page, heading, rank, statement)
values (%(source_id)s, %(ordinal)s, %(start_at)s, %(end_at)s, %(text)s, %(lang)s, %(page)s, %(heading)s,
        %(rank)s, %(statement)s);
