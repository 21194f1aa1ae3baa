-- Search: words and vectors in one gated sum, and a walk of one hop over the graph. In plpgsql, which keeps
-- the plans of these long queries.

-- Words weigh twice as much as they cover of the question; vectors decide where words say little. Without
-- question_vector words alone decide. cosine: as it is; deviations: how far it stands out of its pool.
create or replace function kb.search_text(
    question text, question_vector text, model_name text, pools text[], kinds text[], sources bigint[], max_hits int
) returns table (pool text, entry_id bigint, score real, words real, vectors real, cosine real, deviations real)
language plpgsql stable
set search_path = pg_catalog, public
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    with word as materialized (
        select w.pool, w.entry_id, w.score from kb.search_words(question, pools, kinds, sources, max_hits) w
    ),
    near as materialized (
        select v.pool, v.entry_id, v.score, v.deviations, v.mean, v.best
        from kb.search_vectors(question_vector, model_name, pools, kinds, sources, max_hits) v
        where question_vector is not null
    ),
    spread as (
        select n.pool, max(n.mean) as mean, max(n.best) as best from near n group by n.pool
    ),
    -- what words found and vectors did not is compared with the question too
    far as (
        select w.entry_id, v.cosine, (v.cosine - s.mean) / greatest(s.best - s.mean, 1e-6) as score
        from (
            select o.entry_id, o.pool, e.text_sha from word o join kb.entry e on e.id = o.entry_id
            where not exists (select from near n where n.entry_id = o.entry_id)
        ) w
        join spread s on s.pool = w.pool
        join kb.cosines(question_vector, model_name, (
            select array_agg(distinct e.text_sha) from word o join kb.entry e on e.id = o.entry_id
            where not exists (select from near n where n.entry_id = o.entry_id))) v on v.text_sha = w.text_sha
    )
    select coalesce(w.pool, n.pool), coalesce(w.entry_id, n.entry_id),
           ((2 * coalesce(w.score, 0) + greatest(coalesce(n.score, f.score, 0), 0)) / 3)::real,
           coalesce(w.score, 0)::real, coalesce(n.score, f.score, 0)::real,
           coalesce(n.mean + n.score * (n.best - n.mean), f.cosine)::real, coalesce(n.deviations, 0)::real
    from word w
    full join near n on n.entry_id = w.entry_id
    left join far f on f.entry_id = w.entry_id;
end
$$;

-- One hop over the graph from seeds. Passages pass their weight to the concepts that they mention, each by how
-- well the statement around it fits the question; concepts named in the question pass theirs to what a
-- typed edge joins them to; a concept passes its weight to its own page (4) and to the passages that
-- mention it (1 / (1 + ln of their number)). The question's own concepts are no way back. The path that
-- brought most to an entry comes with it: seed, concept and, if one was gone along, edge.
create or replace function kb.walk(
    question text, pools text[], seeds bigint[], weights real[], named bigint[], kinds text[], sources bigint[]
) returns table (entry_id bigint, share real, seed_id bigint, concept_id bigint, edge_id bigint)
language plpgsql stable
set search_path = pg_catalog
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    with seed as materialized (
        select u.entry_id, u.weight, e.kind, e.record_id, e.concept_id
        from unnest(seeds, weights) as u (entry_id, weight)
        join kb.entry e on e.id = u.entry_id
    ),
    word as materialized (
        select regexp_replace(q.pool, '^.*/', '') as lang, q.lexeme, max(q.share) as share
        from kb.question_words(question, pools) q
        group by 1, 2
    ),
    named_in as materialized (
        select s.entry_id, s.weight, m.concept_id, m.claim_id
        from seed s join kb.mention m on s.kind = 'chunk' and m.chunk_id = s.record_id
    ),
    start as materialized (
        select c.id as concept_id, 0.3 * kb.specificity(c) / sum(kb.specificity(c)) over () as mass
        from kb.concept c where c.id = any (named)
    ),
    edge as materialized (
        select s.concept_id as from_id, s.mass, o.other_id, o.edge_id, o.strength, v.claim_id
        from start s
        cross join lateral kb.strong_edges(s.concept_id, 30) o
        left join kb.edge_evidence v on v.edge_id = o.edge_id and v.ordinal = 1
        where o.other_id <> all (named)
    ),
    fit as materialized (
        select c.id, 0.05 + coalesce(sum(w.share), 0) as fit
        from (select n.claim_id from named_in n union select e.claim_id from edge e) t
        join kb.claim c on c.id = t.claim_id
        left join lateral unnest(c.lexemes) x (lexeme) on true
        left join word w on w.lang = c.lang and w.lexeme = x.lexeme
        group by c.id
    ),
    step as (
        select n.entry_id, n.weight, n.concept_id,
               max(coalesce(f.fit, 0.05)) * case when n.concept_id = any (named) then 0.05 else 1 end as fit
        from named_in n left join fit f on f.id = n.claim_id
        group by n.entry_id, n.weight, n.concept_id
        union all
        select s.entry_id, s.weight, s.concept_id, 1 from seed s where s.concept_id is not null
    ),
    -- a concept seen once and without a page leads nowhere
    lead as (
        select t.entry_id, t.concept_id,
               t.weight * t.fit * kb.specificity(c) / sum(t.fit * kb.specificity(c)) over (partition by t.entry_id) as mass
        from step t join kb.concept c on c.id = t.concept_id
        where c.n_sources > 1 or c.main_source_id is not null or c.n_mentions > 1
    ),
    along as (
        -- what several of the named concepts lead to lies between them
        select e.other_id, e.edge_id,
               e.mass * e.fit / sum(e.fit) over (partition by e.from_id)
               * power(count(*) over (partition by e.other_id), 2) as mass
        from (select e.from_id, e.mass, e.other_id, e.edge_id, e.strength * (0.2 + coalesce(f.fit, 0)) as fit
              from edge e left join fit f on f.id = e.claim_id) e
    ),
    reached as materialized (
        select r.concept_id, r.mass, r.seed_id, r.edge_id,
               row_number() over (order by r.mass desc, r.concept_id) as rank
        from (
            select l.concept_id, l.mass, l.entry_id as seed_id, null::bigint as edge_id from lead l
            union all
            select s.concept_id, s.mass * 0.6, null, null from start s
            union all
            select a.other_id, a.mass * 0.4, null, a.edge_id from along a
        ) r
        where r.mass > 0.0005
    ),
    place as materialized (
        select c.id as concept_id, e.id as entry_id, 4.0 as weight
        from (select distinct r.concept_id as id from reached r where r.rank <= 16) c
        join kb.entry e on e.concept_id = c.id
        where (kinds is null or e.kind = any (kinds))
          and (sources is null or e.source_id = any (sources)
               or exists (select from kb.mention m where m.concept_id = c.id and m.source_id = any (sources)))
        union all
        select p.concept_id, p.entry_id,
               case when p.is_home then 4.0 else 1 / (1 + ln(count(*) over (partition by p.concept_id))) end
        from (
            select c.id as concept_id, e.id as entry_id,
                   -- no "exists", of which a plan may make a hash of all chunks
                   bool_or(m.defines or m.source_id = c.main_source_id and (
                       select k.ordinal from kb.chunk k where k.id = m.chunk_id) = 0) as is_home
            from (select distinct r.concept_id as id from reached r where r.rank <= 16) l
            join kb.concept c on c.id = l.id
            cross join lateral (
                select o.chunk_id, o.source_id, o.defines from kb.mention o where o.concept_id = c.id limit 100
            ) m
            cross join lateral (
                select o.id from kb.entry o
                where o.kind = 'chunk' and o.record_id = m.chunk_id and (sources is null or o.source_id = any (sources))
                offset 0
            ) e
            where kinds is null or 'chunk' = any (kinds)
            group by c.id, e.id
        ) p
    ),
    arrived as materialized (
        select p.entry_id, r.mass * p.weight / sum(p.weight) over (partition by r.concept_id, r.seed_id, r.edge_id) as share,
               r.seed_id, r.concept_id, r.edge_id
        from reached r join place p on p.concept_id = r.concept_id
        where p.entry_id is distinct from r.seed_id
    ),
    total as (
        select a.entry_id, sum(a.share) as share
        from arrived a group by a.entry_id
        order by 2 desc, a.entry_id
        limit 400
    )
    select distinct on (t.entry_id) t.entry_id, t.share::real, a.seed_id, a.concept_id, a.edge_id
    from total t join arrived a on a.entry_id = t.entry_id
    order by t.entry_id, a.share desc, a.seed_id, a.concept_id, a.edge_id;
end
$$;

-- The ranked list of each pool. mode: text, vector, graph or hybrid; any other is words and vectors without a walk. named: concepts that the question names.
-- hybrid is 0.3 of the text score, scaled to a best of 1 in each pool, and 0.7 of the square root of the walk's share,
-- scaled to a best of 1 over all pools, since the walk knows no languages: the lists can be merged by it. What
-- words and vectors put first stays first where the question names no concept: one that needs no hop loses nothing.
create or replace function kb.search_entries(
    question text, question_vector text, model_name text, pools text[], kinds text[], sources bigint[], mode text,
    named bigint[], max_hits int
) returns table (pool text, entry_id bigint, score real, words real, vectors real, graph real, cosine real,
                 deviations real, seed_id bigint, concept_id bigint, edge_id bigint)
language plpgsql stable
set search_path = pg_catalog
set jit = off
-- planned once a connection: to plan these queries for each question costs a third of what they do
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with hit as materialized (
        select t.pool, t.entry_id, case mode when 'text' then t.words when 'vector' then greatest(t.vectors, 0) else t.score end as score,
               t.words, t.vectors, t.cosine, t.deviations
        from kb.search_text(case when mode = 'vector' then '' else question end,
                            case when mode = 'text' then null else question_vector end,
                            model_name, pools, kinds, sources, 200) t
    ),
    ranked as (
        select h.pool, h.entry_id, h.score, h.words, h.vectors, h.cosine, h.deviations,
               h.score / nullif(max(h.score) over (partition by h.pool), 0) as scaled,
               row_number() over (partition by h.pool order by h.score desc, h.entry_id) as rank
        from hit h
    ),
    seed as materialized (
        select r.entry_id, exp(12 * (r.scaled - 1))::real as weight from ranked r
        where r.rank <= 10 and r.scaled > 0 and mode in ('graph', 'hybrid')
    ),
    restart as materialized (
        select s.entry_id,
               (s.weight / sum(s.weight) over () * case when cardinality(named) > 0 then 0.7 else 1 end)::real as weight
        from seed s
    ),
    walked as materialized (
        select w.entry_id, w.share, w.seed_id, w.concept_id, w.edge_id
        from (select array_agg(r.entry_id) as ids, array_agg(r.weight) as weights from restart r) s,
             kb.walk(question, pools, s.ids, s.weights, named, kinds, sources) w
        where mode in ('graph', 'hybrid')
    ),
    visited as (
        select coalesce(w.entry_id, r.entry_id) as entry_id,
               0.3 * coalesce(r.weight, 0) + 0.7 * coalesce(w.share, 0) as share, w.seed_id, w.concept_id, w.edge_id
        from walked w full join restart r on r.entry_id = w.entry_id
    ),
    joined as (
        -- only of what words and vectors did not find the pool is looked up
        select coalesce(r.pool, e.pool) as pool, coalesce(r.entry_id, v.entry_id) as id, coalesce(r.scaled, 0) as text_score, coalesce(r.score, 0) as hit_score,
               coalesce(r.words, 0) as words, coalesce(r.vectors, 0) as vectors, r.cosine, coalesce(r.deviations, 0) as deviations,
               coalesce(v.share, 0) as share, v.seed_id, v.concept_id, v.edge_id
        from ranked r full join visited v on v.entry_id = r.entry_id
        left join lateral (
            select o.pool from kb.entry o
            where r.entry_id is null and o.id = v.entry_id and o.pool = any (pools) offset 0
        ) e on true
        where coalesce(r.pool, e.pool) is not null
    ),
    scaled as (
        select j.pool, j.id, j.hit_score, j.words, j.vectors, j.cosine, j.deviations, j.text_score,
               sqrt(j.share / nullif(max(j.share) over (), 0)) as walked, j.seed_id, j.concept_id, j.edge_id
        from joined j
    ),
    mixed as (
        select s.pool, s.id, s.words, s.vectors, coalesce(s.walked, 0) as walked, s.cosine, s.deviations,
               s.seed_id, s.concept_id, s.edge_id,
               case mode when 'graph' then coalesce(s.walked, 0)
                         when 'hybrid' then case when s.text_score = 1 and cardinality(named) = 0 then 1
                                                 else 0.3 * s.text_score + 0.7 * coalesce(s.walked, 0) end
                         else s.hit_score end as score
        from scaled s
    ),
    final as (
        select m.pool, m.id, m.score, m.words, m.vectors, m.walked, m.cosine, m.deviations, m.seed_id, m.concept_id, m.edge_id,
               row_number() over (partition by m.pool order by m.score desc, m.id) as rank
        from mixed m
        where m.score > 0
    )
    select f.pool, f.id, f.score::real, f.words::real, f.vectors::real, f.walked::real, f.cosine, f.deviations::real,
           f.seed_id, f.concept_id, f.edge_id
    from final f
    where f.rank <= max_hits;
end
$$;
