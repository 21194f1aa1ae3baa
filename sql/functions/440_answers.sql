-- Filed answers: a question outlives what answered it.

-- Changes whenever the sources do, or the vectors by which they are found: a question that nothing answered is
-- asked again then.
create or replace function kb.sources_sha() returns text
language sql stable
set search_path = pg_catalog
as $$
    select kb.sha((select string_agg(s.sha256 || s.reader, ' ' order by s.sha256 collate "C") from kb.source s),
                  (select t.value from kb.setting t where t.name = 'embedder'))
$$;

-- No word of a source outlives it: an answer that cites one goes in the same transaction. Its question stays,
-- and is asked again by the stage answer.
create or replace function kb.withdraw_answers() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    update kb.answer a
    set statements = '{"said": []}', missing = '', engine = '', passages = '{"cited": []}', input_sha = '',
        search_text = a.question
    where exists (select from jsonb_to_recordset(a.passages -> 'cited') as p (source_id bigint)
                  join removed r on r.id = p.source_id);
    return null;
end
$$;

create or replace trigger source_withdrawn after delete on kb.source referencing old table as removed
    for each statement execute function kb.withdraw_answers();

-- The sentences of a passage that a reader found worth citing, as offsets into it; null while nobody has read the
-- source. A heading or a line of a bibliography is none.
create or replace function kb.quotable(c kb.chunk) returns jsonb
language sql stable
set search_path = pg_catalog
as $$
    select coalesce((select jsonb_agg(jsonb_build_array(m.start_at - c.start_at, m.end_at - c.start_at) order by m.start_at)
                     from kb.claim m
                     where m.source_id = c.source_id and m.start_at >= c.start_at and m.end_at <= c.end_at), '[]')
    where exists (select from kb.extraction x where x.source_id = c.source_id)
$$;

-- Whether a question is to be answered anew: a passage that it cites no longer stands, or nothing answered it and
-- the sources have changed since.
create or replace function kb.is_stale(a kb.answer) returns boolean
language sql stable
set search_path = pg_catalog
as $$
    select case when a.statements -> 'said' = '[]' then a.input_sha <> kb.sources_sha()
                else exists (select from jsonb_to_recordset(a.passages -> 'cited') as p (text_sha text)
                             where not exists (select from kb.chunk c where c.text_sha = p.text_sha)) end
$$;

-- What a concept is, in words of a source: its definition, else the best sentence that names it.
create or replace function kb.said_of(c kb.concept) returns text
language plpgsql stable
set search_path = pg_catalog
as $$
begin
    return case when c.definition <> '' then c.definition else (
        select q.text from kb.mention m join kb.claim q on q.id = m.claim_id
        where m.concept_id = c.id
        order by (q.lang = c.lang) desc, q.rank desc, q.text collate "C"
        limit 1) end;
end
$$;

-- Whether an entry has nothing to show: a name of which no sentence says anything, a question without an answer.
-- A table of one row, and no search_path, so that it becomes part of the queries that call it: a plain function
-- with a query in it is called row by row.
drop function if exists kb.is_bare(kb.entry);
create or replace function kb.bareness(e kb.entry) returns table (is_bare boolean)
language sql stable
as $$
    -- "exists" would be hashed over the whole table, of which a question meets a hundred rows
    select case e.kind when 'concept' then (
                           select true from kb.concept c where c.id = e.record_id and c.definition <> '' limit 1) is null
                           and (
                           select true from kb.mention m
                           where m.concept_id = e.record_id and m.claim_id is not null limit 1) is null
                       when 'answer' then (
                           select true from kb.answer a
                           where a.id = e.record_id and a.statements -> 'said' = '[]' limit 1) is not null
                       else false end
$$;

-- A name in small Latin letters, sign for sign, roughly: trigrams know no others where the locale is C, and a name
-- is alike in both scripts.
create or replace function kb.latin(name text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select translate(lower(name), 'абвгдеёжзийклмнопрстуфхцчшщыэюяьъ', 'abvgdeegziiklmnoprstufhccssyeua')
$$;

-- Those of some words that no text of the store holds.
create or replace function kb.strange_words(words text[]) returns table (word text)
language sql stable
set search_path = pg_catalog
as $$
    select w.word
    from unnest(words) with ordinality as w (word, ordinal)
    where char_length(w.word) > 3
      and not exists (select from (values ('en'), ('ru')) as l (lang)
                      cross join lateral kb.lexemes(l.lang, w.word) x
                      join kb.posting p on p.lexeme = x.lexeme and p.pool = l.lang)
    order by w.ordinal
$$;

-- Names of concepts like those of some words, the likest first.
create or replace function kb.names_like(words text[], question text, max_names int) returns table (name text)
language plpgsql stable
set search_path = pg_catalog, public
as $$
begin
    if to_regprocedure('word_similarity(text, text)') is null then
        return;
    end if;
    return query
    with strange as materialized (
        select kb.latin(w.word) as word from unnest(words) as w (word)
    ),
    likely as (
        select distinct on (a.concept_id) a.name, a.key, l.likeness + o.likeness as likeness
        from kb.alias a
        cross join lateral (select max(word_similarity(s.word, kb.latin(a.key))) as likeness from strange s) l
        cross join lateral (select word_similarity(kb.latin(a.key), kb.latin(question)) as likeness offset 0) o
        where l.likeness >= 0.4 and o.likeness >= 0.4
        order by a.concept_id, 3 desc, a.key collate "C"
    )
    select k.name from likely k
    order by k.likeness desc, k.key collate "C"
    limit max_names;
end
$$;
