-- The stage loop: runs, failures, leases.

-- name: start_run
insert into kb.run (stage) values (%(stage)s) returning id;

-- name: end_run
update kb.run set ended_at = clock_timestamp(), n_done = %(n_done)s, n_failed = %(n_failed)s where id = %(id)s;

-- name: save_failure
insert into kb.attempt (stage, item, reason, hint, is_quarantined)
values (%(stage)s, %(item)s, %(reason)s, %(hint)s, %(is_quarantined)s)
on conflict (stage, item) do update
set reason = excluded.reason, hint = excluded.hint, is_quarantined = excluded.is_quarantined, n_tries = kb.attempt.n_tries + 1, failed_at = clock_timestamp();

-- name: list_failed_items
select item from kb.attempt where stage = %(stage)s;

-- name: forget_failures
delete from kb.attempt where stage = %(stage)s and item = any (%(items)s::text[]);

-- name: drop_dead_leases
-- An owner lives while its session holds the lock of its name; the time is for one that hangs.
delete from kb.lease
where stage = %(stage)s and owner <> %(owner)s
  and (expires_at < clock_timestamp()
       or hashtextextended('kbwiki:' || owner, 0) not in (select hash from kb.held_name));

-- name: list_leases
select item from kb.lease where stage = %(stage)s and owner <> %(owner)s;

-- name: claim_items
insert into kb.lease (stage, item, owner, expires_at)
select %(stage)s, item, %(owner)s, clock_timestamp() + make_interval(secs => %(lease_s)s)
from unnest(%(items)s::text[]) as item;

-- name: count_live_leases
select count(*) from kb.lease
where stage = %(stage)s and owner <> %(owner)s and item = any (%(items)s::text[])
  and expires_at >= clock_timestamp()
  and hashtextextended('kbwiki:' || owner, 0) in (select hash from kb.held_name);

-- name: renew_leases
update kb.lease set expires_at = clock_timestamp() + make_interval(secs => %(lease_s)s) where owner = %(owner)s;

-- name: finish_item
-- Touches one row if the lease still holds.
with cleared as (delete from kb.attempt where stage = %(stage)s and item = %(item)s)
delete from kb.lease where stage = %(stage)s and item = %(item)s and owner = %(owner)s;

-- name: release_item
delete from kb.lease where stage = %(stage)s and item = %(item)s and owner = %(owner)s;

-- name: release_all
delete from kb.lease where owner = %(owner)s;

-- name: list_failures
select stage, item, reason, hint, is_quarantined, n_tries, failed_at from kb.attempt order by stage, item;
