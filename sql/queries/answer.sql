-- Filed answers.

-- name: find_answer_slug
select key from kb.answer where slug = %(slug)s;

-- name: find_passages
select c.text_sha, c.source_id, c.start_at, p.slug
from kb.chunk c join kb.source_page p on p.source_id = c.source_id
where c.text_sha = any (%(shas)s::text[]);

-- name: save_answer
insert into kb.answer as a (key, slug, question, lang, k, statements, missing, engine, passages, input_sha,
                            search_text, text_sha)
values (%(key)s, %(slug)s, %(question)s, %(lang)s, %(k)s, %(statements)s, %(missing)s, %(engine)s, %(passages)s,
        kb.sha(variadic %(shas)s::text[]), %(search_text)s, kb.sha(%(search_text)s))
on conflict (key) do update
set slug = excluded.slug, lang = excluded.lang, k = excluded.k, statements = excluded.statements,
    missing = excluded.missing, engine = excluded.engine, passages = excluded.passages,
    input_sha = excluded.input_sha, search_text = excluded.search_text, text_sha = excluded.text_sha,
    answered_at = now();

-- name: list_stale_answers
select a.key, a.question, a.lang, a.k from kb.answer a
where exists (select from jsonb_to_recordset(a.passages -> 'cited') as p (text_sha text)
              where not exists (select from kb.entry e where e.text_sha = p.text_sha and e.kind <> 'answer'))
order by a.key collate "C";

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

-- name: delete_answer
delete from kb.answer where key = %(key)s;
