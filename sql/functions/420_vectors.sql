-- Vectors: cosine, exact over small pools, by an HNSW index over large ones.

-- The name of a pool's index.
create or replace function kb.vector_index(model_name text, pool_name text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select 'vector_' || left(kb.sha(model_name, pool_name), 12)
$$;

-- Give each pool that has more vectors than this an index; returns how many were made.
-- Vectors of more than 2,000 dimensions are halfvecs.
create or replace function kb.index_vectors(model_name text, min_vectors int) returns int
language plpgsql volatile
set search_path = pg_catalog, public
as $$
declare
    large record;
    n_made int := 0;
begin
    for large in
        select v.pool, count(*) as n, max(vector_dims(v.v)) as dim, max(vector_dims(v.h)) as half_dim
        from kb.vector v where v.model = model_name
        group by v.pool having count(*) > min_vectors
    loop
        if to_regclass('kb.' || kb.vector_index(model_name, large.pool)) is null then
            execute format(
                'create index %I on kb.vector using hnsw ((%s) %s) where model = %L and pool = %L',
                kb.vector_index(model_name, large.pool),
                case when large.dim is not null then format('v::vector(%s)', large.dim)
                     else format('h::halfvec(%s)', large.half_dim) end,
                case when large.dim is not null then 'vector_cosine_ops' else 'halfvec_cosine_ops' end,
                model_name, large.pool);
            n_made := n_made + 1;
        end if;
    end loop;
    return n_made;
end
$$;

-- The nearest texts of one pool with their cosine, and the mean and deviation of the pool's cosines.
-- With an index these two come from a sample: the texts whose hash begins with 00.
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

-- Entries by cosine, centred on the pool's mean and scaled so that the best of the pool is 1; deviations is how
-- many deviations the cosine lies above the mean. mean and best are the cosines that became 0 and 1.
create or replace function kb.search_vectors(
    question_vector text, model_name text, pools text[], kinds text[], sources bigint[], max_hits int
) returns table (pool text, entry_id bigint, score real, deviations real, mean real, best real)
language plpgsql stable
set search_path = pg_catalog, public
set jit = off
as $$
declare
    is_limited boolean := kinds is not null or sources is not null;
begin
    return query
    with near as materialized (
        select l.pool, t.text_sha, t.cosine, t.mean, t.deviation
        from unnest(pools) as l (pool),
             kb.near_texts(question_vector, model_name, l.pool, max_hits) t
        where not is_limited and l.pool not like '%/%'
    ),
    found as materialized (
        select n.pool, e.id, n.cosine, n.mean, n.deviation
        from near n join kb.entry e on e.text_sha = n.text_sha and e.pool = n.pool
        union all
        -- few entries, or a pool that shares its vectors with others: entry by entry
        select e.pool, e.id, e.cosine::real, avg(e.cosine) over w, stddev_pop(e.cosine) over w
        from (
            select e.pool, e.id,
                   case when v.v is not null then 1 - (v.v <=> question_vector::vector)
                        else 1 - (v.h <=> question_vector::halfvec) end as cosine
            from kb.entry e
            join kb.vector v on v.model = model_name and v.text_sha = e.text_sha
            where e.pool = any (pools) and (is_limited or e.pool like '%/%')
              and kb.is_wanted(e.kind, e.source_id, e.concept_id, kinds, sources)
        ) e
        window w as (partition by e.pool)
    )
    select r.pool, r.id, ((r.cosine - r.mean) / greatest(r.best - r.mean, 1e-6))::real,
           ((r.cosine - r.mean) / greatest(r.deviation, 1e-6))::real, r.mean::real, r.best::real
    from (select f.pool, f.id, f.cosine, f.mean, f.deviation, max(f.cosine) over (partition by f.pool) as best,
                 row_number() over (partition by f.pool order by f.cosine desc, f.id) as rank
          from found f) r
    where r.rank <= max_hits;
end
$$;
