-- name: classify_by_rules
select n_typed, n_rejected from kb.classify_by_rules();

-- name: count_edge_types
select coalesce(e.type, e.status) as type, count(*) as n
from kb.edge e
group by 1
order by 2 desc, 1;

-- name: count_pending_edges
select count(*) from kb.edge where status = 'pending';
