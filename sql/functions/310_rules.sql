-- The first classifier: cue rules over the evidence of an edge.

create or replace function kb.rules_sha() returns text
language sql stable
set search_path = pg_catalog
as $$
    select kb.sha('rules-7', string_agg(kb.sha(name, type, effect, lang, backward::text, weight::text,
               array_to_string(head_kinds, ','), array_to_string(tail_kinds, ','), pattern), ' ' order by name))
    from kb.edge_rule
$$;

-- The rule with the most weight that fires on each piece of evidence of the edges in pg_temp.stale, and whether
-- the evidence denies. Rule by rule over all evidence, since Postgres keeps only a few compiled patterns. A match
-- that holds a denial is none, unless the rule itself names it ("impossible without"). Where a sentence only asks,
-- or denies what a stronger rule does not claim, nothing but being listed together is left of it.
create or replace function kb.rule_votes() returns table (
    edge_id bigint, ordinal int, denied boolean, type text, head_id bigint, tail_id bigint, weight real, rule text
)
language plpgsql
set search_path = pg_catalog
as $$
declare
    r kb.edge_rule;
    cue text;
begin
    create temporary table evidence on commit drop as
    -- Postgres keeps only 32 compiled patterns. So it is one step after another over all rows, a language at a time:
    -- a sort lets no row go on before all are there.
    with spoken as materialized (
        select v.*, c.text, kb.prose_lang(c.lang, c.text, v.first_start, v.first_end, v.last_start, v.last_end) as lang
        from kb.edge_evidence v join kb.claim c on c.id = v.claim_id
        where v.kind = 'statement' and v.edge_id in (select id from pg_temp.stale)
        order by lang
    ),
    marked as materialized (
        select s.edge_id, s.ordinal, s.n_between, s.lang, kb.is_question(s.text, s.last_end) as is_question,
               a.id as first_id, a.kind as first_kind, b.id as last_id, b.kind as last_kind,
               case when s.last_start - s.first_end <= 140 then
                   kb.marked(s.lang, s.text, s.first_start, s.first_end, s.last_start, s.last_end) else '' end as told
        from spoken s
        join kb.edge e on e.id = s.edge_id
        join kb.concept a on a.id = s.first_id
        join kb.concept b on b.id = case when e.head_id = s.first_id then e.tail_id else e.head_id end
        order by s.lang
    ),
    read as materialized (
        select m.*, kb.reading(m.lang, m.told) as reading from marked m order by m.lang
    ),
    verb as materialized (
        select u.lang, string_agg(distinct kb.word_read_alone(u.lang, w.word), '|') as verbs
        from kb.edge_rule u
        cross join lateral regexp_split_to_table(substring(u.pattern from '^@[^<]*<([^<>]+)>'), '\s+') w (word)
        where u.effect = 'says' and u.type <> 'related_to' and w.word <> ''
        group by u.lang
    ),
    framed as materialized (
        select d.*, kb.nearest_verb(d.lang, kb.plain(d.lang, d.reading), u.verbs) as frame
        from read d join verb u on u.lang = d.lang
        order by d.lang
    ),
    turned as materialized (
        select f.*, kb.turned(f.lang, f.frame) as other from framed f
    )
    select t.edge_id, t.ordinal, t.n_between, t.lang, t.is_question,
           case when t.other is null then t.first_id else t.last_id end as first_id,
           case when t.other is null then t.first_kind else t.last_kind end as first_kind,
           case when t.other is null then t.last_id else t.first_id end as last_id,
           case when t.other is null then t.last_kind else t.first_kind end as last_kind,
           coalesce(t.other, t.frame) as frame, replace(coalesce(t.other, t.frame), '_n', '') as bare_frame
    from turned t;

    create temporary table fired (
        edge_id bigint, ordinal int, effect text, type text, head_id bigint, tail_id bigint, weight real, rule text
    ) on commit drop;

    for r in select * from kb.edge_rule order by name loop
        cue := kb.cue_pattern(r.lang, r.pattern);
        insert into pg_temp.fired
        select e.edge_id, e.ordinal, r.effect, r.type, case when r.backward then e.last_id else e.first_id end,
               case when r.backward then e.first_id else e.last_id end, (r.weight / (1 + e.n_between))::real, r.name
        from (
            -- offset: so that the pattern is matched once
            select x.*, substring(case r.effect when 'says' then x.frame else x.bare_frame end
                                  from '((?:^| )(?:' || cue || '))') as said
            from pg_temp.evidence x
            where x.lang = r.lang
            offset 0
        ) e
        where e.said is not null
          and (r.effect <> 'says'
               or (r.pattern ~ ('\m(' || kb.negators(r.lang) || ')\M')
                   or e.said !~ ('\m(' || kb.negators(r.lang) || ')\M|_n\M'))
                  and not kb.strays(r.lang, e.said))
          and (r.head_kinds is null or case when r.backward then e.last_kind else e.first_kind end = any (r.head_kinds))
          and (r.tail_kinds is null or case when r.backward then e.first_kind else e.last_kind end = any (r.tail_kinds));
    end loop;

    return query
    with mood as (
        select e.edge_id, e.ordinal, kb.denied(e.lang, e.frame) as denies_here, bool_or(f.effect = 'reverses') as reverses,
               max(f.weight) filter (where f.effect = 'denies') as denies,
               case when e.is_question then 1 else max(f.weight) filter (where f.effect = 'asks') end as asks
        from pg_temp.evidence e
        left join pg_temp.fired f on f.edge_id = e.edge_id and f.ordinal = e.ordinal
        group by e.edge_id, e.ordinal, e.lang, e.frame, e.is_question
    )
    select distinct on (m.edge_id, m.ordinal) m.edge_id, m.ordinal,
           m.reverses is not true and coalesce(m.denies, 0) > coalesce(m.asks, 0)
               or m.asks is null and (m.denies_here <> coalesce(m.reverses, false)),
           f.type, f.head_id, f.tail_id, f.weight, f.rule
    from mood m
    left join pg_temp.fired f
        on f.edge_id = m.edge_id and f.ordinal = m.ordinal and f.effect = 'says'
       and (f.type = 'related_to'
            or m.reverses is not true and f.weight > greatest(coalesce(m.asks, 0), coalesce(m.denies, 0)))
    left join kb.edge_type t on t.name = f.type
    order by m.edge_id, m.ordinal, f.weight desc nulls last, t.ordinal, f.rule;
    drop table pg_temp.evidence, pg_temp.fired;
end
$$;

-- Let the rules vote on every edge whose evidence or rules changed, then give all edges that no model and no
-- person typed what the vote says. The type with the most weight wins; being listed together counts only where
-- nothing else is said; an edge whose every statement denies is rejected; without any cue it is related_to. With
-- a model to ask, an edge of which the rules are not sure waits for it.
create or replace function kb.classify_by_rules(with_model boolean default false)
returns table (n_typed bigint, n_rejected bigint)
language plpgsql
set search_path = pg_catalog
as $$
declare
    rules text := kb.rules_sha();
    sure real := coalesce((select value::real from kb.setting where name = 'sure_confidence'), 0.8);
begin
    perform kb.apply_decisions();
    create temporary table stale on commit drop as
    select e.id, kb.sha(e.evidence_sha, rules) as sha
    from kb.edge e
    where e.method is distinct from 'human'
      and e.typed_sha is distinct from kb.sha(e.evidence_sha, rules)
      and e.typed_sha is distinct from kb.sha('model', e.evidence_sha);

    create temporary table verdict on commit drop as
    with said as materialized (
        select * from kb.rule_votes()
    ),
    vote as (
        select v.edge_id, v.type, v.head_id, max(v.weight)::numeric as best, sum(v.weight::numeric) as total,
               (array_agg(v.rule order by v.weight desc, v.rule, v.ordinal))[1] as rule,
               (array_agg(v.ordinal order by v.weight desc, v.rule, v.ordinal))[1] as ordinal
        from said v
        where v.type is not null
        group by v.edge_id, v.type, v.head_id
    )
    select s.id as edge_id, w.type, w.head_id, coalesce(w.rule, case when d.denied then 'denied' end) as rule,
           coalesce(w.confidence, case when d.denied then 0.9 else 0.2 end)::real as confidence, s.sha,
           coalesce(w.ordinal, 1) as ordinal
    from pg_temp.stale s
    left join lateral (select bool_and(v.denied and v.type is null) as denied from said v where v.edge_id = s.id) d
      on true
    left join lateral (
        select v.type, v.head_id, v.rule,
               v.best * v.total / (select sum(o.total) from vote o
                                   where o.edge_id = s.id and (v.type = 'related_to' or o.type <> 'related_to'))
                   as confidence, v.ordinal
        from vote v
        join kb.edge_type t on t.name = v.type
        join kb.concept h on h.id = v.head_id
        where v.edge_id = s.id
        order by (v.type = 'related_to'), v.total desc, t.ordinal, h.key collate "C"
        limit 1
    ) w on true;

    update kb.edge e
    set rule_type = v.type, rule_head_id = v.head_id, rule_confidence = v.confidence, rule = v.rule, typed_sha = v.sha,
        method = null, model = '', prompt_version = '', answer = '', mirror_answer = '', needs_review = false,
        type = null, status = 'pending', confidence = null, shown_ordinal = v.ordinal
    from pg_temp.verdict v
    where e.id = v.edge_id;

    with meant as (
        select e.id, m.is_unsure,
               case when m.is_unsure or e.rule = 'denied' then null else coalesce(e.rule_type, 'related_to') end as type,
               case when m.is_unsure then 'pending' when e.rule = 'denied' then 'rejected' else 'typed' end as status
        from kb.edge e
        cross join lateral (select with_model and e.rule_confidence < sure as is_unsure) m
        where e.method is distinct from 'human' and e.method is distinct from 'llm'
    ),
    placed as (
        select m.*, coalesce(kb.head_of(coalesce(m.type, 'related_to'), e.rule_head_id, e.head_id, e.tail_id), e.head_id)
                   as head_id
        from meant m join kb.edge e on e.id = m.id
        where (e.type, e.status) is distinct from (m.type, m.status)
    ),
    changed as (
        update kb.edge e
        set type = p.type, status = p.status, method = case when not p.is_unsure then 'rule' end,
            confidence = case when not p.is_unsure then e.rule_confidence end, head_id = p.head_id,
            tail_id = case when p.head_id = e.head_id then e.tail_id else e.head_id end
        from placed p
        where e.id = p.id
        returning p.status
    )
    select count(*) filter (where c.status = 'typed'), count(*) filter (where c.status = 'rejected')
    into n_typed, n_rejected
    from changed c;
    drop table pg_temp.stale, pg_temp.verdict;
    return next;
end
$$;
