-- Edges from statements that name two concepts, and from links between two sources: a source about one concept
-- that links to the subject of another. Statements that name many are lists: they say little.

create or replace function kb.found_evidence(max_named int, max_kept int) returns table (
    low_id bigint, high_id bigint, ordinal int, claim_id bigint, source_id bigint, first_id bigint,
    first_start int, first_end int, last_start int, last_end int, n_between int, place text, n_evidence int,
    n_sources int, kind text
)
language sql stable
set search_path = pg_catalog
as $$
    with named as (
        select distinct on (m.claim_id, m.concept_id)
               m.claim_id, m.concept_id, m.start_at - c.start_at as start_at, m.end_at - c.start_at as end_at
        from kb.mention m join kb.claim c on c.id = m.claim_id
        order by m.claim_id, m.concept_id, m.start_at
    ),
    counted as (
        select n.*, count(*) over (partition by n.claim_id) as n_named,
               row_number() over (partition by n.claim_id order by n.start_at) as at
        from named n
    ),
    pair as (
        select least(a.concept_id, b.concept_id) as low_id, greatest(a.concept_id, b.concept_id) as high_id,
               a.claim_id, a.concept_id as first_id, a.start_at as first_start, a.end_at as first_end,
               b.start_at as last_start, b.end_at as last_end, (b.at - a.at - 1)::int as n_between,
               'statement' as kind
        from counted a
        join counted b on b.claim_id = a.claim_id and b.at > a.at
        where a.n_named <= max_named
    ),
    linked as (
        select distinct on (c.id, d.id)
               least(c.id, d.id) as low_id, greatest(c.id, d.id) as high_id, m.claim_id, c.id as first_id,
               0 as first_start, 0 as first_end, m.start_at - l.start_at as last_start,
               m.end_at - l.start_at as last_end, 0 as n_between, 'link' as kind
        from kb.mention m
        join kb.claim l on l.id = m.claim_id
        join kb.concept c on c.main_source_id = m.source_id
        join kb.concept d on d.id = m.concept_id and d.main_source_id <> m.source_id
        where m.linked
          and not exists (select from kb.mention o where o.claim_id = m.claim_id and o.concept_id = c.id)
        order by c.id, d.id, m.start_at
    ),
    found as (
        select * from pair
        union all
        select * from linked
    ),
    placed as (
        select p.*, c.source_id, (count(*) over (partition by p.low_id, p.high_id))::int as n_evidence,
               (dense_rank() over (partition by p.low_id, p.high_id order by c.source_id)
                + dense_rank() over (partition by p.low_id, p.high_id order by c.source_id desc) - 1)::int as n_sources, g.key || ':' || lpad(c.start_at::text, 9, '0') as place,
               row_number() over (
                   partition by p.low_id, p.high_id
                   order by (p.kind = 'link'), p.n_between, (c.rank < 0.5), p.last_start - p.first_end, g.key collate "C", c.start_at
               ) as ordinal
        from found p
        join kb.claim c on c.id = p.claim_id
        join kb.source_page g on g.source_id = c.source_id
    )
    select low_id, high_id, ordinal::int, claim_id, source_id, first_id, first_start, first_end, last_start, last_end,
           n_between, place, n_evidence, n_sources, kind
    from placed
    where ordinal <= max_kept
$$;

-- Bring the edges to what the statements hold. A type is kept while its evidence is the same.
create or replace function kb.link_concepts(max_named int, max_kept int)
returns table (n_edges bigint, n_new bigint, n_changed bigint, n_gone bigint)
language plpgsql
set search_path = pg_catalog
as $$
begin
    create temporary table found on commit drop as
    select * from kb.found_evidence(max_named, max_kept);

    create temporary table wanted on commit drop as
    select f.low_id, f.high_id,
           kb.sha(string_agg(
               kb.sha(f.place, c.text, a.key, a.kind, b.key, b.kind, (f.first_id = f.low_id)::text,
                      f.first_start::text, f.first_end::text, f.last_start::text, f.last_end::text,
                      f.n_between::text, f.kind),
               ' ' order by f.ordinal)) as evidence_sha,
           max(f.n_sources) as n_sources, max(f.n_evidence) as n_evidence,
           (array_agg(f.first_id order by f.ordinal))[1] as first_id
    from pg_temp.found f
    join kb.claim c on c.id = f.claim_id
    join kb.concept a on a.id = f.low_id
    join kb.concept b on b.id = f.high_id
    group by f.low_id, f.high_id;

    delete from kb.edge e
    where e.method is distinct from 'human'
      and not exists (select from pg_temp.wanted w
                      where w.low_id = least(e.head_id, e.tail_id) and w.high_id = greatest(e.head_id, e.tail_id));
    get diagnostics n_gone = row_count;

    update kb.edge e
    set evidence_sha = w.evidence_sha, n_sources = w.n_sources, n_evidence = w.n_evidence
    from pg_temp.wanted w
    where w.low_id = least(e.head_id, e.tail_id) and w.high_id = greatest(e.head_id, e.tail_id)
      and (e.evidence_sha, e.n_sources, e.n_evidence) is distinct from (w.evidence_sha, w.n_sources, w.n_evidence);
    get diagnostics n_changed = row_count;

    insert into kb.edge (head_id, tail_id, evidence_sha, n_sources, n_evidence)
    select w.first_id, case when w.first_id = w.low_id then w.high_id else w.low_id end, w.evidence_sha, w.n_sources,
           w.n_evidence
    from pg_temp.wanted w
    where not exists (select from kb.edge e
                      where least(e.head_id, e.tail_id) = w.low_id and greatest(e.head_id, e.tail_id) = w.high_id);
    get diagnostics n_new = row_count;

    -- Claims may have been read anew with the same words, so the rows are always laid again.
    delete from kb.edge_evidence;
    insert into kb.edge_evidence (edge_id, ordinal, claim_id, first_id, first_start, first_end, last_start, last_end,
                                  n_between, kind)
    select e.id, f.ordinal, f.claim_id, f.first_id, f.first_start, f.first_end, f.last_start, f.last_end, f.n_between,
           f.kind
    from pg_temp.found f
    join kb.edge e on least(e.head_id, e.tail_id) = f.low_id and greatest(e.head_id, e.tail_id) = f.high_id;

    select count(*) into n_edges from kb.edge;
    drop table pg_temp.found, pg_temp.wanted;
    return next;
end
$$;
