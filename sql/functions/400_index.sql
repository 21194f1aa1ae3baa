-- The search index. Triggers keep it: what writes or removes a text changes it in the same transaction. Only new
-- chunks, of which there may be very many, are indexed a batch at a time, by kb.index_chunks.

-- The statements of an article's body: no headings, no markup of links and footnotes (see text/links.py).
create or replace function kb.body_words(body text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select btrim(regexp_replace(regexp_replace(
               regexp_replace(body, '\[\[[cs]:[^|\]]*\|([^\]|]*)\]\]', '\1', 'g'),
               '^#+ .*$|^- |\[\^\d+\]|\*\*', '', 'gn'), '\n\n+', E'\n', 'g'), E'\n ')
$$;

-- Index texts: rows of (kind, record_id, pool, source_id, concept_id, body, text_sha) as one array each.
-- Who keeps texts of another kind ('memory') calls this and kb.unindex; body may hold more than is shown.
create or replace function kb.index_texts(
    new_kind text, ids bigint[], pools text[], sources bigint[], concepts bigint[], bodies text[], shas text[]
) returns void
language sql volatile
set search_path = pg_catalog
-- arrays hide how many rows they hold
set enable_nestloop = off
as $$
    with given as materialized (
        select u.id, u.pool, u.source_id, u.concept_id, u.sha,
               to_tsvector(kb.text_config(regexp_replace(u.pool, '^.*/', '')), u.body) as words
        from unnest(ids, pools, sources, concepts, bodies, shas) as u (id, pool, source_id, concept_id, body, sha)
    ),
    entered as (
        insert into kb.entry (kind, record_id, pool, source_id, concept_id, length, text_sha)
        select new_kind, g.id, g.pool, g.source_id, g.concept_id,
               (select coalesce(sum(cardinality(l.positions)), 0) from unnest(g.words) l), g.sha
        from given g
        returning id, record_id, pool, length
    ),
    posted as (
        insert into kb.posting (entry_id, length, tf, pool, lexeme)
        select e.id, e.length, cardinality(l.positions), e.pool, l.lexeme
        from entered e join given g on g.id = e.record_id
        cross join lateral unnest(g.words) l
        returning pool, lexeme
    )
    insert into kb.tally (pool, lexeme, n, length)
    select pool, lexeme, count(*), 0 from posted group by pool, lexeme
    union all
    select pool, '', count(*), sum(length) from entered group by pool
$$;

create or replace function kb.unindex(old_kind text, ids bigint[]) returns void
language sql volatile
set search_path = pg_catalog
as $$
    with gone as (
        delete from kb.entry where kind = old_kind and record_id = any (ids) returning id, pool, length
    ),
    unposted as (
        delete from kb.posting where entry_id in (select id from gone) returning pool, lexeme
    )
    insert into kb.tally (pool, lexeme, n, length)
    select pool, lexeme, -count(*), 0 from unposted group by pool, lexeme
    union all
    select pool, '', -count(*), -sum(length) from gone group by pool
$$;

-- Sum up what was counted since the last time; one at a time, others need not wait.
create or replace function kb.fold_tally() returns void
language plpgsql volatile
set search_path = pg_catalog
as $$
begin
    if not pg_try_advisory_xact_lock(hashtextextended('kbwiki:fold_tally', 0)) then
        return;
    end if;
    with taken as (
        delete from kb.tally where not folded returning pool, lexeme, n, length
    )
    insert into kb.tally as t (pool, lexeme, n, length, folded)
    select pool, lexeme, sum(n), sum(length), true from taken group by pool, lexeme
    on conflict (pool, lexeme) where folded do update set n = t.n + excluded.n, length = t.length + excluded.length
    where (excluded.n, excluded.length) <> (0, 0);
end
$$;

-- Index the chunks that are not yet: those of some sources, or all that a run which was killed left behind too.
-- One transaction at a time. A chunk that another is about to remove is passed over, and one that is read here
-- cannot be removed before its entry can be seen.
create or replace function kb.index_chunks(of_sources bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog
as $$
declare
    step constant int := 2000;
    missing bigint[];
begin
    perform pg_advisory_xact_lock(hashtextextended('kbwiki:index_chunks', 0));
    if of_sources is null then
        missing := array(
            select k.id from kb.chunk k
            where not exists (select from kb.entry e where e.kind = 'chunk' and e.record_id = k.id)
            order by k.id);
    else
        missing := array(
            select k.id from kb.chunk k
            where k.source_id = any (of_sources)
              and not exists (select from kb.entry e where e.kind = 'chunk' and e.record_id = k.id)
            order by k.id);
    end if;
    for at in 1 .. cardinality(missing) by step loop
        perform kb.index_texts('chunk', array_agg(k.id), array_agg(k.lang), array_agg(k.source_id),
                               array_agg(null::bigint), array_agg(array_to_string(k.headings, ' ') || ' ' || k.text),
                               array_agg(k.text_sha))
        from (
            select o.id, o.lang, o.source_id, o.headings, o.text, o.text_sha
            from kb.chunk o where o.id = any (missing[at:at + step - 1])
            for key share skip locked
        ) k
        having count(*) > 0;
    end loop;
end
$$;

create or replace function kb.index_concept() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    perform kb.index_texts('concept', array_agg(id), array_agg(lang), array_agg(null::bigint), array_agg(id),
                           array_agg(search_text), array_agg(text_sha))
    from added having count(*) > 0;
    return null;
end
$$;

create or replace function kb.reindex_concept() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    perform kb.unindex('concept', array_agg(a.id)),
            kb.index_texts('concept', array_agg(a.id), array_agg(a.lang), array_agg(null::bigint), array_agg(a.id),
                           array_agg(a.search_text), array_agg(a.text_sha))
    from added a join removed r on r.id = a.id and (r.text_sha, r.lang) is distinct from (a.text_sha, a.lang)
    having count(*) > 0;
    return null;
end
$$;

create or replace function kb.index_article() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    perform kb.index_texts('article', array_agg(id), array_agg(lang), array_agg(source_id), array_agg(concept_id),
                           array_agg(title || '. ' || kb.body_words(body)), array_agg(text_sha))
    from added having count(*) > 0;
    return null;
end
$$;

create or replace function kb.reindex_article() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    perform kb.unindex('article', array_agg(a.id)),
            kb.index_texts('article', array_agg(a.id), array_agg(a.lang), array_agg(a.source_id),
                           array_agg(a.concept_id), array_agg(a.title || '. ' || kb.body_words(a.body)),
                           array_agg(a.text_sha))
    from added a
    join removed r on r.id = a.id
                  and (r.title, r.body, r.lang, r.text_sha) is distinct from (a.title, a.body, a.lang, a.text_sha)
    having count(*) > 0;
    return null;
end
$$;

create or replace function kb.index_answer() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    perform kb.index_texts('answer', array_agg(id), array_agg(lang), array_agg(null::bigint),
                           array_agg(null::bigint), array_agg(search_text), array_agg(text_sha))
    from added having count(*) > 0;
    return null;
end
$$;

create or replace function kb.reindex_answer() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    perform kb.unindex('answer', array_agg(a.id)),
            kb.index_texts('answer', array_agg(a.id), array_agg(a.lang), array_agg(null::bigint),
                           array_agg(null::bigint), array_agg(a.search_text), array_agg(a.text_sha))
    from added a join removed r on r.id = a.id and r.search_text <> a.search_text
    having count(*) > 0;
    return null;
end
$$;

create or replace function kb.unindex_rows() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    perform kb.unindex(tg_argv[0], array_agg(id)) from removed having count(*) > 0;
    return null;
end
$$;

create or replace trigger chunk_unindexed after delete on kb.chunk referencing old table as removed
    for each statement execute function kb.unindex_rows('chunk');
create or replace trigger concept_indexed after insert on kb.concept referencing new table as added
    for each statement execute function kb.index_concept();
create or replace trigger concept_reindexed after update on kb.concept
    referencing new table as added old table as removed for each statement execute function kb.reindex_concept();
create or replace trigger concept_unindexed after delete on kb.concept referencing old table as removed
    for each statement execute function kb.unindex_rows('concept');
create or replace trigger article_indexed after insert on kb.article referencing new table as added
    for each statement execute function kb.index_article();
create or replace trigger article_reindexed after update on kb.article
    referencing new table as added old table as removed for each statement execute function kb.reindex_article();
create or replace trigger article_unindexed after delete on kb.article referencing old table as removed
    for each statement execute function kb.unindex_rows('article');
create or replace trigger answer_indexed after insert on kb.answer referencing new table as added
    for each statement execute function kb.index_answer();
create or replace trigger answer_reindexed after update on kb.answer
    referencing new table as added old table as removed for each statement execute function kb.reindex_answer();
create or replace trigger answer_unindexed after delete on kb.answer referencing old table as removed
    for each statement execute function kb.unindex_rows('answer');

-- A store from before the index: its texts are indexed once.
do $$
begin
    if not exists (select from kb.entry) and exists (select from kb.chunk) then
        perform kb.index_chunks(null);
        perform kb.index_texts('concept', array_agg(id), array_agg(lang), array_agg(null::bigint), array_agg(id),
                               array_agg(search_text), array_agg(text_sha))
        from kb.concept having count(*) > 0;
        perform kb.index_texts('article', array_agg(id), array_agg(lang), array_agg(source_id),
                               array_agg(concept_id), array_agg(title || '. ' || kb.body_words(body)),
                               array_agg(text_sha))
        from kb.article having count(*) > 0;
        update kb.vector v set pool = e.pool from kb.entry e where e.text_sha = v.text_sha and v.pool = '';
        perform kb.fold_tally();
    end if;
end
$$;
