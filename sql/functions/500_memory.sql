-- Memory: decay at read time, ranking, the garland. Weights and floors stand here and nowhere else.

-- What time has done to each memory. decay is in (0, 1]: an unused one counts half after its topic's half-life (days,
-- a setting of the store, 30 where there is none). importance in [0, 1) rises with use and with what refers to it.
-- Archived is what has decayed below 0.1 and was seldom used; nothing is ever deleted for it.
create or replace view kb.memory_state as
select m.id, h.half_life, d.decay,
       -- no join, so that who does not ask for it does not pay for it
       -- the exponent no further than a float goes
       1 - exp(-least((m.n_uses + 2 * (select count(*) from kb.memory_edge e
                                       where e.tail_id = m.id and e.type in ('CAUSED_BY', 'REFERENCES'))) / 10.0::float8,
                      700)) as importance,
       d.decay < 0.1 and m.n_uses < 3 and not m.is_pinned as is_archived
from kb.memory m
left join kb.setting t on t.name = 'half_life:' || m.topic
left join kb.setting o on o.name = 'half_life'
cross join lateral (select coalesce(t.value, o.value, '30')::float8 as half_life) h
cross join lateral (
    -- no further than a float goes
    select power(0.5, least(greatest(extract(epoch from now() - m.used_at)::float8, 0) / 86400 / h.half_life, 900)) as decay
) d;

-- Memories that fit a question, as one agent may see them. A hit shares words of some weight with it, or stands out
-- by meaning: margin says how far its cosine lies above those of everyday sentences, in their deviations. What scores
-- far below the best is left out. score is the text score, less for another date than the question names, less for
-- what was long not used; what was superseded ranks last.
create or replace function kb.find_memories(
    question text, question_vector text, model_name text, me text, in_domain text, on_topic text,
    first_at timestamptz, last_at timestamptz, with_archived boolean, floor_words real, floor_margin real, max_hits int
) returns table (id bigint, score real, words real, margin real)
language plpgsql stable
set search_path = pg_catalog
set jit = off
as $$
#variable_conflict use_column
declare
    pools text[] := array['memory/en', 'memory/ru'];
    n int;
begin
    -- What is not wanted must not take the place of what is.
    if in_domain = '' and on_topic = '' then
        select greatest(100, 4 * max_hits) + count(*) into n from kb.memory m where m.owner <> '' and m.owner <> me;
    else
        select count(*) into n from kb.memory m;
    end if;
    return query
    with word as materialized (
        select w.pool, w.entry_id, w.score from kb.search_words(question, pools, null, null, n, greatest(3000, n), n) w
    ),
    near as materialized (
        select v.pool, v.entry_id, v.mean, v.best
        from kb.search_vectors(question_vector, model_name, pools, null, null, n) v where question_vector is not null
    ),
    spread as materialized (
        select v.pool, max(v.mean) as mean, max(v.best) as best from near v group by v.pool
    ),
    seen as materialized (
        select h.pool, h.words, m.id, m.text_sha, m.superseded_by, m.at, s.decay, s.importance
        from (
            select coalesce(w.pool, v.pool) as pool, coalesce(w.entry_id, v.entry_id) as entry_id, coalesce(w.score, 0) as words
            from word w full join near v on v.entry_id = w.entry_id
        ) h
        -- "offset 0" keeps these a look by index for each row
        cross join lateral (select o.record_id from kb.entry o where o.id = h.entry_id offset 0) e
        cross join lateral (
            select o.id, o.text_sha, o.superseded_by, o.at, o.owner, o.domain, o.topic
            from kb.memory o where o.id = e.record_id offset 0
        ) m
        cross join lateral (
            select o.decay, o.importance, o.is_archived from kb.memory_state o where o.id = m.id offset 0
        ) s
        where m.owner in ('', me) and (in_domain = '' or m.domain = in_domain) and (on_topic = '' or m.topic = on_topic)
          and (with_archived or not s.is_archived)
    ),
    known as materialized (
        select c.text_sha, c.cosine
        from kb.cosines(question_vector, model_name, (select array_agg(x.text_sha) from (
            select k.text_sha from seen k union select b.text_sha from kb.background b) x)) c
        where question_vector is not null
    ),
    nothing as (
        select avg(k.cosine) as mean, stddev_pop(k.cosine) as deviation
        from known k join kb.background b on b.text_sha = k.text_sha
    ),
    close as (
        select s.id, s.words, s.superseded_by, s.at, s.decay, s.importance, s.pool,
               greatest((k.cosine - p.mean) / greatest(p.best - p.mean, 1e-6), 0) as vectors,
               coalesce((k.cosine - o.mean) / nullif(o.deviation, 0), 0) as margin
        from seen s
        cross join nothing o
        left join known k on k.text_sha = s.text_sha
        left join spread p on p.pool = s.pool
    ),
    fit as (
        select c.id, c.words, c.margin,
               -- The best of a few memories is not good for that: it counts in full if it stands out.
               (2 * c.words + greatest(c.vectors * least(max(c.margin) over (partition by c.pool) / 6, 1),
                                       least(c.margin / 12, 1), 0)) / 3
               * (0.75 + 0.25 * c.decay) * (0.9 + 0.1 * c.importance)
               * case when first_at is null or c.at between first_at and last_at then 1 else 0.25 end as score,
               case when c.superseded_by is null then 1 else 0.05 end as standing
        from close c
        where c.words >= floor_words or c.margin >= floor_margin
    )
    select f.id, least(1, f.score * f.standing)::real, f.words::real, f.margin::real
    from (select i.id, i.score, i.standing, i.words, i.margin, max(i.score) over () as best from fit i) f
    where f.score >= 0.3 * f.best
    order by f.score * f.standing desc, f.id
    limit max_hits;
end
$$;

-- Count a use and note that the session has heard of these; a reader may do this and write nothing else.
create or replace function kb.count_recall(ids bigint[], by_session text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog
as $$
begin
    perform m.id from kb.memory m where m.id = any (ids) order by m.id for no key update;
    update kb.memory m set n_uses = m.n_uses + 1, used_at = clock_timestamp() where m.id = any (ids);
    insert into kb.memory_recall (session, memory_id)
    select by_session, i from unnest(ids) as i where exists (select from kb.memory m where m.id = i) order by i
    on conflict (session, memory_id) do update set recalled_at = clock_timestamp();
    delete from kb.memory_recall r where r.recalled_at < clock_timestamp() - interval '1 day';
end
$$;

-- The edges at memories, of each those that say most first.
create or replace function kb.memory_steps(of_ids bigint[], me text, max_steps int)
returns table (of_id bigint, type text, forward boolean, memory_id bigint, concept_id bigint, domain text, rank bigint)
language sql stable
set search_path = pg_catalog
set jit = off
as $$
    with edge as (
        select i.id as of_id, a.type, true as forward, a.tail_id as memory_id, a.concept_id, a.domain, a.weight
        from unnest(of_ids) as i (id) join kb.memory_edge a on a.head_id = i.id
        union all
        select i.id, b.type, false, b.head_id, null, null, b.weight
        from unnest(of_ids) as i (id) join kb.memory_edge b on b.tail_id = i.id and b.type <> 'SIMILAR_TO'
    ),
    seen as materialized (
        select m.id from kb.memory m join kb.memory_state s on s.id = m.id
        where m.id in (select e.memory_id from edge e) and m.owner in ('', me) and not s.is_archived
    ),
    -- of several edges to one place, the one that says most
    telling as (
        select distinct on (e.of_id, e.memory_id, e.concept_id, e.domain)
               e.of_id, e.type, e.forward, e.memory_id, e.concept_id, e.domain, e.weight * w.says as says
        from edge e
        cross join lateral (
            select case e.type when 'CAUSED_BY' then 5 when 'FOLLOWED_BY' then 3 when 'REFERENCES' then 2.5
                               when 'SIMILAR_TO' then 2 else 0.5 end as says
        ) w
        where e.memory_id is null or e.memory_id in (select s.id from seen s)
        order by e.of_id, e.memory_id, e.concept_id, e.domain, e.weight * w.says desc, e.type, e.forward desc
    ),
    ranked as (
        select t.of_id, t.type, t.forward, t.memory_id, t.concept_id, t.domain,
               row_number() over (partition by t.of_id
                                  order by t.says desc, t.type, t.memory_id, t.concept_id, t.domain) as rank
        from telling t
    )
    select r.of_id, r.type, r.forward, r.memory_id, r.concept_id, r.domain, r.rank from ranked r where r.rank <= max_steps
$$;

-- Paths of one or two typed edges from hits, the telling types first; no node twice in a path. Each element of
-- path is {type, forward, memory, concept, domain}.
create or replace function kb.garland(hits bigint[], me text, max_steps int)
returns table (hit_id bigint, path jsonb)
language sql stable
set search_path = pg_catalog
set jit = off
as $$
    with first as materialized (
        select s.of_id as hit_id, s.type, s.forward, s.memory_id, s.concept_id, s.domain, s.rank
        from kb.memory_steps(hits, me, max_steps) s
    ),
    second as materialized (
        select s.of_id, s.type, s.forward, s.memory_id, s.concept_id, s.rank
        from kb.memory_steps((select array_agg(distinct f.memory_id) from first f where f.memory_id is not null),
                             me, max_steps) s
        where s.domain is null
    )
    select f.hit_id,
           jsonb_build_array(jsonb_build_object('type', f.type, 'forward', f.forward, 'memory', f.memory_id,
                                                'concept', f.concept_id, 'domain', f.domain))
           || case when s.type is null then '[]'::jsonb else jsonb_build_array(
               jsonb_build_object('type', s.type, 'forward', s.forward, 'memory', s.memory_id, 'concept', s.concept_id,
                                  'domain', null)) end
    from first f
    left join lateral (
        select n.type, n.forward, n.memory_id, n.concept_id
        from second n
        where n.of_id = f.memory_id and n.memory_id is distinct from f.hit_id
        order by n.rank limit 1
    ) s on true
    order by array_position(hits, f.hit_id), f.rank
$$;

-- Index memories anew: each with its own words twice, and once those said just before and after in its session.
create or replace function kb.index_memories(ids bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog
as $$
begin
    perform kb.unindex('memory', ids);
    perform kb.index_texts('memory', array_agg(m.id), array_agg('memory/' || m.lang), array_agg(null::bigint),
                           array_agg(null::bigint),
                           array_agg(concat_ws(' ', m.cleaned, m.cleaned, array_to_string(m.essence, ' '), m.domain, m.topic,
                                               before.cleaned, after.cleaned)),
                           array_agg(m.text_sha))
    from kb.memory m
    left join lateral (
        select o.cleaned from kb.memory o
        where o.session = m.session and o.agent = m.agent and o.owner = m.owner and o.id < m.id order by o.id desc limit 1
    ) before on true
    left join lateral (
        select o.cleaned from kb.memory o
        where o.session = m.session and o.agent = m.agent and o.owner = m.owner and o.id > m.id order by o.id limit 1
    ) after on true
    where m.id = any (ids)
    having count(*) > 0;
end
$$;
