-- What lies between two concepts: typed paths of at most four edges, two from each end. The small functions set
-- no search_path, so that they become part of the queries that call them.

-- How much an edge says: its confidence, less where it only contrasts or measures.
create or replace function kb.edge_strength(type text, confidence real) returns real
language sql immutable parallel safe
as $$
    select (confidence * case type when 'compares_with' then 0.5 when 'evaluated_on' then 0.5
                                 when 'related_to' then 0.1 else 1 end)::real
$$;

-- The strongest typed edges of a concept: those to what is seen in more sources first among equals.
create or replace function kb.strong_edges(of_id bigint, max_edges int)
returns table (edge_id bigint, other_id bigint, strength real)
language sql stable
as $$
    select e.id, case when e.head_id = of_id then e.tail_id else e.head_id end, kb.edge_strength(e.type, e.confidence)
    from kb.edge e
    where e.status = 'typed' and e.type <> 'related_to' and (e.head_id = of_id or e.tail_id = of_id)
    order by 3 desc, e.n_sources desc, e.evidence_sha
    limit max_edges
$$;

-- Paths, shortest first, then strongest (the product of their edges); those that pass concepts of via come
-- before all others. nodes begins with from_id and ends with to_id; edges has one element less.
create or replace function kb.paths(from_id bigint, to_id bigint, via bigint[], max_paths int)
returns table (nodes bigint[], edges bigint[], strength real)
language sql stable
set search_path = pg_catalog
set jit = off
-- the halves are many more than a plan can guess: pair by pair they would cost their square
set enable_nestloop = off
as $$
    with half as materialized (
        select s.id as start_id, s.id as tip, array[s.id] as nodes, array[]::bigint[] as edges, 1::real as strength
        from unnest(array[from_id, to_id]) as s (id)
        union all
        select s.id, e.other_id, array[s.id, e.other_id], array[e.edge_id], e.strength
        from unnest(array[from_id, to_id]) as s (id), kb.strong_edges(s.id, 60) e
        union all
        select s.id, f.other_id, array[s.id, e.other_id, f.other_id], array[e.edge_id, f.edge_id], e.strength * f.strength
        from unnest(array[from_id, to_id]) as s (id), kb.strong_edges(s.id, 60) e, kb.strong_edges(e.other_id, 40) f
        where f.other_id <> s.id
    ),
    whole as (
        select a.nodes || (select coalesce(array_agg(n.id order by n.at desc), '{}')
                           from unnest(b.nodes) with ordinality as n (id, at) where n.at < cardinality(b.nodes)) as nodes,
               a.edges || (select coalesce(array_agg(n.id order by n.at desc), '{}')
                           from unnest(b.edges) with ordinality as n (id, at)) as edges,
               (a.strength * b.strength)::real as strength
        from half a
        join half b on b.tip = a.tip
        where a.start_id = from_id and b.start_id = to_id and from_id <> to_id
          -- one cut for each length, else a path would be found once a cut
          and cardinality(a.edges) - cardinality(b.edges) in (0, 1)
          and not (a.nodes[1:cardinality(a.nodes) - 1] && b.nodes)
          and not (b.nodes[1:cardinality(b.nodes) - 1] && a.nodes)
    )
    select w.nodes, w.edges, w.strength
    from whole w
    order by (select count(*) from unnest(via) v (id) where v.id = any (w.nodes)) desc, cardinality(w.edges),
             w.strength desc, w.edges
    limit max_paths
$$;

-- How much it says that a passage speaks of a concept, or that two concepts share it: little where many
-- sources speak of it, more where it has a source of its own. In (0, 1].
create or replace function kb.specificity(c kb.concept) returns real
language sql immutable parallel safe
as $$
    select (case when c.main_source_id is null then 0.5 else 1 end / (1 + ln(greatest(c.n_sources, 1))))::real
$$;

-- Concepts that a typed edge joins to both, those first that say most: strong edges, a specific concept.
create or replace function kb.shared_neighbours(first_id bigint, second_id bigint, max_shared int)
returns table (concept_id bigint, first_edge bigint, second_edge bigint, strength real)
language sql stable
set search_path = pg_catalog
as $$
    select a.other_id, a.edge_id, b.edge_id, (a.strength * b.strength * kb.specificity(c))::real
    from kb.strong_edges(first_id, 500) a
    join kb.strong_edges(second_id, 500) b on b.other_id = a.other_id
    join kb.concept c on c.id = a.other_id
    where a.other_id not in (first_id, second_id)
    order by 4 desc, c.key collate "C"
    limit max_shared
$$;
