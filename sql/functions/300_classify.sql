-- Edge types by cue rules: what stands between two mentions names the type and its direction.

create or replace function kb.rules_sha() returns text
language sql stable
set search_path = pg_catalog
as $$
    select kb.sha('rules-1', string_agg(kb.sha(name, type, lang, scope, backward::text, weight::text,
               array_to_string(head_kinds, ','), array_to_string(tail_kinds, ','), pattern, unless), ' ' order by name))
    from kb.edge_rule
$$;

-- Text as rules read it.
create or replace function kb.folded(body text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select replace(lower(body), 'ё', 'е')
$$;

-- Whether a stretch denies what it says: "does not use", «не использует», "without", «без».
create or replace function kb.negated(lang text, body text) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select case lang
        when 'ru' then body ~ '\m(не|нет|без|вместо|никогда|ни)\M' and body !~ '\mне только\M'
        else body ~ '\m(not|no|never|without|cannot|instead of|rather than|neither|nor)\M|n''t\M'
             and body !~ '\mnot only\M' end
$$;

-- One row for each piece of evidence of the edges in pg_temp.stale and rule that fires on it. Rule by rule over
-- all evidence, since Postgres keeps only a few compiled patterns.
create or replace function kb.rule_votes() returns table (
    edge_id bigint, type text, head_id bigint, tail_id bigint, weight real, rule text
)
language plpgsql
set search_path = pg_catalog
as $$
declare
    r kb.edge_rule;
begin
    create temporary table evidence on commit drop as
    select v.edge_id, v.n_between, c.lang, a.id as first_id, a.kind as first_kind, b.id as last_id,
           b.kind as last_kind, t.between_text, kb.folded(right(substr(c.text, 1, v.first_start), 60)) as before_text
    from kb.edge_evidence v
    join kb.claim c on c.id = v.claim_id
    join kb.edge e on e.id = v.edge_id
    join kb.concept a on a.id = v.first_id
    join kb.concept b on b.id = case when e.head_id = v.first_id then e.tail_id else e.head_id end
    cross join lateral (
        select kb.folded(substr(c.text, v.first_end + 1, greatest(0, v.last_start - v.first_end))) as between_text
    ) t
    where v.edge_id in (select id from pg_temp.stale) and v.last_start - v.first_end <= 140 and not kb.negated(c.lang, t.between_text);

    for r in select * from kb.edge_rule order by name loop
        return query
        select e.edge_id, r.type, case when r.backward then e.last_id else e.first_id end,
               case when r.backward then e.first_id else e.last_id end, (r.weight / (1 + e.n_between))::real, r.name
        from pg_temp.evidence e
        where e.lang = r.lang
          and (r.head_kinds is null or case when r.backward then e.last_kind else e.first_kind end = any (r.head_kinds))
          and (r.tail_kinds is null or case when r.backward then e.first_kind else e.last_kind end = any (r.tail_kinds))
          and case r.scope when 'between' then e.between_text else e.before_text end ~ r.pattern
          and (r.unless is null or e.before_text || '|' || e.between_text !~ r.unless);
    end loop;
    drop table pg_temp.evidence;
end
$$;

-- Type every edge whose evidence or rules changed. The type with the most weight wins; without any cue an
-- edge is related_to; one whose every statement is negated is rejected. Symmetric types run in key order.
create or replace function kb.classify_by_rules() returns table (n_typed bigint, n_rejected bigint)
language plpgsql
set search_path = pg_catalog
as $$
declare
    rules text := kb.rules_sha();
begin
    create temporary table stale on commit drop as
    select e.id, kb.sha(e.evidence_sha, rules) as sha
    from kb.edge e
    where e.method is distinct from 'human' and e.typed_sha is distinct from kb.sha(e.evidence_sha, rules);

    create temporary table verdict on commit drop as
    with vote as (
        select v.edge_id, v.type, v.head_id, v.tail_id, max(v.weight)::numeric as best, sum(v.weight::numeric) as total,
               (array_agg(v.rule order by v.weight desc, v.rule))[1] as rule
        from kb.rule_votes() v
        group by v.edge_id, v.type, v.head_id, v.tail_id
    )
    select distinct on (v.edge_id) v.edge_id, v.type, v.head_id, v.tail_id, v.rule,
           (v.best * v.total / sum(v.total) over (partition by v.edge_id))::real as confidence
    from vote v
    join kb.edge_type t on t.name = v.type
    join kb.concept h on h.id = v.head_id
    order by v.edge_id, v.total desc, t.ordinal, h.key collate "C";

    update kb.edge e
    set type = coalesce(v.type, case when n.negated then null else 'related_to' end),
        status = case when v.type is null and n.negated then 'rejected' else 'typed' end,
        head_id = o.head_id, tail_id = o.tail_id,
        confidence = coalesce(v.confidence, 0.2), method = 'rule', rule = v.rule, typed_sha = s.sha
    from pg_temp.stale s
    join kb.edge old on old.id = s.id
    left join pg_temp.verdict v on v.edge_id = s.id
    left join kb.edge_type t on t.name = v.type
    join kb.concept a on a.id = old.head_id
    join kb.concept b on b.id = old.tail_id
    cross join lateral (
        select coalesce(bool_and(kb.negated(c.lang, kb.folded(substr(c.text, x.first_end + 1,
                                                  greatest(0, x.last_start - x.first_end))))), false) as negated
        from kb.edge_evidence x join kb.claim c on c.id = x.claim_id
        where x.edge_id = s.id
    ) n
    cross join lateral (
        select case when coalesce(t.is_symmetric, true) and a.key collate "C" < b.key collate "C" then a.id
                    when coalesce(t.is_symmetric, true) then b.id else v.head_id end as head_id,
               case when coalesce(t.is_symmetric, true) and a.key collate "C" < b.key collate "C" then b.id
                    when coalesce(t.is_symmetric, true) then a.id else v.tail_id end as tail_id
    ) o
    where e.id = s.id;

    select count(*) filter (where e.status = 'typed'), count(*) filter (where e.status = 'rejected')
    into n_typed, n_rejected
    from kb.edge e join pg_temp.stale s on s.id = e.id;
    drop table pg_temp.stale, pg_temp.verdict;
    return next;
end
$$;
