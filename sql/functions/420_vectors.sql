-- Vectors: cosine, exact over small pools, by an HNSW index over large ones.

-- The name of a pool's index.
create or replace function kb.vector_index(model_name text, pool_name text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select 'vector_' || left(kb.sha(model_name, pool_name), 12)
$$;

-- Give each pool an index if all have more vectors than this between them; returns how many were made. A pool
-- of few vectors is read through. Vectors of more than 2,000 dimensions are halfvecs.
create or replace function kb.index_vectors(model_name text, min_vectors int) returns int
language plpgsql volatile
set search_path = pg_catalog, public
as $$
declare
    missing text;
    dim int;
    is_half boolean;
    n_made int := 0;
begin
    select coalesce(vector_dims(v.v), vector_dims(v.h)), v.v is null into dim, is_half
    from kb.vector v where v.model = model_name limit 1;
    -- an array, since a table that is being read cannot be indexed
    foreach missing in array array(
        select v.pool from kb.vector v where v.model = model_name
        group by v.pool
        having count(*) > min_vectors / 10
           and (select count(*) from kb.vector o where o.model = model_name) > min_vectors
           and to_regclass('kb.' || kb.vector_index(model_name, v.pool)) is null
        order by v.pool)
    loop
        execute format(
            'create index %I on kb.vector using hnsw ((%s) %s) where model = %L and pool = %L',
            kb.vector_index(model_name, missing),
            case when is_half then format('h::halfvec(%s)', dim) else format('v::vector(%s)', dim) end,
            case when is_half then 'halfvec_cosine_ops' else 'vector_cosine_ops' end,
            model_name, missing);
        n_made := n_made + 1;
    end loop;
    return n_made;
end
$$;

-- The nearest texts of one pool with their cosine, and the mean and deviation of the pool's cosines.
-- With an index these two come from a sample, the texts whose hash begins with 00, and half as many are found:
-- what a search by index costs grows with their number.
create or replace function kb.near_texts(question_vector text, model_name text, pool_name text, max_texts int)
returns table (text_sha text, cosine real, mean real, deviation real)
language plpgsql stable
set search_path = pg_catalog, public
set jit = off
as $$
declare
    dim int := cardinality(string_to_array(question_vector, ','));
    kind text := case when dim <= 2000 then 'vector' else 'halfvec' end;
    name text := case when dim <= 2000 then 'v' else 'h' end;
    is_indexed boolean := to_regclass('kb.' || kb.vector_index(model_name, pool_name)) is not null;
begin
    if is_indexed then
        max_texts := greatest(40, max_texts / 2);
        perform set_config('hnsw.ef_search', max_texts::text, true);
        return query execute format(
            'with near as (select text_sha, 1 - (%2$I::%1$s(%3$s) <=> %4$L::%1$s(%3$s)) as cosine from kb.vector
                           where model = %5$L and pool = %6$L
                           order by %2$I::%1$s(%3$s) <=> %4$L::%1$s(%3$s) limit %7$s),
                  spread as (select avg(1 - (%2$I <=> %4$L::%1$s)) as mean, stddev_pop(1 - (%2$I <=> %4$L::%1$s)) as deviation
                             from kb.vector where model = %5$L and pool = %6$L
                                              and text_sha >= ''00'' and text_sha < ''01'')
             select n.text_sha, n.cosine::real, s.mean::real, s.deviation::real from near n, spread s',
            kind, name, dim, question_vector, model_name, pool_name, max_texts);
    else
        return query execute format(
            'with all_texts as materialized (select text_sha, 1 - (%2$I <=> %3$L::%1$s) as cosine from kb.vector
                                             where model = %4$L and pool = %5$L and %2$I is not null),
                  spread as (select avg(cosine) as mean, stddev_pop(cosine) as deviation from all_texts)
             select a.text_sha, a.cosine::real, s.mean::real, s.deviation::real
             from (select text_sha, cosine from all_texts order by cosine desc, text_sha limit %6$s) a, spread s',
            kind, name, question_vector, model_name, pool_name, max_texts);
    end if;
end
$$;

-- The cosines of texts, by their hashes, with a question. The question is read once, not once a row.
create or replace function kb.cosines(question_vector text, model_name text, shas text[])
returns table (text_sha text, cosine real)
language plpgsql stable
set search_path = pg_catalog, public
as $$
declare
    dim int := cardinality(string_to_array(question_vector, ','));
    question vector := case when dim <= 2000 then question_vector::vector end;
    half halfvec := case when dim > 2000 then question_vector::halfvec end;
begin
    return query
    select v.text_sha, (1 - case when question is not null then v.v <=> question else v.h <=> half end)::real
    from kb.vector v where v.model = model_name and v.text_sha = any (shas);
end
$$;

-- Entries by cosine, centred on the pool's mean and scaled so that the best of the pool is 1; deviations is how
-- many deviations the cosine lies above the mean. mean and best are the cosines that became 0 and 1.
create or replace function kb.search_vectors(
    question_vector text, model_name text, pools text[], kinds text[], sources bigint[], max_hits int
) returns table (pool text, entry_id bigint, score real, deviations real, mean real, best real)
language plpgsql stable
set search_path = pg_catalog, public
set jit = off
as $$
begin
    if sources is null then
        return query
        with found as (
            select n.pool, n.id, n.cosine, n.mean, n.deviation,
                   max(n.cosine) over (partition by n.pool) as best,
                   row_number() over (partition by n.pool order by n.cosine desc, n.id) as rank
            from (
                select l.pool, e.id, t.cosine, t.mean, t.deviation
                from unnest(pools) as l (pool)
                -- some of the nearest may be of another kind
                cross join kb.near_texts(question_vector, model_name, l.pool,
                                         case when kinds is null then max_hits else 3 * max_hits end) t
                -- "offset 0" keeps this and others like it a look by index for each row
                cross join lateral (
                    select o.id, o.kind from kb.entry o where o.text_sha = t.text_sha and o.pool = l.pool offset 0
                ) e
                where kinds is null or e.kind = any (kinds)
            ) n
        )
        select f.pool, f.id, ((f.cosine - f.mean) / greatest(f.best - f.mean, 1e-6))::real,
               ((f.cosine - f.mean) / greatest(f.deviation, 1e-6))::real, f.mean, f.best
        from found f
        where f.rank <= max_hits;
    else
        -- Few entries: one by one.
        return query
        with wanted as materialized (
            select e.pool, e.id, e.text_sha from kb.entry e
            where e.pool = any (pools) and (kinds is null or e.kind = any (kinds))
              and (sources is null or e.source_id = any (sources)
                   or exists (select from kb.mention m where m.concept_id = e.concept_id and m.source_id = any (sources)))
        ),
        compared as materialized (
            select w.pool, w.id,
                   case when v.v is not null then 1 - (v.v <=> question_vector::vector)
                        else 1 - (v.h <=> question_vector::halfvec) end as cosine
            from wanted w join kb.vector v on v.model = model_name and v.text_sha = w.text_sha
        ),
        found as (
            select c.pool, c.id, c.cosine, avg(c.cosine) over w as mean, stddev_pop(c.cosine) over w as deviation,
                   max(c.cosine) over w as best,
                   row_number() over (partition by c.pool order by c.cosine desc, c.id) as rank
            from compared c
            window w as (partition by c.pool)
        )
        select f.pool, f.id, ((f.cosine - f.mean) / greatest(f.best - f.mean, 1e-6))::real,
               ((f.cosine - f.mean) / greatest(f.deviation, 1e-6))::real, f.mean::real, f.best::real
        from found f
        where f.rank <= max_hits;
    end if;
end
$$;
