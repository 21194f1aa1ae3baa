-- Full text: BM25 over the postings of pools.

-- The lexemes of a question as the language of each pool reads it, rarest first, with their weight: idf as
-- a share of all. A word that the pool lacks counts in full. In plpgsql, which plans it once a connection.
create or replace function kb.question_words(question text, pools text[])
returns table (pool text, lexeme text, df bigint, idf real, share real, avg_length real)
language plpgsql stable
set search_path = pg_catalog
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with size as (
        select t.pool, sum(t.n) as n, sum(t.length)::real / greatest(sum(t.n), 1) as avg_length
        from kb.tally t where t.lexeme = '' and t.pool = any (pools)
        group by t.pool
    ),
    word as (
        select s.pool, l.lexeme, s.n, s.avg_length
        from size s, kb.lexemes(regexp_replace(s.pool, '^.*/', ''), question) l
        where s.n > 0
    ),
    counted as (
        select w.pool, w.lexeme, w.n, w.avg_length, coalesce(t.df, 0) as df
        from word w
        left join lateral (
            select greatest(sum(t.n), 0)::bigint as df from kb.tally t where t.lexeme = w.lexeme and t.pool = w.pool
        ) t on true
    ),
    weighed as (
        select pool, lexeme, df, avg_length, ln(1 + (greatest(n - df, 0) + 0.5) / (df + 0.5)) as idf from counted
    )
    select pool, lexeme, df, idf::real, (idf / sum(idf) over (partition by pool))::real, avg_length::real
    from weighed
    order by pool, df, lexeme;
end
$$;

-- BM25 (k1 1.2, b 0.75) as a share of the best that the question could reach if every word were matched.
-- Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
-- The rarest words find the entries, as long as they have at most max_postings between them; the others
-- only count for the best max_rescored of these. kinds and sources, where given, limit what is found.
create or replace function kb.search_words(
    question text, pools text[], kinds text[], sources bigint[], max_hits int,
    max_postings int default 8000, max_rescored int default 400
) returns table (pool text, entry_id bigint, score real)
language plpgsql stable
set search_path = pg_catalog
set jit = off
as $$
declare
    names text[];
    lexemes text[];
    weights real[];
    lengths real[];
    dfs bigint[];
    takes bigint[];
    is_limited boolean := kinds is not null or sources is not null;
begin
    select array_agg(w.pool), array_agg(w.lexeme), array_agg(w.share), array_agg(w.avg_length), array_agg(w.df), array_agg(w.take)
    into names, lexemes, weights, lengths, dfs, takes
    from (
        select q.pool, q.lexeme, q.share, q.avg_length, q.df,
               -- how many postings of this word may be read, after those of the rarer ones
               least(q.df, greatest(0, max_postings - sum(q.df) over rarer + q.df)) as take
        from kb.question_words(question, pools) q
        where q.df > 0
        window rarer as (partition by q.pool order by q.df, q.lexeme)
    ) w;
    return query
    with word as (
        select u.pool, u.lexeme, u.weight, u.avg_length, u.take, u.take > 0 as finds, u.take < u.df as is_cut
        from unnest(names, lexemes, weights, lengths, dfs, takes) as u (pool, lexeme, weight, avg_length, df, take)
    ),
    found as materialized (
        select w.pool, p.entry_id, sum(w.weight * p.tf * 2.2 / (p.tf + 1.2 * (0.25 + 0.75 * p.length / w.avg_length))) as score
        from word w
        cross join lateral (
            select o.entry_id, o.tf, o.length from kb.posting o
            where not w.is_cut and o.lexeme = w.lexeme and o.pool = w.pool
            union all
            (select b.entry_id, b.tf, b.length
             from (
                 (select o.entry_id, o.tf, o.length from kb.posting o
                  where w.is_cut and o.lexeme = w.lexeme and o.pool = w.pool and o.tf > 1
                  order by o.tf desc
                  limit w.take)
                 union all
                 (select o.entry_id, o.tf, o.length from kb.posting o
                  where w.is_cut and o.lexeme = w.lexeme and o.pool = w.pool and o.tf = 1
                  limit w.take)
             ) b
             limit w.take)
        ) p
        where w.finds
        group by w.pool, p.entry_id
    ),
    fitting as (
        select f.pool, f.entry_id, f.score from found f where not is_limited
        union all
        select f.pool, f.entry_id, f.score
        from found f join kb.entry e on e.id = f.entry_id
        where is_limited and (kinds is null or e.kind = any (kinds))
          and (sources is null or e.source_id = any (sources)
               or exists (select from kb.mention m where m.concept_id = e.concept_id and m.source_id = any (sources)))
    ),
    best as materialized (
        -- pool by pool: much cheaper than to rank all
        select l.pool, b.entry_id, b.score
        from unnest(pools) as l (pool)
        cross join lateral (
            select f.entry_id, f.score from fitting f
            where f.pool = l.pool
            order by f.score desc, f.entry_id
            limit max_rescored
        ) b
    ),
    whole as (
        select b.pool, b.entry_id,
               b.score + coalesce((
                   select sum(w.weight * p.tf * 2.2 / (p.tf + 1.2 * (0.25 + 0.75 * e.length / w.avg_length)))
                   from word w
                   join kb.posting p on p.entry_id = b.entry_id and p.lexeme = w.lexeme
                   join kb.entry e on e.id = b.entry_id
                   where w.pool = b.pool and not w.finds), 0) as score
        from best b
    )
    select r.pool, r.entry_id, (r.score / 2.2)::real
    from (select o.pool, o.entry_id, o.score,
                 row_number() over (partition by o.pool order by o.score desc, o.entry_id) as rank
          from whole o) r
    where r.rank <= max_hits;
end
$$;
