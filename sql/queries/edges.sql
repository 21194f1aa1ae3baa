-- Single edges: what they rest on, and a person's word on them.

-- name: find_edge
select e.id, h.title as head, t.title as tail, e.type, e.status, e.method, e.model, e.prompt_version, e.confidence,
       e.rule, e.rule_type, e.rule_confidence, e.answer, e.mirror_answer, e.needs_review, e.n_sources, e.n_evidence,
       y.is_symmetric as symmetric, y.inverse
from kb.edge e
join kb.concept h on h.id = e.head_id
join kb.concept t on t.id = e.tail_id
left join kb.edge_type y on y.name = e.type
where least(e.head_id, e.tail_id) = least(%(one)s::bigint, %(other)s::bigint)
  and greatest(e.head_id, e.tail_id) = greatest(%(one)s::bigint, %(other)s::bigint);

-- name: list_evidence
select c.text, v.kind, p.slug as source, c.start_at, c.end_at, c.page
from kb.edge_evidence v
join kb.edge e on e.id = v.edge_id
join kb.claim c on c.id = v.claim_id
join kb.source_page p on p.source_id = c.source_id
where v.edge_id = %(edge)s
order by (v.ordinal = e.shown_ordinal) desc, v.ordinal;

-- name: apply_decisions
select kb.apply_decisions();

-- name: list_reviews
select h.title as head, e.type, t.title as tail, e.answer, e.mirror_answer, e.rule_type
from kb.edge e
join kb.concept h on h.id = e.head_id
join kb.concept t on t.id = e.tail_id
where e.needs_review
order by h.key collate "C", t.key collate "C";

-- name: save_edge_decision
with gone as (
    delete from kb.edge_decision d using kb.decided x
    where d.head_key = x.head_key and d.tail_key = x.tail_key
      and least(x.head_id, x.tail_id) = least(%(head)s::bigint, %(tail)s::bigint)
      and greatest(x.head_id, x.tail_id) = greatest(%(head)s::bigint, %(tail)s::bigint)
      and (d.head_key, d.tail_key) not in (
              select h.key, t.key from kb.concept h, kb.concept t where h.id = %(head)s and t.id = %(tail)s)
)
insert into kb.edge_decision as d (head_key, tail_key, type)
select h.key, t.key, %(type)s::text
from kb.concept h, kb.concept t
where h.id = %(head)s and t.id = %(tail)s
on conflict (head_key, tail_key) do update set type = excluded.type, decided_at = excluded.decided_at;

-- name: count_edge_decisions
select count(*) from kb.decided x
where least(x.head_id, x.tail_id) = least(%(head)s::bigint, %(tail)s::bigint)
  and greatest(x.head_id, x.tail_id) = greatest(%(head)s::bigint, %(tail)s::bigint);

-- name: forget_edge_decision
delete from kb.edge_decision d using kb.decided x
where d.head_key = x.head_key and d.tail_key = x.tail_key
  and least(x.head_id, x.tail_id) = least(%(head)s::bigint, %(tail)s::bigint)
  and greatest(x.head_id, x.tail_id) = greatest(%(head)s::bigint, %(tail)s::bigint);

-- name: list_double_decisions
-- Words on a pair of concepts that a later one replaced, or on one that became a single concept.
select d.head_key, d.type, d.tail_key, d.decided_at
from kb.edge_decision d
where not exists (select from kb.decided x where x.head_key = d.head_key and x.tail_key = d.tail_key)
  and exists (select from kb.alias a where a.key = d.head_key)
  and exists (select from kb.alias a where a.key = d.tail_key)
order by d.head_key collate "C", d.tail_key collate "C";

-- name: restore_edge_decision
insert into kb.edge_decision (head_key, tail_key, type, decided_at)
values (%(head_key)s, %(tail_key)s, %(type)s, %(decided_at)s::timestamptz)
on conflict (head_key, tail_key) do nothing;

-- name: delete_edge_decision
delete from kb.edge_decision where head_key = %(head_key)s and tail_key = %(tail_key)s;

-- name: list_graph
with recursive near as (
    select c.id, 0 as depth from kb.concept c where c.key = %(key)s
    union
    select case when e.head_id = n.id then e.tail_id else e.head_id end, n.depth + 1
    from near n
    join kb.edge e on n.id in (e.head_id, e.tail_id) and e.status = 'typed'
    where n.depth < %(depth)s and (e.type <> 'related_to' or %(all)s)
      and (%(types)s::text[] is null or e.type = any (%(types)s::text[]))
)
select distinct h.title as head, h.slug as head_slug, h.kind as head_kind, e.type, y.is_symmetric as symmetric,
       t.title as tail, t.slug as tail_slug, t.kind as tail_kind, e.confidence, e.method, e.n_sources, e.rule, y.ordinal,
       kb.shown_evidence(e) as evidence
from kb.edge e
join kb.edge_type y on y.name = e.type
join kb.concept h on h.id = e.head_id
join kb.concept t on t.id = e.tail_id
join near a on a.id = e.head_id
join near b on b.id = e.tail_id
where e.status = 'typed' and (e.type <> 'related_to' or %(all)s) and (a.depth < %(depth)s or b.depth < %(depth)s)
  and (%(types)s::text[] is null or e.type = any (%(types)s::text[]))
order by y.ordinal, head, tail;
